package events

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/fetcherhq/fetcher/store"
)

// route is one way that one tenant's events take.
type route struct {
	name   string
	atOnce int
	send   func(ctx context.Context, m *Message) error

	outbox store.Outbox
	tenant string
	log    *slog.Logger
}

// outcome is what became of one delivery.
type outcome struct {
	delivery store.Delivery
	err      error // nil: taken
}

// drain sends what is due on the route until nothing is, the route has to rest, or ctx ends. After a failure it tries
// one event first.
func (d *Dispatcher) drain(ctx context.Context, r route) error {
	for ctx.Err() == nil {
		due, failures, err := r.outbox.Due(ctx, r.name, d.opts.Batch)
		if err != nil || len(due) == 0 {
			return unlessEnded(ctx, err)
		}
		if failures > 0 {
			due = due[:1]
		}
		outcomes := d.send(ctx, r, due)
		rest, err := d.note(ctx, r, outcomes, failures)
		if err != nil || rest {
			return unlessEnded(ctx, err)
		}
	}
	return nil
}

// unlessEnded drops the errors that come of ctx having ended: the rest is for the next round.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// send hands the deliveries over, several at once, and stops handing over when one failed for a reason that is not its
// own. It returns the outcomes there are.
func (d *Dispatcher) send(ctx context.Context, r route, due []store.Delivery) []outcome {
	var (
		mu       sync.Mutex
		outcomes []outcome
		wg       sync.WaitGroup
		next     int
		down     bool
	)
	take := func() (store.Delivery, bool) {
		mu.Lock()
		defer mu.Unlock()
		if down || next == len(due) || ctx.Err() != nil {
			return store.Delivery{}, false
		}
		next++
		return due[next-1], true
	}
	for range min(r.atOnce, len(due)) {
		wg.Go(func() {
			for {
				delivery, ok := take()
				if !ok {
					return
				}
				err := d.deliver(ctx, r, delivery)
				if err != nil && ctx.Err() != nil {
					return // cut off: not a failure of the transport
				}
				mu.Lock()
				outcomes = append(outcomes, outcome{delivery, err})
				down = down || isDown(err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return outcomes
}

func isDown(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.down
}

func (d *Dispatcher) deliver(ctx context.Context, r route, delivery store.Delivery) error {
	m := newMessage(d.opts.Source, r.tenant, delivery)
	if err := sign(d.opts.Keys, m); err != nil {
		return &failure{reason: "the event can't be signed", err: err}
	}
	ctx, span := d.publishing(ctx, r.name, m)
	defer span.End()
	if err := r.send(ctx, m); err != nil {
		span.SetStatus(codes.Error, "not delivered")
		return err
	}
	d.opts.Taken(r.name, m)
	return nil
}

// note writes down what became of the deliveries, although ctx may have ended, and reports whether the route rests now.
func (d *Dispatcher) note(ctx context.Context, r route, outcomes []outcome, failures int) (rest bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	var taken []string
	var down *failure
	for _, o := range outcomes {
		if o.err == nil {
			taken = append(taken, o.delivery.ID)
			continue
		}
		reason := "unforeseen"
		f, ok := errors.AsType[*failure](o.err)
		if ok {
			reason = f.reason
		}
		parked, failed := r.outbox.Failed(ctx, r.name, o.delivery.ID, reason, d.backoff(o.delivery.Attempts), d.opts.Patience)
		if failed != nil {
			return false, failed
		}
		if ok && f.down {
			down = f
		}
		d.metrics.failed(ctx, r.name, parked)
		r.log.LogAttrs(ctx, slog.LevelWarn, "event not delivered", slog.String("event", o.delivery.ID),
			slog.String("reason", reason), slog.Int("attempt", o.delivery.Attempts+1), slog.Bool("parked", parked))
	}
	if len(taken) > 0 {
		if err = r.outbox.Delivered(ctx, r.name, taken); err != nil {
			return false, err
		}
		d.metrics.delivered(ctx, r.name, len(taken))
	}
	if down == nil {
		return false, nil
	}
	parked, err := r.outbox.Pause(ctx, r.name, down.reason, d.backoff(failures), d.opts.Patience)
	d.metrics.parkedMore(ctx, r.name, parked)
	return true, err
}

// backoff is the time before the next attempt after that many failed ones before.
func (d *Dispatcher) backoff(failures int) time.Duration {
	const most = 16 // doublings, far beyond the bound
	return d.spread(min(d.opts.RetryUnit<<min(failures, most), d.opts.RetryMax))
}
