package sourcetest

import (
	"cmp"
	"context"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/source"
)

const (
	// memoryLimit is what one session may need, encoder and all.
	memoryLimit = 64 << 20
	// pieceLimit is how much of a value may be held where values are flat.
	pieceLimit = 1 << 20
)

// testMemory reads large values, and many small ones, while the heap is watched.
func (b Backend) testMemory(t *testing.T) { //nolint:paralleltest // it looks at the memory of the process
	for _, c := range []struct {
		name        string
		needs       Feature
		rows, width int
	}{
		{"large values", LargeValues, 8, 15 << 20},
		{"large for short tests", "", 8, 1 << 20},
		{"narrow rows", "", cmp.Or(b.NarrowRows, 200_000), 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.rows*c.width > 10<<20 || testing.Short() && c.rows > 100_000 {
				t.Skip("moves much")
			}
			if c.needs != "" {
				b.needs(t, c.needs)
			}
			d := b.New(t)
			b.bulk(t, d, c.rows, c.width)
			s, catalog := b.begin(t, d.Params)
			q := Query(t, catalog, "bulk", b.all("id", "v"))
			var total, most int
			q.Spill = func(dst []byte) error {
				total, most = total+len(dst), max(most, len(dst))
				return nil
			}
			rows := 0
			var dst []byte
			peak := watchHeap(func() {
				err := s.Stream(context.Background(), q, func(r source.Row) error {
					rows++
					dst = r.AppendJSON(r.AppendJSON(dst[:0], 0), 1)
					total, most = total+len(dst), max(most, len(dst))
					return nil
				})
				if err != nil {
					t.Error(Cause(err))
				}
			})
			want := c.rows * (c.width + 2)
			for i := 1; i <= c.rows; i++ {
				want += digits(i)
			}
			if rows != c.rows || total != want {
				t.Errorf("%d rows, %d bytes; want %d, %d", rows, total, c.rows, want)
			}
			if b.has(FlatValues) && most > pieceLimit {
				t.Errorf("%d bytes of a value at once", most)
			}
			if t.Logf("the heap grew by %d KiB", peak>>10); peak > memoryLimit {
				t.Errorf("the heap grew by %d MiB", peak>>20)
			}
		})
	}
}

func digits(n int) int {
	d := 1
	for ; n > 9; n /= 10 {
		d++
	}
	return d
}

// watchHeap returns by how much the heap grew while f ran, with what the collector had not yet got to.
func watchHeap(f func()) uint64 {
	runtime.GC()
	before := heap()
	peak := before
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, heap())
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	f()
	close(stop)
	wg.Wait()
	return peak - before
}

func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
