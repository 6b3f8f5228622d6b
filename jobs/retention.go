package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
)

// RetentionOptions configure a Retention. The first group is required; every other zero member takes the default named
// beside it.
type RetentionOptions struct {
	Control *control.DB
	Tenants Tenants
	Store   *results.Store
	Active  func(ctx context.Context) ([]string, error) // ids of the tenants that are served

	SingleTenant bool          // object keys without the tenant
	JobTTL       time.Duration // after a job's end; 90 days
	EventTTL     time.Duration // after an event was published; 7 days
	Every        time.Duration // between two turns of a tenant; 1 h
	Orphans      time.Duration // between two comparisons of objects with jobs; 24 h
	OrphanAge    time.Duration // of the youngest object that may be an orphan; 24 h
	Look         time.Duration // between looks for tenants whose turn it is; 1 min
	Batch        int           // rows deleted at once; 100

	Logger *slog.Logger
	Meter  metric.Meter
}

func (o RetentionOptions) withDefaults() RetentionOptions {
	const day = 24 * time.Hour
	orElse(&o.JobTTL, 90*day)
	orElse(&o.EventTTL, 7*day)
	orElse(&o.Every, time.Hour)
	orElse(&o.Orphans, day)
	orElse(&o.OrphanAge, day)
	orElse(&o.Look, time.Minute)
	orElse(&o.Batch, 100)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Meter == nil {
		o.Meter = metricnoop.Meter{}
	}
	return o
}

// Retention deletes what has had its time: results with their facts, jobs, published events, and objects that attempts
// left behind. It deletes an object before the row that refers to it and nothing that is still of use. Any number may run;
// each tenant is at one's hands at a time.
type Retention struct {
	opts    RetentionOptions
	deleted metric.Int64Counter
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

// retentionTurn bounds the turn of one tenant; what is left then is for the next.
const retentionTurn = 10 * time.Minute

// NewRetention returns a Retention that has not been started.
func NewRetention(o RetentionOptions) (*Retention, error) {
	if o.Control == nil || o.Tenants == nil || o.Store == nil || o.Active == nil {
		return nil, errors.New("retention: control database, tenants and store are required")
	}
	o = o.withDefaults()
	deleted, err := o.Meter.Int64Counter("fetcher.retention.deleted", metric.WithDescription("What was deleted when its time was over, by kind."))
	if err != nil {
		return nil, fmt.Errorf("retention: %w", err)
	}
	for _, kind := range []string{"result", "job", "event"} { // so that the first deletion is an increase
		deleted.Add(context.Background(), 0, metric.WithAttributes(attribute.String("kind", kind)))
	}
	return &Retention{opts: o, deleted: deleted, stop: func() {}}, nil
}

// Start begins to look for tenants whose turn it is. It must be called once.
func (r *Retention) Start(ctx context.Context) {
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.wg.Go(func() {
		for ctx.Err() == nil {
			worked, err := r.Next(ctx)
			if err != nil && ctx.Err() == nil {
				r.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "retention failed", slog.Any("error", err))
			}
			if worked {
				continue
			}
			spread := 0.8 + 0.4*rand.Float64() //nolint:gosec // keeps processes apart, guards nothing
			timer := time.NewTimer(time.Duration(float64(r.opts.Look) * spread))
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			timer.Stop()
		}
	})
}

// Stop ends the turn that runs, and waits for that.
func (r *Retention) Stop() {
	r.stop()
	r.wg.Wait()
}

// Next takes the turn of one tenant, if it is any one's, and reports whether it was.
func (r *Retention) Next(ctx context.Context) (bool, error) {
	ids, err := r.opts.Active(ctx)
	if err != nil {
		return false, fmt.Errorf("list tenants: %w", err)
	}
	turn, ok, err := r.opts.Control.TakeRetentionTurn(ctx, ids, retentionTurn+time.Minute)
	if err != nil || !ok {
		return false, err
	}
	working, cancel := context.WithTimeout(ctx, retentionTurn)
	defer cancel()
	failed := r.tenant(working, turn)
	if failed != nil {
		turn.Orphans = false // they come with the next turn
		failed = fmt.Errorf("tenant %s: %w", turn.TenantID, failed)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), controlTimeout)
	defer cancel()
	return true, errors.Join(failed, r.opts.Control.EndRetentionTurn(ending, turn, r.opts.Every, r.opts.Orphans))
}

// tenant clears one tenant away, one kind after the other. A kind that fails stops no other.
func (r *Retention) tenant(ctx context.Context, turn control.RetentionTurn) error {
	steps := []func(context.Context, string) error{r.expiredResults, r.oldJobs, r.events}
	if turn.Orphans {
		steps = append(steps, r.orphans)
	}
	errs := make([]error, 0, len(steps))
	for _, step := range steps {
		errs = append(errs, step(ctx, turn.TenantID))
	}
	return errors.Join(errs...)
}

// with runs fn under a lease that is held no longer than that.
func (r *Retention) with(ctx context.Context, tenantID string, fn func(store.Retention, store.Outbox) error) error {
	lease, err := r.opts.Tenants.Acquire(ctx, tenantID)
	if err != nil {
		return err
	}
	defer lease.Release()
	return fn(store.NewRetention(lease.DB(ctx)), store.NewOutbox(lease.DB(ctx)))
}

func (r *Retention) expiredResults(ctx context.Context, tenantID string) error {
	return r.deleteResults(ctx, tenantID, func(rows store.Retention) ([]store.ResultRef, error) {
		return rows.ExpiredResults(ctx, r.opts.Batch)
	})
}

// deleteResults deletes the objects, and then the facts, of the results that find returns until that are none.
func (r *Retention) deleteResults(ctx context.Context, tenantID string, find func(store.Retention) ([]store.ResultRef, error)) error {
	for {
		var due []store.ResultRef
		if err := r.with(ctx, tenantID, func(rows store.Retention, _ store.Outbox) (err error) {
			due, err = find(rows)
			return err
		}); err != nil {
			return err
		}
		for _, ref := range due {
			if err := r.deleteObjects(ctx, tenantID, ref); err != nil {
				return err
			}
		}
		if len(due) == 0 {
			return nil
		}
		if err := r.with(ctx, tenantID, func(rows store.Retention, _ store.Outbox) error {
			for _, ref := range due {
				if err := rows.ForgetResult(ctx, ref); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		r.count(ctx, "result", int64(len(due)))
	}
}

// deleteObjects deletes the object a result refers to, and those that lie in a directory of the job's own.
func (r *Retention) deleteObjects(ctx context.Context, tenantID string, ref store.ResultRef) error {
	if _, err := r.opts.Store.DeletePrefix(ctx, r.directory(tenantID)+ref.JobID.String()+"/"); err != nil {
		return err
	}
	if err := r.opts.Store.Delete(ctx, ref.Path); err != nil && !errors.Is(err, results.ErrGone) {
		return err
	}
	return nil
}

// directory is where the tenant's results are.
func (r *Retention) directory(tenantID string) string {
	if r.opts.SingleTenant {
		tenantID = ""
	}
	return r.opts.Store.Key(tenantID, resultsDirectory) + "/"
}

func (r *Retention) oldJobs(ctx context.Context, tenantID string) error {
	if err := r.deleteResults(ctx, tenantID, func(rows store.Retention) ([]store.ResultRef, error) {
		return rows.ResultsOfOldJobs(ctx, r.opts.JobTTL, r.opts.Batch)
	}); err != nil {
		return err
	}
	return r.rows(ctx, tenantID, "job", func(rows store.Retention, _ store.Outbox) (int64, error) {
		return rows.DeleteJobs(ctx, r.opts.JobTTL, r.opts.Batch)
	})
}

// events deletes published events and makes sure that open ones are not forgotten.
func (r *Retention) events(ctx context.Context, tenantID string) error {
	if err := r.rows(ctx, tenantID, "event", func(_ store.Retention, outbox store.Outbox) (int64, error) {
		return outbox.Purge(ctx, r.opts.EventTTL, r.opts.Batch)
	}); err != nil {
		return err
	}
	return r.with(ctx, tenantID, func(_ store.Retention, outbox store.Outbox) error {
		open, err := outbox.Open(ctx)
		if err != nil || !open {
			return err
		}
		return r.opts.Control.MarkEvents(ctx, tenantID)
	})
}

// rows deletes batches until one is not full.
func (r *Retention) rows(
	ctx context.Context, tenantID, kind string, batch func(store.Retention, store.Outbox) (int64, error),
) error {
	for {
		var n int64
		err := r.with(ctx, tenantID, func(rows store.Retention, outbox store.Outbox) (err error) {
			n, err = batch(rows, outbox)
			return err
		})
		r.count(ctx, kind, n)
		if err != nil || n < int64(r.opts.Batch) {
			return err
		}
	}
}

func (r *Retention) count(ctx context.Context, kind string, n int64) {
	if n > 0 {
		r.deleted.Add(ctx, n, metric.WithAttributes(attribute.String("kind", kind)))
	}
}

// orphans deletes objects of jobs that refer to none and never will. Young ones may belong to an attempt that runs.
func (r *Retention) orphans(ctx context.Context, tenantID string) error {
	var batch []results.Object
	youngest := time.Now().Add(-r.opts.OrphanAge)
	flush := func() error {
		err := r.deleteOrphans(ctx, tenantID, batch)
		batch = batch[:0]
		return err
	}
	err := r.opts.Store.List(ctx, r.directory(tenantID), func(o results.Object) error {
		if _, ok := r.jobOf(tenantID, o.Key); !ok || o.ModTime.After(youngest) {
			return nil
		}
		if batch = append(batch, o); len(batch) < r.opts.Batch {
			return nil
		}
		return flush()
	})
	return errors.Join(err, flush())
}

// jobOf is the job that the key of an object names, finished or not.
func (r *Retention) jobOf(tenantID, key string) (uuid.UUID, bool) {
	rest, ok := strings.CutPrefix(key, r.directory(tenantID))
	if !ok {
		return uuid.UUID{}, false
	}
	name, _, inside := strings.Cut(rest, "/")
	if !inside {
		name, _, _ = strings.Cut(name, ".") // of a document, compressed or not, or of one that was never finished
	}
	id, err := uuid.Parse(name)
	return id, err == nil && id.String() == name
}

func (r *Retention) deleteOrphans(ctx context.Context, tenantID string, objects []results.Object) error {
	if len(objects) == 0 {
		return nil
	}
	keys, ids := map[uuid.UUID][]string{}, []uuid.UUID{}
	for _, o := range objects {
		id, _ := r.jobOf(tenantID, o.Key)
		if keys[id] == nil {
			ids = append(ids, id)
		}
		keys[id] = append(keys[id], o.Key)
	}
	return r.with(ctx, tenantID, func(rows store.Retention, _ store.Outbox) error {
		unreferenced, err := rows.Unreferenced(ctx, ids)
		if err != nil {
			return err
		}
		for _, id := range unreferenced {
			for _, key := range keys[id] {
				if err := r.opts.Store.Delete(ctx, key); err != nil && !errors.Is(err, results.ErrGone) {
					return err
				}
				r.count(ctx, "orphan", 1)
			}
		}
		return nil
	})
}
