package events

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// Marks say which tenants may have events to send: a control.DB.
type Marks interface {
	ClaimEventMarks(ctx context.Context, ttl time.Duration, limit int) ([]control.EventMark, error)
	SettleEventMark(ctx context.Context, m control.EventMark, left control.Backlog) error
	DeferEventMark(ctx context.Context, m control.EventMark, after time.Duration) error
	DropEventMark(ctx context.Context, m control.EventMark) error
}

// Tenants gives access to tenants' databases, also of suspended ones: a tenant.Router.
type Tenants interface {
	AcquireSuspended(ctx context.Context, tenantID string) (*tenant.Lease, error)
}

// Options configure a Dispatcher. The first group is required; every other zero member takes the default named beside
// it.
type Options struct {
	Marks   Marks
	Tenants Tenants
	Keys    *secret.Keyring
	Guard   *dial.Guard // for webhooks

	Transports []Transport                        // brokers; closed by Stop
	Webhook    func(tenantID string) *Webhook     // of tenants that have none in the control database; nil: none
	Source     string                             // of events; /fetcher
	TLS        *tls.Config                        // for webhooks; the system's roots
	Every      time.Duration                      // between looks for tenants, give or take a fifth; 500 ms
	AtOnce     int                                // tenants; 8
	Batch      int                                // events of a tenant and transport that are read at once; 50
	RetryUnit  time.Duration                      // before the first retry, doubled before each further one; 2 s
	RetryMax   time.Duration                      // between retries; 10 min
	Patience   time.Duration                      // after which an event is parked; 24 h
	Round      time.Duration                      // for one look at a tenant, at most; 40 s
	Logger     *slog.Logger                       // discards
	Meter      metric.Meter                       // none
	Tracer     trace.TracerProvider               // none
	Now        func() time.Time                   // time.Now
	Taken      func(transport string, m *Message) // called after each delivery, for tests; nothing
}

const (
	claimMargin = 20 * time.Second // for a round to be settled, after it
	awayDelay   = 5 * time.Second  // before a tenant whose database can't be used is looked at again
	settleTime  = 5 * time.Second
	postsAtOnce = 4  // to one webhook
	sendsAtOnce = 16 // to one broker, for one tenant
)

func (o Options) withDefaults() Options {
	orElse(&o.Source, "/fetcher")
	orElse(&o.Every, 500*time.Millisecond)
	orElse(&o.AtOnce, 8)
	orElse(&o.Batch, 50)
	orElse(&o.RetryUnit, 2*time.Second)
	orElse(&o.RetryMax, 10*time.Minute)
	orElse(&o.Patience, 24*time.Hour)
	orElse(&o.Round, 40*time.Second)
	if o.Webhook == nil {
		o.Webhook = func(string) *Webhook { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Meter == nil {
		o.Meter = metricnoop.Meter{}
	}
	if o.Tracer == nil {
		o.Tracer = tracenoop.NewTracerProvider()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Taken == nil {
		o.Taken = func(string, *Message) {}
	}
	return o
}

func orElse[T comparable](member *T, value T) {
	var zero T
	if *member == zero {
		*member = value
	}
}

// Dispatcher sends events from outboxes to transports. Any number may run: each tenant is looked at by one at a time.
type Dispatcher struct {
	opts    Options
	poster  *poster
	metrics *metrics
	tracer  trace.Tracer
	stop    context.CancelFunc
	loop    sync.WaitGroup
	rounds  sync.WaitGroup
	slots   chan struct{}
}

// New returns a dispatcher that has not been started.
func New(o Options) (*Dispatcher, error) {
	if o.Marks == nil || o.Tenants == nil || o.Keys == nil || o.Guard == nil {
		return nil, errors.New("events: marks, tenants, keys and guard are required")
	}
	o = o.withDefaults()
	m, err := newMetrics(o.Meter)
	if err != nil {
		return nil, err
	}
	for _, t := range o.Transports {
		if r, ok := t.(*rabbit); ok {
			r.unrouted = m.unrouted
		}
	}
	return &Dispatcher{
		opts: o, metrics: m, tracer: o.Tracer.Tracer("github.com/fetcherhq/fetcher/events"), stop: func() {}, slots: make(chan struct{}, o.AtOnce),
		poster: newPoster(o.Guard.DialContext, o.TLS, o.Now),
	}, nil
}

// Start begins to dispatch. It must be called once.
func (d *Dispatcher) Start(ctx context.Context) {
	ctx, d.stop = context.WithCancel(context.WithoutCancel(ctx))
	d.loop.Go(func() {
		for ctx.Err() == nil {
			more, err := d.claim(ctx)
			if err != nil && ctx.Err() == nil {
				d.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "looking for events failed", slog.Any("error", err))
			}
			if !more {
				sleep(ctx, d.spread(d.opts.Every))
			}
		}
	})
}

// Stop ends dispatching, waits for what is under way to be cut off and noted, and closes the transports.
func (d *Dispatcher) Stop(ctx context.Context) error {
	d.stop()
	d.loop.Wait()
	d.rounds.Wait()
	d.poster.close()
	errs := make([]error, 0, len(d.opts.Transports))
	for _, t := range d.opts.Transports {
		errs = append(errs, t.Close(ctx))
	}
	return errors.Join(errs...)
}

// claim begins a round for tenants that are due, as many as there is room for, and reports whether there may be more.
// It waits while there is room for none.
func (d *Dispatcher) claim(ctx context.Context) (more bool, err error) {
	select {
	case d.slots <- struct{}{}:
		<-d.slots
	case <-ctx.Done():
		return false, nil
	}
	free := cap(d.slots) - len(d.slots)
	marks, err := d.opts.Marks.ClaimEventMarks(ctx, d.opts.Round+claimMargin, free)
	for _, m := range marks {
		d.slots <- struct{}{}
		d.rounds.Go(func() {
			defer func() { <-d.slots }()
			d.round(ctx, m)
		})
	}
	return len(marks) > 0 && len(marks) == free, err
}

// round looks at one tenant.
func (d *Dispatcher) round(ctx context.Context, m control.EventMark) {
	working, cancel := context.WithTimeout(ctx, d.opts.Round)
	defer cancel()
	left, err := d.serve(working, m)
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	switch {
	case problem.CodeOf(err) == problem.TenantUnknown:
		err = d.opts.Marks.DropEventMark(settling, m)
	case err != nil:
		if ctx.Err() == nil {
			d.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "events not sent", slog.String("tenant", m.TenantID), slog.Any("error", err))
		}
		err = d.opts.Marks.DeferEventMark(settling, m, d.spread(awayDelay))
	default:
		err = d.opts.Marks.SettleEventMark(settling, m, control.Backlog{
			Pending: left.Pending, Parked: left.Parked, Oldest: left.Oldest, Next: left.Next,
		})
	}
	if err != nil { // the claim ends by itself
		d.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "event mark not settled", slog.String("tenant", m.TenantID), slog.Any("error", err))
	}
}

// serve sends what is due of one tenant, through all transports at once, and returns what is left.
func (d *Dispatcher) serve(ctx context.Context, m control.EventMark) (store.Remaining, error) {
	lease, err := d.opts.Tenants.AcquireSuspended(ctx, m.TenantID)
	if err != nil {
		return store.Remaining{}, err
	}
	defer lease.Release()
	routes, err := d.routes(m)
	if err != nil {
		return store.Remaining{}, err
	}
	names := make([]string, 0, len(routes))
	for _, r := range routes {
		names = append(names, r.name)
	}
	outbox := store.NewOutbox(lease.DB(ctx))
	for more := true; more; {
		if more, err = outbox.List(ctx, names); err != nil {
			return store.Remaining{}, err
		}
	}
	errs := make([]error, len(routes)+1)
	var wg sync.WaitGroup
	for i, r := range routes {
		r.outbox, r.tenant, r.log = outbox, m.TenantID, d.opts.Logger.With(slog.String("tenant", m.TenantID), slog.String("transport", r.name))
		wg.Go(func() { errs[i] = d.drain(ctx, r) })
	}
	wg.Wait()
	// Out of time, or stopping: what was sent is noted, the rest is due again at once.
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	left, err := store.NewOutbox(lease.DB(settling)).Settle(settling, names)
	errs[len(routes)] = err
	return left, errors.Join(errs...)
}

// routes are the ways a tenant's events take.
func (d *Dispatcher) routes(m control.EventMark) ([]route, error) {
	var all []route
	for _, t := range d.opts.Transports {
		all = append(all, route{name: t.Name(), atOnce: sendsAtOnce, send: t.Publish})
	}
	hook := d.opts.Webhook(m.TenantID)
	if m.Webhook != nil {
		opened, err := OpenWebhook(d.opts.Keys, m.TenantID, m.Webhook)
		if err != nil {
			return nil, err
		}
		hook = &opened
	}
	if hook != nil {
		all = append(all, route{name: webhookName, atOnce: postsAtOnce, send: func(ctx context.Context, msg *Message) error {
			return d.poster.post(ctx, *hook, msg)
		}})
	}
	return all, nil
}

// spread keeps dispatchers, and retries, apart.
func (d *Dispatcher) spread(t time.Duration) time.Duration {
	return time.Duration(float64(t) * (0.8 + 0.4*rand.Float64())) //nolint:gosec // guards nothing
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
