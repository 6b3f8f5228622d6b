package auth

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/propagation"
)

const (
	// maxAnswerBytes bounds what is read of an answer.
	maxAnswerBytes = 1 << 20
	// maxRedirects bounds the redirects of reads; the authorisation call follows none, since it carries a token.
	maxRedirects = 3
	// The schemes of URLs.
	schemePlain, schemeTLS = "http", "https"
	// idleConns keeps connections for authorisation calls that come in bursts.
	idleConns = 32
)

// client talks to the identity service. Its errors name no address.
type client struct {
	http *http.Client
	own  bool // the transport is ours to close
}

func newClient(given *http.Client) *client {
	c := &client{http: &http.Client{}, own: given == nil}
	if given != nil {
		*c.http = *given
	} else {
		t := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
		if d, ok := http.DefaultTransport.(*http.Transport); ok {
			t = d.Clone()
		}
		t.MaxIdleConnsPerHost = idleConns
		c.http.Transport = t
	}
	c.http.CheckRedirect = checkRedirect
	return c
}

func (c *client) close() {
	if c.own {
		c.http.CloseIdleConnections()
	}
}

var (
	errRedirect = errors.New("redirect refused")
	errTooLarge = errors.New("answer is too large")
	errAnswer   = errors.New("answer does not decide")
)

func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet {
		return http.ErrUseLastResponse
	}
	if len(via) > maxRedirects || first.URL.Scheme == schemeTLS && req.URL.Scheme != schemeTLS {
		return errRedirect
	}
	return nil
}

// get returns the body of a 200 answer; *statusError for another status.
func (c *client) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, errors.New("make request: not a URL")
	}
	req.Header.Set("Accept", "application/json")
	status, body, err := c.do(req)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, &statusError{status: status}
	}
	return body, nil
}

// question is the body of an authorisation call.
type question struct {
	Sub      string `json:"sub"`
	Resource string `json:"resource"`
	Action   string `json:"action"`
	Product  string `json:"product,omitempty"`
}

// ask makes one authorisation call. Whatever is not a clear answer is outcomeUnavailable, with the cause.
func (c *client) ask(ctx context.Context, url, token string, q question) (outcome, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return outcomeUnavailable, fmt.Errorf("encode question: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return outcomeUnavailable, errors.New("make request: not a URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", token)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	status, answer, err := c.do(req)
	if err != nil {
		return outcomeUnavailable, err
	}
	return outcomeOf(status, answer)
}

// outcomeOf reads an answer to a question. The body is parsed strictly: exact member names, no duplicates.
func outcomeOf(status int, body []byte) (outcome, error) {
	switch status {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return outcomeRefuse, nil
	case http.StatusForbidden:
		return outcomeDeny, nil
	default:
		return outcomeUnavailable, &statusError{status: status}
	}
	var a struct {
		Authorized *bool `json:"authorized"`
	}
	if json.Unmarshal(body, &a) != nil || a.Authorized == nil {
		return outcomeUnavailable, errAnswer
	}
	if *a.Authorized {
		return outcomeAllow, nil
	}
	return outcomeDeny, nil
}

// do sends a request and reads the whole answer, so that the connection can serve again.
func (c *client) do(req *http.Request) (status int, body []byte, err error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, sanitize(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if err != nil {
		return 0, nil, sanitize(err)
	}
	if len(body) > maxAnswerBytes {
		return 0, nil, errTooLarge
	}
	return resp.StatusCode, body, nil
}

// networkError is a failure to reach the identity service, told by a safe category.
type networkError string

func (e networkError) Error() string { return string(e) }

// sanitize keeps of a network error what may be logged: its text has addresses in it.
func sanitize(err error) error {
	var (
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		rec  tls.RecordHeaderError
		slow net.Error
	)
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, errRedirect):
		return errRedirect
	case errors.As(err, &dns):
		return networkError("dns")
	case errors.As(err, &cert), errors.As(err, &rec):
		return networkError("tls")
	case errors.Is(err, syscall.ECONNREFUSED):
		return networkError("refused")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return networkError("timeout")
	default:
		return networkError("network")
	}
}
