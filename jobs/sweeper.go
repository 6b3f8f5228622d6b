package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
)

// SweeperOptions configure a Sweeper. Control and Queue are required; every other zero member takes the default named
// beside it.
type SweeperOptions struct {
	Control *control.DB
	Queue   *Queue

	Every      time.Duration // between sweeps, give or take a fifth; 2 s
	StrayAfter time.Duration // a worker took an entry and has no lease for it; 15 s
	MaxRunning int           // as the workers have it

	Logger *slog.Logger
	Meter  metric.Meter
}

// Sweeper puts jobs back whose worker is gone: those with an expired lease, and entries that a worker took and died
// before it took the lease. It reads nothing but the control database. Any number may run; each job is put back once.
type Sweeper struct {
	opts    SweeperOptions
	metrics *metrics
	stop    context.CancelFunc
	wg      sync.WaitGroup

	suspects map[int64]time.Time // entries that looked stray in the sweep before, with when they were taken
}

// sweepBatch bounds one sweep's work of each kind; the next one goes on.
const sweepBatch = 100

// NewSweeper returns a sweeper that has not been started.
func NewSweeper(o SweeperOptions) (*Sweeper, error) {
	if o.Control == nil || o.Queue == nil {
		return nil, errors.New("sweeper: control database and queue are required")
	}
	orElse(&o.Every, 2*time.Second)
	orElse(&o.StrayAfter, leaseTTL)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Meter == nil {
		o.Meter = metricnoop.Meter{}
	}
	m, err := newMetrics(o.Meter)
	if err != nil {
		return nil, fmt.Errorf("sweeper: %w", err)
	}
	return &Sweeper{opts: o, metrics: m, stop: func() {}}, nil
}

// Start begins to sweep. It must be called once.
func (s *Sweeper) Start(ctx context.Context) {
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.wg.Go(func() {
		for {
			if _, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "sweep failed", slog.Any("error", err))
			}
			spread := 0.8 + 0.4*rand.Float64() //nolint:gosec // keeps sweepers apart, guards nothing
			timer := time.NewTimer(time.Duration(float64(s.opts.Every) * spread))
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
	})
}

// Stop ends sweeping and waits for the sweep that runs.
func (s *Sweeper) Stop() {
	s.stop()
	s.wg.Wait()
}

// Sweep looks once and returns how many jobs it put back. A stray entry is put back by the second sweep in a row that
// finds it: for a moment after a run, until the queue has written down its outcome, every entry looks like one. Sweeps of
// one sweeper must not overlap; none takes longer than 5 s.
func (s *Sweeper) Sweep(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	leases, err := s.sweepLeases(ctx)
	strays, failed := s.sweepStrays(ctx)
	return leases + strays, errors.Join(err, failed, s.sweepTurns(ctx))
}

func (s *Sweeper) sweepLeases(ctx context.Context) (n int, err error) {
	leases, err := s.opts.Control.ExpiredLeases(ctx, sweepBatch)
	for _, l := range leases {
		entry := control.QueueEntry{ID: l.QueueID, TenantID: l.TenantID, JobID: l.JobID}
		back, failed := s.putBack(ctx, entry, func(tx pgx.Tx) (bool, error) { return s.takeLease(ctx, tx, l) })
		err = errors.Join(err, failed)
		if back {
			n++
			s.metrics.takenOver(ctx)
			s.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "job put back: its worker is gone", slog.String("tenant", l.TenantID),
				slog.String("job", l.JobID.String()), slog.String("worker", l.WorkerID))
		}
	}
	return n, err
}

// takeLease removes an expired lease and the entry it was for. An entry that isn't running any more was finished or
// snoozed by a worker that could not drop its lease: another one then does no harm, and none at all would.
func (s *Sweeper) takeLease(ctx context.Context, tx pgx.Tx, l control.Lease) (bool, error) {
	gone, err := s.opts.Control.DropExpiredLease(ctx, tx, l.Token)
	if err != nil || !gone {
		return false, err
	}
	// Its holder may have ended the job and died before it could say so.
	if err = s.opts.Control.MarkEventsIn(ctx, tx, l.TenantID); err != nil {
		return false, err
	}
	if err = s.opts.Control.DiscardEntry(ctx, tx, l.QueueID); errors.Is(err, control.ErrEntryNotRunning) {
		return true, nil
	}
	return true, err
}

func (s *Sweeper) sweepStrays(ctx context.Context) (n int, err error) {
	strays, err := s.opts.Control.StrayEntries(ctx, s.opts.StrayAfter, sweepBatch)
	suspects := s.suspects
	s.suspects = map[int64]time.Time{}
	for _, e := range strays {
		s.suspects[e.ID] = e.ClaimedAt
		if before, ok := suspects[e.ID]; !ok || !before.Equal(e.ClaimedAt) {
			continue
		}
		back, failed := s.putBack(ctx, e, func(tx pgx.Tx) (bool, error) {
			discarded := s.opts.Control.DiscardEntry(ctx, tx, e.ID)
			if errors.Is(discarded, control.ErrEntryNotRunning) {
				return false, nil
			}
			return discarded == nil, discarded
		})
		err = errors.Join(err, failed)
		if back {
			n++
			s.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "stray queue entry put back", slog.String("tenant", e.TenantID),
				slog.String("job", e.JobID.String()))
		}
	}
	return n, err
}

// putBack replaces an entry by a new one if take, in the same transaction, says that it is ours to replace.
func (s *Sweeper) putBack(ctx context.Context, e control.QueueEntry, take func(pgx.Tx) (bool, error)) (bool, error) {
	taken := false
	err := pgx.BeginFunc(ctx, s.opts.Control.Pool(), func(tx pgx.Tx) error {
		var err error
		if taken, err = take(tx); err != nil || !taken {
			return err
		}
		return s.opts.Queue.again(ctx, tx, e.ID, e.TenantID, e.JobID)
	})
	if err != nil {
		return false, fmt.Errorf("put job back: %w", store.Cause("sweep", err))
	}
	return taken, nil
}
