package handlers

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func up(context.Context) CheckResult { return CheckResult{Status: StatusUp} }

func TestReady(t *testing.T) {
	t.Parallel()
	down := func(context.Context) CheckResult { return CheckResult{Status: StatusDown, Error: "unavailable"} }
	degraded := func(context.Context) CheckResult {
		return CheckResult{Status: StatusDegraded, Reason: "keys are cached"}
	}
	broken := func(context.Context) CheckResult { panic("check") }
	for name, tc := range map[string]struct {
		checks []Check
		ready  bool
		want   map[string]CheckStatus
	}{
		"none":            {nil, true, map[string]CheckStatus{}},
		"up":              {[]Check{{"a", true, up}, {"b", false, up}}, true, map[string]CheckStatus{"a": StatusUp, "b": StatusUp}},
		"required down":   {[]Check{{"a", true, down}, {"b", false, up}}, false, map[string]CheckStatus{"a": StatusDown, "b": StatusUp}},
		"optional down":   {[]Check{{"a", true, up}, {"b", false, down}}, true, map[string]CheckStatus{"a": StatusUp, "b": StatusDown}},
		"required is low": {[]Check{{"a", true, degraded}}, true, map[string]CheckStatus{"a": StatusDegraded}},
		"panics":          {[]Check{{"a", true, broken}}, false, map[string]CheckStatus{"a": StatusDown}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, err := NewHealth(HealthOptions{Checks: tc.checks, DeploymentMode: "local", Build: Build{Version: "1"}})
			if err != nil {
				t.Fatal(err)
			}
			body, ready := h.Ready(t.Context())
			got := map[string]CheckStatus{}
			for name, result := range body.Checks {
				if r, ok := result.(CheckResult); ok {
					got[name] = r.Status
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || ready != tc.ready {
				t.Errorf("ready %v, want %v: %s", ready, tc.ready, diff)
			}
			if (body.Status == "healthy") != ready || body.Version != "1" || body.DeploymentMode != "local" {
				t.Errorf("body %+v", body)
			}
			h.Drain()
			if body, ready := h.Ready(t.Context()); ready || body.Checks["draining"] == nil {
				t.Errorf("draining: ready %v, %+v", ready, body)
			}
		})
	}
}

// TestPanicOfACheckIsNotQuoted: a panic's words may hold anything.
func TestPanicOfACheckIsNotQuoted(t *testing.T) {
	t.Parallel()
	var logs bytes.Buffer
	r := newCheckRunner([]Check{{"a", true, func(context.Context) CheckResult { panic("password") }}}, slog.New(slog.NewTextHandler(&logs, nil)))
	if _, ready := r.results(t.Context()); ready {
		t.Error("ready")
	}
	if got := logs.String(); strings.Contains(got, "password") || !strings.Contains(got, `error="panic: string"`) {
		t.Errorf("log: %s", got)
	}
}

// TestChecksAreShared asks from many sides at once, one of which leaves at once.
func TestChecksAreShared(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	release := make(chan struct{})
	r := newCheckRunner([]Check{{"a", true, func(ctx context.Context) CheckResult {
		runs.Add(1)
		<-release
		if ctx.Err() != nil {
			return CheckResult{Status: StatusDown}
		}
		return CheckResult{Status: StatusUp}
	}}}, slog.New(slog.DiscardHandler))
	gone, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _, _ = r.results(gone) })
	for range 200 {
		all.Go(func() {
			if _, ok := r.results(t.Context()); !ok {
				t.Error("the check failed for one that waited")
			}
		})
	}
	leave()
	close(release)
	all.Wait()
	for range 100 {
		if _, ok := r.results(t.Context()); !ok {
			t.Error("not ready")
		}
	}
	if got := runs.Load(); got > 2 { // 2: the burst may take longer than a second to start on a busy machine
		t.Errorf("%d runs", got)
	}
}

// TestHangingCheck never heeds its context. It is cut off and not started a second time.
func TestHangingCheck(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	release := make(chan struct{})
	defer close(release)
	r := newCheckRunner([]Check{{"hangs", true, func(context.Context) CheckResult {
		runs.Add(1)
		<-release
		return CheckResult{Status: StatusUp}
	}}}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 2 {
		results, err := r.run(ctx)
		if err != nil || results["hangs"] != (CheckResult{Status: StatusDown, Error: "timeout"}) {
			t.Fatalf("got %+v, %v", results, err)
		}
	}
	if got := runs.Load(); got != 1 {
		t.Errorf("%d runs at once", got)
	}
}

func TestPingCheckHidesItsCause(t *testing.T) {
	t.Parallel()
	var logs bytes.Buffer
	c := PingCheck("x", true, slog.New(slog.NewTextHandler(&logs, nil)), func(context.Context) error { return errors.New(canary) })
	for range 3 {
		if diff := cmp.Diff(CheckResult{Status: StatusDown, Error: "unavailable"}, c.Run(t.Context())); diff != "" {
			t.Error(diff)
		}
	}
	if got := logs.String(); strings.Count(got, "\n") != 1 || strings.Contains(got, "canary") {
		t.Errorf("log: %s", got)
	}
}

func TestClientLimiter(t *testing.T) {
	t.Parallel()
	l, err := newClientLimiter()
	if err != nil {
		t.Fatal(err)
	}
	spend := func(address string, n int) (allowed int) {
		for range n {
			if l.allow(address) {
				allowed++
			}
		}
		return allowed
	}
	if got := spend("192.0.2.1", 1000); got < probesBurst || got > probesBurst+probesPerSecond {
		t.Errorf("%d requests allowed at once", got)
	}
	if !l.allow("192.0.2.2") {
		t.Error("another client is refused")
	}
	if l.allow("::ffff:192.0.2.1") {
		t.Error("the same client is allowed under another spelling")
	}
	spend("2001:db8::1", 1000)
	if l.allow("2001:db8::ffff:1") {
		t.Error("an IPv6 client is allowed again under another address of its network")
	}
	for i := range 3 * probeClients {
		l.allow(string(rune(i)) + "x")
	}
	if got := l.clients.Len(); got != probeClients {
		t.Errorf("%d clients are remembered", got)
	}
}
