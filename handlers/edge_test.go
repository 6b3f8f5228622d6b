package handlers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/telemetry"
)

const canary = "postgres://user:canary@10.1.2.3/db"

// newEdge serves only what mount adds, behind the stages of every request. logs ends the serving first.
func newEdge(t *testing.T, mount func(e *edge, engine *gin.Engine)) (base string, logs func() string) {
	t.Helper()
	var written bytes.Buffer
	logger, err := telemetry.NewLogger(&written, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Logger: logger, NewRequestID: func() string { return "id" }}
	opts.fill()
	metrics, err := newHTTPMetrics(opts.Meter)
	if err != nil {
		t.Fatal(err)
	}
	e := &edge{opts: opts, log: opts.Logger, metrics: metrics, bodyTimeout: 50 * time.Millisecond}
	engine, err := e.newEngine()
	if err != nil {
		t.Fatal(err)
	}
	mount(e, engine)
	server := httptest.NewServer(engine)
	t.Cleanup(server.Close)
	return server.URL, func() string {
		server.Close()
		return written.String()
	}
}

func get(t *testing.T, url string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

func TestErrorsBecomeAnswers(t *testing.T) {
	t.Parallel()
	secret := errors.New(canary)
	for name, tc := range map[string]struct {
		err    error
		want   Problem
		header http.Header
	}{
		"no code": {secret,
			Problem{Status: 500, Code: problem.Internal, Detail: problem.Internal.Info().Meaning}, http.Header{}},
		"5xx says the same of every cause": {
			problem.Wrap(secret, problem.Internal, canary).With(problem.Field{Location: "x", Message: canary}),
			Problem{Status: 500, Code: problem.Internal, Detail: problem.Internal.Info().Meaning}, http.Header{}},
		"unavailable": {problem.Wrap(secret, problem.TenantUnavailable, canary).After(1500 * time.Millisecond),
			Problem{Status: 503, Code: problem.TenantUnavailable, Detail: problem.TenantUnavailable.Info().Meaning},
			http.Header{"Retry-After": {"2"}}},
		"unavailable without a time": {problem.New(problem.Unavailable, ""),
			Problem{Status: 503, Code: problem.Unavailable, Detail: problem.Unavailable.Info().Meaning},
			http.Header{"Retry-After": {"5"}}},
		"rate limited": {problem.New(problem.RateLimited, "slow down"),
			Problem{Status: 429, Code: problem.RateLimited, Detail: "slow down"}, http.Header{"Retry-After": {"1"}}},
		"conflict with a time": {problem.New(problem.Conflict, "still running").After(time.Second),
			Problem{Status: 409, Code: problem.Conflict, Detail: "still running"}, http.Header{"Retry-After": {"1"}}},
		"code of a job": {problem.New(problem.JobTimedOut, "x"),
			Problem{Status: 500, Code: problem.Internal, Detail: problem.Internal.Info().Meaning}, http.Header{}},
		"no detail": {problem.New(problem.NameTaken, ""),
			Problem{Status: 409, Code: problem.NameTaken, Detail: problem.NameTaken.Info().Meaning}, http.Header{}},
		"fields are sorted": {
			&problem.Error{Code: problem.Malformed, Detail: "d", Fields: []problem.Field{{Location: "body.b"}, {Location: "body.a"}}},
			Problem{Status: 400, Code: problem.Malformed, Detail: "d",
				Errors: []problem.Field{{Location: "body.a"}, {Location: "body.b"}}}, http.Header{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, logs := newEdge(t, func(e *edge, engine *gin.Engine) {
				engine.GET("/x", func(c *gin.Context) { e.refuse(c, tc.err) })
			})
			resp, body, err := get(t, base+"/x?q=1")
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Type = "/problems/" + string(tc.want.Code)
			tc.want.Title = http.StatusText(tc.want.Status)
			tc.want.Instance = "/x#id"
			var got Problem
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".headers" }, cmp.Ignore())); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.header.Get("Retry-After"), resp.Header.Get("Retry-After")); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(body, "canary") {
				t.Errorf("the answer tells the cause: %s", body)
			}
			if tc.want.Status >= 500 && strings.Count(logs(), `"msg":"request failed"`) != 1 {
				t.Errorf("the cause is not in the log once: %s", logs())
			}
		})
	}
}

func TestPanics(t *testing.T) {
	t.Parallel()
	base, logs := newEdge(t, func(_ *edge, engine *gin.Engine) {
		engine.GET("/early", func(c *gin.Context) {
			c.Header("ETag", "stale")
			panic("canary of row seven")
		})
		engine.GET("/late", func(c *gin.Context) {
			c.Header("Content-Length", "100")
			c.String(http.StatusOK, "half")
			c.Writer.Flush()
			panic("late")
		})
		engine.GET("/deliberate", func(c *gin.Context) {
			c.String(http.StatusOK, "half")
			c.Writer.Flush()
			panic(http.ErrAbortHandler)
		})
	})
	resp, body, err := get(t, base+"/early")
	if err != nil || resp.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "FET-0002") || strings.Contains(body, "canary") {
		t.Errorf("early: %v: %s", err, body)
	}
	if resp.Header.Get("ETag") != "" {
		t.Error("the error carries the header of the answer it replaces")
	}
	for _, path := range []string{"/late", "/deliberate"} {
		if _, body, err := get(t, base+path); err == nil {
			t.Errorf("%s ended cleanly: %s", path, body)
		}
	}
	written := logs()
	if strings.Contains(written, "of row seven") {
		t.Errorf("the log quotes a panic: %s", written)
	}
	if got := strings.Count(written, `"msg":"panic"`); got != 2 {
		t.Errorf("%d panics in the log, want 2: %s", got, written)
	}
	if !strings.Contains(written, `"status":500`) || strings.Count(written, `"aborted":true`) != 2 {
		t.Errorf("the access log does not tell: %s", written)
	}
}

// TestClientGone checks that a request whose client left is no error of ours.
func TestClientGone(t *testing.T) {
	t.Parallel()
	e := &edge{opts: Options{}, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := e.answer(ctx, ctx.Err()).Status; got != statusClientGone {
		t.Errorf("status %d", got)
	}
	if got := e.answer(t.Context(), context.Canceled).Status; got != http.StatusInternalServerError {
		t.Errorf("status %d for a cancellation that is not the client's", got)
	}
}

// TestSlowBody announces a body and never sends it.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	base, _ := newEdge(t, func(e *edge, engine *gin.Engine) {
		e.opts.MaxBodyBytes = 1000
		engine.POST("/reads", func(c *gin.Context) {
			if _, err := slurp(c, e.opts.MaxBodyBytes); err != nil {
				e.refuse(c, err)
			}
		})
	})
	for path, want := range map[string]string{"/reads": "HTTP/1.1 400 ", "/nowhere": "HTTP/1.1 404 "} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if err = conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn) // ends when the server gives the connection up
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%s: %v: %s", path, err, got)
		}
		_ = conn.Close()
	}
}
