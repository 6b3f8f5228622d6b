package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
)

// logged returns the members of the one JSON line that f logs, but for the time.
func logged(t *testing.T, f func(*slog.Logger)) map[string]any {
	t.Helper()
	var out bytes.Buffer
	log, err := NewLogger(&out, "", "")
	if err != nil {
		t.Fatal(err)
	}
	f(log)
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Fatalf("%d lines: %s", n, out.String())
	}
	line := map[string]any{}
	if err = json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if _, ok := line["time"]; !ok {
		t.Error("no time")
	}
	delete(line, "time")
	return line
}

func traced(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0xab}, SpanID: trace.SpanID{0xcd},
	}))
}

const (
	traceID = "ab000000000000000000000000000000"
	spanID  = "cd00000000000000"
)

func TestLinesCarryTheirContext(t *testing.T) {
	t.Parallel()
	ctx := WithAttrs(WithAttrs(t.Context(), slog.String("request_id", "r1")), slog.String("tenant", "acme"))
	type m = map[string]any
	tests := map[string]struct {
		log  func(*slog.Logger)
		want m
	}{
		"nothing": {
			func(l *slog.Logger) { l.InfoContext(t.Context(), "hi", "n", 1) },
			m{"level": "INFO", "msg": "hi", "n": 1.0},
		},
		"trace": {
			func(l *slog.Logger) { l.InfoContext(traced(t.Context()), "hi") },
			m{"level": "INFO", "msg": "hi", "trace_id": traceID, "span_id": spanID},
		},
		"attributes and trace": {
			func(l *slog.Logger) { l.With("a", 1).WarnContext(traced(ctx), "hi", "b", 2) },
			m{
				"level": "WARN", "msg": "hi", "a": 1.0, "b": 2.0, "request_id": "r1", "tenant": "acme",
				"trace_id": traceID, "span_id": spanID,
			},
		},
		"inside groups": {
			func(l *slog.Logger) {
				l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("").WithGroup("h").With().InfoContext(ctx, "hi", "c", 3)
			},
			m{
				"level": "INFO", "msg": "hi", "a": 1.0, "request_id": "r1", "tenant": "acme",
				"g": m{"b": 2.0, "h": m{"c": 3.0}},
			},
		},
		"inside a group, no context": {
			func(l *slog.Logger) { l.WithGroup("g").InfoContext(t.Context(), "hi", "c", 3) },
			m{"level": "INFO", "msg": "hi", "g": m{"c": 3.0}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, logged(t, tt.log)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Loggers and contexts that share an ancestor must not write into each other's lines.
func TestLoggersAreApart(t *testing.T) {
	t.Parallel()
	shared := WithAttrs(WithAttrs(t.Context(), slog.String("r", "1")), slog.String("s", "2"))
	contexts := []context.Context{
		traced(WithAttrs(shared, slog.String("x", "first"))), traced(WithAttrs(shared, slog.String("x", "second"))),
	}
	for i, x := range []string{"first", "second"} {
		got := logged(t, func(l *slog.Logger) {
			base := l.WithGroup("g").With("n", 0).With("m", 0)
			loggers := []*slog.Logger{base.With("a", "first"), base.With("a", "second")}
			loggers[i].InfoContext(contexts[i], "hi")
		})
		want := map[string]any{
			"level": "INFO", "msg": "hi", "r": "1", "s": "2", "x": x, "trace_id": traceID, "span_id": spanID,
			"g": map[string]any{"n": 0.0, "m": 0.0, "a": x},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestNewLoggerOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		level, format string
		ok            bool
		lines         int // of one at each level
		prefix        string
	}{
		{"", "", true, 3, `{"time":`},
		{"debug", "json", true, 4, `{"time":`},
		{"info", "text", true, 3, "time="},
		{"WARN", "json", true, 2, `{"time":`},
		{"error", "json", true, 1, `{"time":`},
		{"loud", "json", false, 0, ""},
		{"info", "xml", false, 0, ""},
	} {
		var out bytes.Buffer
		l, err := NewLogger(&out, tt.level, tt.format)
		if (err == nil) != tt.ok {
			t.Errorf("NewLogger(%q, %q): %v", tt.level, tt.format, err)
		}
		if err != nil {
			continue
		}
		l.Debug("a")
		l.Info("b")
		l.Warn("c")
		l.Error("d")
		if n := strings.Count(out.String(), "\n"); n != tt.lines || !strings.HasPrefix(out.String(), tt.prefix) {
			t.Errorf("NewLogger(%q, %q) wrote %q", tt.level, tt.format, out.String())
		}
	}
}

type masked struct{}

func (masked) LogValue() slog.Value { return slog.StringValue("******") }

func TestSecretsAreRedacted(t *testing.T) {
	t.Parallel()
	const canary = "CANARY-5ecr3t"
	u := &url.URL{Scheme: "https", User: url.UserPassword("u", canary), Host: "h", Path: "/p"}
	jwt := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiI" + "CANARY.c2ln"
	type nested struct {
		Name     string
		Password string
		Inner    map[string]any `json:"inner"`
	}
	secret := []any{
		"password", canary, "dbPassword", canary, "PGPASSWORD", canary, "token", canary, "access_token", canary,
		"Authorization", canary, "cookie", canary, "Set-Cookie", canary, "dsn", canary, "DATABASE_DSN", canary, "secret", canary,
		"client-secret", canary, "key", canary, "api_key", canary, "sslKey", canary, "APP_ENC_KEY", canary, "privatekey", canary,
		"credentials", canary, "pin_passwd", 12345, "token", []byte(canary), "secret", errors.New(canary),
		slog.Group("g", "password", canary, slog.Group("h", "token", canary)),
		slog.Group("authorization", "value", canary),
		"header", http.Header{"Authorization": {canary}, "X-Api-Key": {canary}, "Accept": {"text/html"}},
		"struct", nested{Name: "n", Password: canary, Inner: map[string]any{"token": canary, "list": []any{map[string]any{"key": canary}}}},
		"pointer", &nested{Password: canary},
		"url", u, "urls", []string{u.String()},
		"text", "postgres://user:" + canary + "@db:5432/x?sslmode=disable",
		"odd", "postgres://user:p@" + canary + "/w@db/x",
		"err", fmt.Errorf("connect to mysql://root:%s@db: refused", canary),
		"kv", "host=db password=" + canary + " user=x", "kv2", `{"password": "` + canary + ` x"}`, "kv3", "Password='" + canary + " y';",
		"kv4", "password: " + canary, "kv5", "token:" + canary, "kv6", `{"secret" : "` + canary + `"}`, "kv7", "api-key = " + canary,
		"basic", "authorization: Basic " + canary, "basic2", `"Authorization":"` + canary + `"`,
		"jwt", "got " + jwt, "bearer", "Authorization: bearer " + canary + canary, "opaque", "Bearer " + canary + canary,
		"age", "AGE-SECRET-KEY-1" + canary,
		"pem", "x -----BEGIN RSA PRIVATE KEY-----\n" + canary + "\n-----END RSA PRIVATE KEY----- y",
		"cut", "-----BEGIN PRIVATE KEY-----\n" + canary,
		"bytes", []byte(canary), "masked", masked{}, "channel", make(chan int),
	}
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			log, err := NewLogger(&out, "", format)
			if err != nil {
				t.Fatal(err)
			}
			log.Info("connect postgres://u:"+canary+"@h/db", secret...)
			log.With(secret...).WithGroup("secret").Info("again", "value", canary)
			log.InfoContext(WithAttrs(t.Context(), slog.String("token", canary)), "context")
			if s := out.String(); strings.Contains(s, "CANARY") || strings.Contains(s, "12345") {
				t.Errorf("a secret shows in\n%s", s)
			}
			if n := strings.Count(out.String(), redacted); n < 60 {
				t.Errorf("%d values redacted:\n%s", n, out.String())
			}
		})
	}
}

func TestTheRestIsKept(t *testing.T) {
	t.Parallel()
	u := &url.URL{Scheme: "https", Host: "h", Path: "/p"}
	now := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	got := logged(t, func(l *slog.Logger) {
		l.Info("time to go: 5 of 10", "level", "high", "route", "/v1/fetcher/:id", "object_key", "a/b", "primaryKey", true,
			"key_version", 3, "kid", "k1", "took", time.Second, "url", u, "err", errors.New("no bearer token"), "err2", errors.New("open secret: unknown version of key: 3"),
			"token_ttl", time.Minute, "has_password", true, "at", now, "nothing", nil, "list", []int{1, 2}, "big", uint64(1)<<63,
			"addr", "[::1]:80", "eq", "a=b", "keys", 5, "nested", map[string]any{"n": 12345678901234567890.0, "s": "x"})
	})
	want := map[string]any{
		"level": "high", "msg": "time to go: 5 of 10", "route": "/v1/fetcher/:id", "object_key": "a/b", "primaryKey": true,
		"key_version": 3.0, "kid": "k1", "took": 1e9, "url": "https://h/p", "err": "no bearer token", "err2": "open secret: unknown version of key: 3", "token_ttl": 6e10,
		"has_password": true, "at": now.Format(time.RFC3339), "nothing": nil, "list": []any{1.0, 2.0}, "big": float64(1 << 63),
		"addr": "[::1]:80", "eq": "a=b", "keys": 5.0, "nested": map[string]any{"n": 12345678901234567890.0, "s": "x"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzScrub(f *testing.F) {
	r := newRedactor()
	f.Add("postgres://u:", "p", "@h/db")
	f.Add("password=", "x", " ")
	f.Fuzz(func(t *testing.T, before, secret, after string) {
		if secret = strings.Map(func(c rune) rune {
			if 'A' <= c && c <= 'Z' {
				return c
			}
			return -1
		}, secret); len(secret) < 4 {
			return
		}
		secret = "QZX" + secret + "XZQ"
		for _, s := range []string{
			before + " postgres://u:" + secret + "@h/db" + after, before + " password=" + secret + " " + after,
			before + "\n-----BEGIN PRIVATE KEY-----\n" + secret + "\n-----END PRIVATE KEY-----" + after,
		} {
			got := r.scrub(s)
			if strings.Contains(got, secret) && !strings.Contains(before+after, secret) {
				t.Errorf("scrub(%q) = %q", s, got)
			}
			if r.scrub(got) != got && r.scrub(r.scrub(got)) != r.scrub(got) {
				t.Errorf("scrub does not settle on %q", s)
			}
		}
	})
}

func BenchmarkRequestLine(b *testing.B) {
	log, err := NewLogger(discard{}, "info", "json")
	if err != nil {
		b.Fatal(err)
	}
	ctx := WithAttrs(traced(b.Context()), slog.String("request_id", "0190b3c4-aaaa-7bbb-8ccc-0123456789ab"))
	b.ReportAllocs()
	for b.Loop() {
		log.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("method", "GET"),
			slog.String("route", "/v1/management/connections/:id"), slog.Int("status", 200),
			slog.Duration("duration", time.Millisecond), slog.Int("bytes", 512), slog.String("tenant", "acme"),
			slog.String("subject", "acme-people/alice"))
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
