package tenant

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/testkit"
)

// TestNothingCrossesOver has workers use random tenants while pools are evicted and tenants are suspended, resumed and
// rotated: every lease reaches its own tenant to its end, and the only failure is the suspension.
func TestNothingCrossesOver(t *testing.T) {
	t.Parallel()
	ids := []string{"a", "b", "c", "d"}
	w := newWorld(t, ids...)
	const workers, rounds = 4, 60
	r := w.router(t, Options{MaxPools: 2, HardCap: 2*workers + len(ids), MaxConns: 2})
	var working, meddling errgroup.Group
	for n := range workers {
		working.Go(func() error {
			random := rand.New(rand.NewPCG(2, uint64(n)))
			for range rounds {
				if err := visit(t, r, ids[random.IntN(len(ids))], 1+random.IntN(3)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	done := make(chan struct{})
	meddling.Go(func() error {
		random := rand.New(rand.NewPCG(3, 3))
		for n := 0; ; n++ {
			select {
			case <-done:
				return nil
			default:
			}
			if err := w.meddle(t, ids[random.IntN(len(ids))], n); err != nil {
				return err
			}
		}
	})
	err := working.Wait()
	close(done)
	if err = errors.Join(err, meddling.Wait()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if _, err := w.Resume(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, id+" is served in the end", func() bool {
			got, err := use(t.Context(), r, id)
			return err == nil && got == id
		})
	}
}

// visit uses one lease several times.
func visit(t *testing.T, r *Router, id string, times int) error {
	l, err := r.Acquire(t.Context(), id)
	if problem.CodeOf(err) == problem.TenantSuspended || errors.Is(err, errOpening) { // the latter on a machine with no time
		return nil
	}
	if err != nil {
		return fmt.Errorf("acquire %s: %w", id, err)
	}
	defer l.Release()
	for range times {
		if got, err := name(t.Context(), l); err != nil || got != id {
			return fmt.Errorf("the lease of %s reached %q: %w", id, got, err)
		}
	}
	return nil
}

// meddle suspends and resumes a tenant, or gives it another address of its database.
func (w *world) meddle(t *testing.T, id string, n int) error {
	if n%2 == 0 {
		_, err := w.SetDSN(t.Context(), id, fmt.Sprintf("%s&application_name=rotated-%d", w.dsns[id], n))
		return err
	}
	_, err := w.Suspend(t.Context(), id)
	time.Sleep(20 * time.Millisecond) // so that some meet the suspension
	_, resumed := w.Resume(t.Context(), id)
	return errors.Join(err, resumed)
}

func TestRestartOfATenantsServer(t *testing.T) {
	t.Parallel()
	server := testkit.NewServer(t)
	w := newWorld(t, "good", "moved")
	dsn := server.NewDatabase(t)
	if _, err := w.SetDSN(t.Context(), "moved", dsn); err != nil {
		t.Fatal(err)
	}
	mark(t, dsn, "moved")
	r := w.router(t, Options{BreakerTimeout: time.Second})
	held := mustAcquire(t, r, "moved")
	defer held.Release()
	mustUse(t, r, "moved")
	server.Stop() // closes every connection; a killed one might lose its data, for it runs without durability
	for range 10 {
		_, err := name(t.Context(), held)
		refused(t, err, problem.TenantUnavailable)
		mustUse(t, r, "good")
	}
	server.Start()
	eventually(t, 20*time.Second, "the held lease works again", func() bool {
		got, err := name(t.Context(), held)
		return err == nil && got == "moved"
	})
	eventually(t, 20*time.Second, "new leases are given again", func() bool {
		got, err := use(t.Context(), r, "moved")
		return err == nil && got == "moved"
	})
}

func TestStatementsLeaveNothingOnTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	r := w.router(t, Options{MaxConns: 1}) // so that every statement runs on the same connection
	for range 3 {
		mustUse(t, r, "acme")
	}
	l := mustAcquire(t, r, "acme")
	defer l.Release()
	var prepared []string
	if err := l.DB(t.Context()).Raw("SELECT statement FROM pg_prepared_statements WHERE name <> ''").Scan(&prepared).Error; err != nil {
		t.Fatal(err)
	}
	if len(prepared) > 0 {
		t.Errorf("a pooler in transaction mode would lose %q", slices.Compact(prepared))
	}
}
