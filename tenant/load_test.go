package tenant

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// load is how much a test does: the small number normally, the large one in `make load`.
func load(small, large int) int {
	if os.Getenv("FETCHER_LOAD") == "" {
		return small
	}
	return large
}

// TestRequestsUnderConstantEviction uses leases while every pool is unlinked again and again: not one request may find its
// connection closed.
func TestRequestsUnderConstantEviction(t *testing.T) {
	t.Parallel()
	ids := []string{"a", "b", "c"}
	w := newWorld(t, ids...)
	r := w.router(t, Options{MaxPools: 2, HardCap: 60, MaxConns: 4})
	requests := int64(load(5_000, 100_000))
	var done, evicted atomic.Int64
	var working, evicting errgroup.Group
	for n := range 8 {
		random := rand.New(rand.NewPCG(4, uint64(n)))
		working.Go(func() error {
			for done.Add(1) <= requests {
				id := ids[random.IntN(len(ids))]
				if got, err := use(t.Context(), r, id); err != nil || got != id {
					return fmt.Errorf("tenant %s reached %q: %w", id, got, err)
				}
			}
			return nil
		})
	}
	stop := make(chan struct{})
	evicting.Go(func() error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return nil
			case <-tick.C:
			}
			r.pools.unlink(ids[n%len(ids)], 1<<62)
			evicted.Add(1)
		}
	})
	err := working.Wait()
	close(stop)
	if err != nil {
		t.Fatal(err)
	}
	_ = evicting.Wait()
	l := mustAcquire(t, r, "a")
	defer l.Release()
	t.Logf("%d requests, %d evictions asked for, pool of generation %d", requests, evicted.Load(), l.Generation())
	if l.Generation() < 20 {
		t.Errorf("generation %d: hardly anything was evicted", l.Generation())
	}
}
