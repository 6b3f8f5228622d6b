package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// apiClient calls a gateway as a user with a token would.
type apiClient struct {
	base  string
	token string
	http  *http.Client
}

// answerError is an error answer of the gateway, in the form of either of its contracts.
type answerError struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Errors []struct {
		Location string `json:"location"`
		Message  string `json:"message"`
	} `json:"errors"`

	Enveloped struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Param   string `json:"param"`
	} `json:"error"`
}

func (p *answerError) Error() string {
	var text strings.Builder
	if e := p.Enveloped; e.Code != "" {
		fmt.Fprintf(&text, "the gateway answered %d %s: %s", p.Status, e.Code, e.Message)
		if e.Param != "" {
			text.WriteString(" (" + e.Param + ")")
		}
		return text.String()
	}
	fmt.Fprintf(&text, "the gateway answered %d %s: %s", p.Status, p.Code, p.Detail)
	for _, e := range p.Errors {
		fmt.Fprintf(&text, "; %s: %s", e.Location, e.Message)
	}
	return text.String()
}

type apiConnection struct {
	ID         string `json:"id"`
	ConfigName string `json:"configName"`
}

type apiTest struct {
	Status    string  `json:"status"`
	Message   string  `json:"message"`
	LatencyMS float64 `json:"latencyMs"`
}

type apiSchema struct {
	Tables []struct {
		Name   string   `json:"name"`
		Fields []string `json:"fields"`
	} `json:"tables"`
}

type apiJob struct {
	ID          string     `json:"id"`
	Status      string     `json:"status"`
	CreatedAt   time.Time  `json:"createdAt"`
	CompletedAt *time.Time `json:"completedAt"`
	ResultPath  string     `json:"resultPath"`
	ResultHMAC  string     `json:"resultHmac"`
	Progress    *struct {
		Rows int64 `json:"rows"`
	} `json:"progress"`
	Result *struct {
		SizeBytes int64  `json:"sizeBytes"`
		RowCount  int64  `json:"rowCount"`
		SHA256    string `json:"sha256"`

		Tables []apiTable `json:"tables"`
	} `json:"result"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// apiTable is a table of a result; Path and what follows are set where it is a file by itself.
type apiTable struct {
	Datasource string `json:"datasource"`
	Table      string `json:"table"`
	Path       string `json:"path"`
	SizeBytes  int64  `json:"sizeBytes"`
	SHA256     string `json:"sha256"`
	HMAC       string `json:"hmac"`
}

// call sends body as JSON (nothing for nil) and decodes the answer into out (nothing for nil). An error answer is an
// *answerError.
func (c *apiClient) call(ctx context.Context, method, path string, header http.Header, body, out any) error {
	resp, err := c.send(ctx, method, path, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("%s %s: reading the answer: %w", method, path, err)
	}
	return nil
}

// send does the request and returns the answer if it is a good one; the caller closes its body.
func (c *apiClient) send(ctx context.Context, method, path string, header http.Header, body any) (*http.Response, error) {
	var reader io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: writing the body: %w", method, path, err)
		}
		reader = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	problem := &answerError{Status: resp.StatusCode}
	if err := json.NewDecoder(resp.Body).Decode(problem); err != nil {
		return nil, fmt.Errorf("%s %s: status %d with an unreadable body: %w", method, path, resp.StatusCode, err)
	}
	return nil, fmt.Errorf("%s %s: %w", method, path, problem)
}
