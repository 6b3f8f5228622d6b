package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testTransport is section 8.
func testTransport(t *testing.T, s *apiSuite) {
	c := s.admin()
	t.Run("request id", func(t *testing.T) {
		t.Parallel()
		for _, id := range []string{"a", "A.b_c-9", strings.Repeat("x", 128)} {
			if got := c.succeeds(t, 200, get(managed, "X-Request-Id", id)).Header.Get("X-Request-ID"); got != id {
				t.Errorf("%q became %q", id, got)
			}
			f := c.fails(t, "FET-0404", get(managed+"/x?secret=in-query", "X-Request-Id", id), "path.id")
			if f.Instance != managed+"/x#"+id {
				t.Errorf("instance %q", f.Instance)
			}
		}
		for _, id := range []string{"", "a b", strings.Repeat("x", 129), "é", "a/b", "<script>"} {
			if got := c.succeeds(t, 200, get(managed, "X-Request-Id", id)).Header.Get("X-Request-ID"); !uuidV7.MatchString(got) {
				t.Errorf("%q became %q", id, got)
			}
		}
	})
	t.Run("authorization", func(t *testing.T) {
		t.Parallel()
		bare := c
		bare.token = ""
		for _, scheme := range []string{"bearer ", "BEARER "} {
			bare.succeeds(t, 200, get(managed, "Authorization", scheme+c.token))
		}
		for _, headers := range [][]string{
			{"Authorization", "Bearer " + c.token, "Authorization", "Bearer " + c.token}, {"Authorization", "Basic dTpw"},
			{"Authorization", c.token}, {"Authorization", "Bearer"}, {"Authorization", "Bearer  "}, {"Authorization", "Bearer a.b.c"}, {"Authorization", ""},
		} {
			bare.fails(t, "FET-0006", get(managed, headers...))
		}
	})
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		made := c.create(t, ledger, object{"metadata": object{"n": json.Number("12345678901234567890.123456789012345678900")}})
		if got := c.succeeds(t, 200, get(managed+"/"+made.ID)); !strings.Contains(string(got.Body), "12345678901234567890.123456789012345678900") {
			t.Errorf("digits are gone: %s", got.Body)
		}
		body := strings.Replace(text(t, s.sample(unique("case"), nil)), `"host"`, `"Host"`, 1)
		c.fails(t, "FET-0402", post(managed, body, "X-Product-Name", ledger), "body.host")
		if got := c.succeeds(t, 200, get(managed)); !strings.HasPrefix(got.Header.Get("Content-Type"), "application/json") {
			t.Errorf("Content-Type %q", got.Header.Get("Content-Type"))
		}
	})
	t.Run("headers", func(t *testing.T) {
		t.Parallel()
		status, answer := s.raw(t, "GET "+managed+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Large: "+strings.Repeat("x", 40<<10)+"\r\n\r\n")
		if status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("40 KiB of headers: %d %s", status, answer)
		}
		c.succeeds(t, 200, get(managed, "X-Large", strings.Repeat("x", 20<<10)))
	})
	t.Run("a slow client", func(t *testing.T) {
		t.Parallel()
		started := time.Now()
		s.hangsUp(t, "GET "+managed+" HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		if took := time.Since(started); took < 4*time.Second {
			t.Errorf("cut off after %s, want 5 s", took)
		}
	})
	t.Run("log", func(t *testing.T) {
		t.Parallel()
		id := unique("logged-request")
		c.succeeds(t, 200, get(managed, "X-Request-Id", id))
		for deadline := time.Now().Add(10 * time.Second); !strings.Contains(s.Output.String(), id); <-time.After(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the log does not name the request")
			}
		}
	})
	t.Run("CORS", func(t *testing.T) {
		t.Parallel()
		preflight := call{method: http.MethodOptions, path: managed, headers: []string{"Origin", "https://app.example", "Access-Control-Request-Method", "POST"}}
		for name, values := range c.do(t, preflight).Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: %v although it is off", name, values)
			}
		}
		open := s.manager(t, "CORS_ALLOWED_ORIGINS=https://app.example")
		got := open.succeeds(t, 200, get(managed, "Origin", "https://app.example"))
		if diff := cmp.Diff("https://app.example", got.Header.Get("Access-Control-Allow-Origin")); diff != "" {
			t.Error(diff)
		}
		for _, origin := range []string{"https://app.example.evil", "http://app.example", "https://APP.example:443", "null", "*"} {
			if got := open.do(t, get(managed, "Origin", origin)).Header.Get("Access-Control-Allow-Origin"); got != "" {
				t.Errorf("%s is allowed: %q", origin, got)
			}
		}
	})
}

// hangsUp sends the start of a request and waits until the service has had enough.
func (s *apiSuite) hangsUp(t *testing.T, start string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.Info.API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err = conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err = io.WriteString(conn, start); err != nil {
		t.Fatal(err)
	}
	if _, err = io.ReadAll(conn); err != nil {
		t.Fatalf("not cut off: %v", err)
	}
}

// raw sends text as it stands and returns the first answer.
func (s *apiSuite) raw(t *testing.T, request string) (status int, body string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.Info.API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err = conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(conn, request) }() // the answer may come before all of it is read
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(fmt.Errorf("%.80q: %w", request, err))
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(content)
}
