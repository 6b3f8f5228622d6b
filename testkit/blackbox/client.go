package blackbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Client calls the API of one running service with one token.
type Client struct {
	Base  string
	Token string
}

// Answer is an HTTP answer with its whole body.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Decode takes the body as JSON.
func (a Answer) Decode(t testing.TB, into any) {
	t.Helper()
	if err := json.Unmarshal(a.Body, into); err != nil {
		t.Fatalf("decoding %s: %v", a.Body, err)
	}
}

// Problem is an RFC 9457 answer.
type Problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Instance string `json:"instance"`
	Code     string `json:"code"`
}

// Do does the request; headers alternate names and values.
func (c Client) Do(t testing.TB, method, path string, body any, headers ...string) Answer {
	t.Helper()
	var reader io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.Base+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: reading the answer: %v", method, path, err)
	}
	return Answer{resp.StatusCode, resp.Header, content}
}

// Expect does the request and fails the test unless the status is the one wanted.
func (c Client) Expect(t testing.TB, status int, method, path string, body any, headers ...string) Answer {
	t.Helper()
	got := c.Do(t, method, path, body, headers...)
	if got.Status != status {
		t.Fatalf("%s %s: status %d, want %d: %s", method, path, got.Status, status, got.Body)
	}
	return got
}

// Client is a client with one of the ready tokens.
func (d *Dev) Client(tenant, role string) Client {
	return Client{d.Info.API, d.Tenant(tenant).Tokens[role]}
}

// Connect registers the sample database under a name of the test's own and returns name and id.
func (d *Dev) Connect(t testing.TB, c Client, product string) (name, id string) {
	t.Helper()
	name = strings.NewReplacer("/", "_", " ", "_").Replace(t.Name())
	got := c.Expect(t, http.StatusCreated, http.MethodPost, "/v1/management/connections", map[string]any{
		"configName": name, "type": d.Info.Sample.Type, "host": d.Info.Sample.Host, "port": d.Info.Sample.Port,
		"databaseName": d.Info.Sample.DatabaseName, "userName": d.Info.Sample.UserName, "password": d.Info.Sample.Password,
		"ssl": map[string]string{"mode": "disable"},
	}, "X-Product-Name", product)
	var made struct{ ID string }
	got.Decode(t, &made)
	return name, made.ID
}

// Job is what GET /v1/fetcher/{id} answers.
type Job struct {
	ID         string
	Status     string
	Attempt    int
	ResultPath string
	ResultHMAC string `json:"resultHmac"`
	StartedAt  *time.Time
	Result     struct {
		Format    string
		SizeBytes int64
		RowCount  int64
		SHA256    string
	}
	Error *struct{ Code, Message string }
}

// Extract submits a job that reads fields of one table, and returns its id.
func (c Client) Extract(t testing.TB, product, datasource, table string, fields ...string) string {
	t.Helper()
	return c.Submit(t, map[string]any{
		"dataRequest": map[string]any{"mappedFields": map[string]any{datasource: map[string]any{table: fields}}},
		"metadata":    map[string]any{"source": product, "test": t.Name()},
	})
}

// Submit submits a job that must be a new one, and returns its id.
func (c Client) Submit(t testing.TB, request any) string {
	t.Helper()
	var made struct{ JobID string }
	c.Expect(t, http.StatusAccepted, http.MethodPost, "/v1/fetcher", request).Decode(t, &made)
	return made.JobID
}

// Job reads the job.
func (c Client) Job(t testing.TB, id string) Job {
	t.Helper()
	var j Job
	c.Expect(t, http.StatusOK, http.MethodGet, "/v1/fetcher/"+id, nil).Decode(t, &j)
	return j
}

// Await polls the job until done says so, and fails the test at the deadline.
func (c Client) Await(t testing.TB, id string, limit time.Duration, done func(Job) bool) Job {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		j := c.Job(t, id)
		if done(j) {
			return j
		}
		if time.Now().After(deadline) {
			t.Fatalf("job %s is still %s (attempt %d) after %s", id, j.Status, j.Attempt, limit)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// Ended reports whether the job is in a terminal state.
func Ended(j Job) bool { return j.Status == "completed" || j.Status == "failed" }

// AwaitCompleted is Await for the end, and fails the test unless it is a good one.
func (c Client) AwaitCompleted(t testing.TB, id string, limit time.Duration) Job {
	t.Helper()
	j := c.Await(t, id, limit, Ended)
	if j.Status != "completed" {
		t.Fatalf("job %s %s: %s", id, j.Status, describe(j))
	}
	return j
}

func describe(j Job) string {
	if j.Error == nil {
		return "no error given"
	}
	return fmt.Sprintf("%s: %s", j.Error.Code, j.Error.Message)
}
