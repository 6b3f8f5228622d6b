package handlers_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestStrangeRequests sends what no client library would. Every answer is a 4xx.
func TestStrangeRequests(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	token := s.token("acme")
	send := func(request string) (status int, body string, err error) {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = conn.Close() }()
		if err = conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return 0, "", err
		}
		if _, err = io.WriteString(conn, strings.ReplaceAll(request, "TOKEN", token)); err != nil {
			return 0, "", err
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = resp.Body.Close() }()
		content, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(content), err
	}
	const common = "Host: x\r\nAuthorization: Bearer TOKEN\r\nX-Product-Name: p\r\nConnection: close\r\n"
	post := func(headers, body string) string {
		return "POST " + connectionsPath + " HTTP/1.1\r\n" + common + headers + "\r\n" + body
	}
	for name, tc := range map[string]struct {
		request string
		status  int
		code    string
	}{
		"CONNECT":               {"CONNECT x:1 HTTP/1.1\r\n" + common + "\r\n", 404, "FET-0005"},
		"absolute without path": {"GET http://x HTTP/1.1\r\n" + common + "\r\n", 404, "FET-0005"},
		"absolute":              {"GET http://x/nowhere HTTP/1.1\r\n" + common + "\r\n", 404, "FET-0005"},
		"encoded path":          {"GET /v1/%66etcher/%00 HTTP/1.1\r\n" + common + "\r\n", 400, "FET-0404"},
		"dots":                  {"GET /v1/../v1/fetcher/x HTTP/1.1\r\n" + common + "\r\n", 404, "FET-0005"},
		"bad escape":            {"GET /v1/%zz HTTP/1.1\r\n" + common + "\r\n", 400, ""}, // the library's own answer
		"no version":            {"GET /health\r\n\r\n", 400, ""},
		"chunked":               {post("Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"), 400, "FET-0001"},
		"chunked too large": {post("Transfer-Encoding: chunked\r\n",
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 1<<20+1, strings.Repeat("x", 1<<20+1))), 413, "FET-0416"},
		"exactly the limit": {post(fmt.Sprintf("Content-Length: %d\r\n", 1<<20), strings.Repeat("x", 1<<20)), 400, "FET-0001"},
		"broken chunk":      {post("Transfer-Encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n"), 400, "FET-0001"},
		"announced only":    {post("Content-Length: 1048577\r\nExpect: 100-continue\r\n", ""), 413, "FET-0416"},
		"gzip":              {post("Content-Encoding: gzip\r\nContent-Length: 2\r\n", "{}"), 415, "FET-0415"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body, err := send(tc.request)
			if err != nil || status != tc.status || !strings.Contains(body, tc.code) {
				t.Errorf("%d %v, want %d %s: %s", status, err, tc.status, tc.code, body)
			}
		})
	}
}

// TestMalformedBodies sends broken and hostile JSON to both operations that take a body.
func TestMalformedBodies(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	token := s.token("acme")
	for name, body := range map[string]string{
		"blank": " ", "null": "null", "array": "[]", "string": `"x"`, "true": "true", "empty": "{}",
		"cut": `{"a":`, "trailing": `{"a":1}x`, "two": `{"a":1}{"a":1}`, "comma": `{"a":1,}`, "single quotes": `{'a':1}`,
		"comment": `{/**/"a":1}`, "BOM": "\ufeff{\"a\":1}", "invalid UTF-8": "{\"a\":\"\xff\"}", "control": "{\"a\":\"\x01\"}",
		"duplicate": `{"a":1,"a":1}`, "duplicate deep": `{"a":{"b":[{"c":1,"c":2}]}}`, "surrogate": `{"a":"\ud800"}`,
		"NaN": `{"a":NaN}`, "hex": `{"a":0x1}`, "plus": `{"a":+1}`, "zero": `{"a":01}`, "dot": `{"a":1.}`,
		"deep": `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
		"bomb": strings.Repeat(`{"a":`, 100000), "not JSON": "a=b&c=d", "XML": "<a/>",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{connectionsPath, "/v1/fetcher"} {
				p := s.expect(t, 400, "FET-0001", http.MethodPost, path, token, body, "X-Product-Name", "p").problem(t)
				if len(p.Errors) != 1 || !strings.HasPrefix(p.Errors[0].Location, "body") || p.Errors[0].Value != nil {
					t.Errorf("errors %+v", p.Errors)
				}
			}
		})
	}
}
