package auth

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// origin says who decided.
type origin string

const (
	fromCache   origin = "cache"
	fromService origin = "service"
	fromToken   origin = "claims"
)

// metrics counts what happens. What happens at every request is one atomic addition; the meter reads it when asked.
type metrics struct {
	tokenCached, tokenVerified, tokenUnavailable *tally
	tokenRefused                                 map[refusal]*tally
	decisions                                    map[origin]map[outcome]*tally

	refreshes    metric.Int64Counter
	askDuration  metric.Float64Histogram
	registration metric.Registration
	names        map[outcome]string
}

// tally is one counter of an observable instrument, with its labels.
type tally struct {
	n      atomic.Int64
	labels metric.ObserveOption
}

func (t *tally) add() {
	if t != nil {
		t.n.Add(1)
	}
}

func newTally(labels ...attribute.KeyValue) *tally {
	return &tally{labels: metric.WithAttributeSet(attribute.NewSet(labels...))}
}

func newMetrics(m metric.Meter) (*metrics, error) {
	if m == nil {
		m = noop.NewMeterProvider().Meter("auth")
	}
	result := func(v string) *tally { return newTally(attribute.String("result", v)) }
	s := &metrics{
		tokenCached: result("cached"), tokenVerified: result("verified"), tokenUnavailable: result("unavailable"),
		tokenRefused: map[refusal]*tally{}, decisions: map[origin]map[outcome]*tally{}, names: outcomeNames(),
	}
	for _, r := range refusals() {
		s.tokenRefused[r] = result(string(r))
	}
	for _, from := range []origin{fromCache, fromService, fromToken} {
		s.decisions[from] = map[outcome]*tally{}
		for o, name := range s.names {
			s.decisions[from][o] = newTally(attribute.String("decision", name), attribute.String("source", string(from)))
		}
	}
	if err := s.register(m); err != nil {
		return nil, fmt.Errorf("make instruments: %w", err)
	}
	return s, nil
}

func (s *metrics) register(m metric.Meter) (err error) {
	tokens, err := m.Int64ObservableCounter("fetcher.auth.tokens",
		metric.WithDescription("Tokens by what came of them."))
	if err != nil {
		return err
	}
	decisions, err := m.Int64ObservableCounter("fetcher.auth.decisions",
		metric.WithDescription("Authorisation decisions by outcome and by who decided."))
	if err != nil {
		return err
	}
	if s.refreshes, err = m.Int64Counter("fetcher.auth.key.refreshes",
		metric.WithDescription("Refreshes of the identity service's keys.")); err != nil {
		return err
	}
	if s.askDuration, err = m.Float64Histogram("fetcher.auth.authorize.duration", metric.WithUnit("s"),
		metric.WithDescription("How long authorisation calls took.")); err != nil {
		return err
	}
	s.registration, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s.observe(o, tokens, decisions)
		return nil
	}, tokens, decisions)
	return err
}

func (s *metrics) observe(o metric.Observer, tokens, decisions metric.Int64Observable) {
	show := func(i metric.Int64Observable, t *tally) { o.ObserveInt64(i, t.n.Load(), t.labels) }
	for _, t := range []*tally{s.tokenCached, s.tokenVerified, s.tokenUnavailable} {
		show(tokens, t)
	}
	for _, t := range s.tokenRefused {
		show(tokens, t)
	}
	for _, byOutcome := range s.decisions {
		for _, t := range byOutcome {
			show(decisions, t)
		}
	}
}

func (s *metrics) decided(from origin, o outcome) { s.decisions[from][o].add() }

func (s *metrics) asked(ctx context.Context, took time.Duration, o outcome) {
	s.askDuration.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("decision", s.names[o])))
}

func (s *metrics) refreshed(ctx context.Context, why trigger, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	s.refreshes.Add(ctx, 1, metric.WithAttributes(
		attribute.String("trigger", string(why)), attribute.String("result", result)))
}

func (s *metrics) close() {
	if s.registration != nil {
		_ = s.registration.Unregister()
	}
}
