package handlers

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

// CheckStatus is the outcome of a check.
type CheckStatus string

// The outcomes.
const (
	StatusUp       CheckStatus = "up"
	StatusDown     CheckStatus = "down"
	StatusDegraded CheckStatus = "degraded" // works, but not as well as it should
	StatusSkipped  CheckStatus = "skipped"
	StatusNA       CheckStatus = "n/a"
)

const (
	checkTimeout  = 2 * time.Second // of one check
	checksSharing = time.Second     // how long one run serves every caller
)

// CheckResult is what is told of one dependency. Error and Reason are shown to anybody: they name no address and
// quote no driver.
type CheckResult struct {
	Status       CheckStatus `json:"status"`
	LatencyMS    *int64      `json:"latency_ms,omitempty"`
	TLS          *bool       `json:"tls,omitempty"`
	Error        string      `json:"error,omitempty"`
	Reason       string      `json:"reason,omitempty"`
	BreakerState string      `json:"breaker_state,omitempty"`
}

// Check is one dependency of the process. Run must heed its context; it is cut off, and counts as down, after 2 s.
type Check struct {
	Name     string
	Required bool // down makes the process unready
	Run      func(ctx context.Context) CheckResult
}

// PingCheck is a check that is up when ping returns nil. Its changes go to the log with the kind of the error, without
// the driver's words.
func PingCheck(name string, required bool, log *slog.Logger, ping func(ctx context.Context) error) Check {
	var mu sync.Mutex
	failing := false
	return Check{Name: name, Required: required, Run: func(ctx context.Context) CheckResult {
		err := ping(ctx)
		mu.Lock()
		changed := failing != (err != nil)
		failing = err != nil
		mu.Unlock()
		if changed && log != nil {
			log.WarnContext(ctx, "readiness check changed", "check", name, "up", err == nil, "error", store.Cause("ping", err))
		}
		if err != nil {
			return CheckResult{Status: StatusDown, Error: "unavailable"}
		}
		return CheckResult{Status: StatusUp}
	}}
}

// checkRunner runs all checks at once and lets one run serve everybody for a second.
type checkRunner struct {
	checks []Check
	log    *slog.Logger
	shared *sharedResult[map[string]CheckResult]

	mu    sync.Mutex
	stuck map[string]bool // checks that did not heed their context and are still running
	known map[string]CheckResult
}

func newCheckRunner(checks []Check, log *slog.Logger) *checkRunner {
	r := &checkRunner{checks: checks, log: log, stuck: map[string]bool{}, known: map[string]CheckResult{}}
	r.shared = newShared(checksSharing, r.run)
	return r
}

// results returns the outcome of every check, which the caller must not change, and whether no required one is down.
func (r *checkRunner) results(ctx context.Context) (map[string]CheckResult, bool) {
	results, err := r.shared.get(ctx)
	if err != nil { // the caller left; nobody reads the answer
		return nil, false
	}
	ok := true
	for _, c := range r.checks {
		ok = ok && (!c.Required || results[c.Name].Status != StatusDown)
	}
	return results, ok
}

// last returns the latest outcomes without running anything.
func (r *checkRunner) last() map[string]CheckResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.known)
}

func (r *checkRunner) run(ctx context.Context) (map[string]CheckResult, error) {
	results := make([]CheckResult, len(r.checks))
	var all sync.WaitGroup
	for i, c := range r.checks {
		all.Go(func() { results[i] = r.one(ctx, c) })
	}
	all.Wait()
	byName := make(map[string]CheckResult, len(results))
	for i, c := range r.checks {
		byName[c.Name] = results[i]
	}
	r.mu.Lock()
	r.known = byName
	r.mu.Unlock()
	return byName, nil
}

// one bounds a check. One that ignores its context is left behind, but never started again while it hangs.
func (r *checkRunner) one(ctx context.Context, c Check) CheckResult {
	timedOut := CheckResult{Status: StatusDown, Error: "timeout"}
	r.mu.Lock()
	hanging := r.stuck[c.Name]
	r.stuck[c.Name] = true
	r.mu.Unlock()
	if hanging {
		return timedOut
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	start := time.Now()
	done := make(chan CheckResult, 1)
	go func() {
		result := r.guarded(ctx, c)
		r.mu.Lock()
		r.stuck[c.Name] = false
		r.mu.Unlock()
		done <- result
	}()
	select {
	case result := <-done:
		if result.LatencyMS == nil && (result.Status == StatusUp || result.Status == StatusDegraded) {
			took := time.Since(start).Milliseconds()
			result.LatencyMS = &took
		}
		return result
	case <-ctx.Done():
		return timedOut
	}
}

// guarded keeps a check that panics from ending the process.
func (r *checkRunner) guarded(ctx context.Context, c Check) (result CheckResult) {
	defer func() {
		if v := recover(); v != nil {
			r.log.ErrorContext(ctx, "readiness check panicked", "check", c.Name, "error", problem.Panicked(v))
			result = CheckResult{Status: StatusDown, Error: "failed"}
		}
	}()
	return c.Run(ctx)
}
