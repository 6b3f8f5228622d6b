package extract

import (
	"context"
	"runtime/debug"

	"golang.org/x/sync/semaphore"
)

const (
	blockBytes = 128 << 10 // a block is passed on when it has this many
	wideBytes  = 1 << 20   // one with more holds a wide row, and is passed on alone
	hugeBytes  = 4 << 20   // see queue.noteSize
)

// block is a piece of the output on its way from a reader to the writer.
type block struct {
	data  []byte
	table string // that it belongs to
	rows  int64
	ends  bool // the table's last piece
}

// wide tells whether b holds a wide row.
func (b *block) wide() bool { return len(b.data) > wideBytes }

// queue passes blocks from one reader to the writer, in order, a bounded number of bytes at a time. Blocks go round:
// what the writer is done with the reader fills again.
type queue struct {
	full   chan *block
	empty  chan *block
	budget *semaphore.Weighted
	bytes  int64

	largest int // capacity of the kept buffer, when huge
}

func newQueue(bytes int) *queue {
	bytes = max(bytes, blockBytes)
	return &queue{
		full:   make(chan *block, bytes/blockBytes+1),
		empty:  make(chan *block, bytes/blockBytes+1),
		budget: semaphore.NewWeighted(int64(bytes)),
		bytes:  int64(bytes),
	}
}

// get returns a block to fill.
func (q *queue) get() *block {
	select {
	case b := <-q.empty:
		return b
	default:
		return &block{data: make([]byte, 0, blockBytes+blockBytes/4)}
	}
}

// put passes b on, waiting for room, and returns the block to fill next, which belongs to the same table. A wide
// block waits until everything before it is written and then until it is written itself, and is returned: so there is
// at most one buffer of that size, which the reader keeps.
func (q *queue) put(ctx context.Context, b *block) (*block, error) {
	table := b.table // the writer clears what it is done with
	switch {
	case b.wide():
		q.noteSize(cap(b.data))
		for _, step := range []func() error{
			func() error { return q.drained(ctx) },
			func() error { return q.send(ctx, b) },
			func() error { return q.drained(ctx) },
		} {
			if err := step(); err != nil {
				return nil, err
			}
		}
	case cap(b.data) > wideBytes: // the kept buffer with narrow rows
		narrow := q.get()
		narrow.data = append(narrow.data, b.data...)
		narrow.table, narrow.rows, narrow.ends = b.table, b.rows, b.ends
		*b = block{data: b.data[:0]}
		if err := q.send(ctx, narrow); err != nil {
			return nil, err
		}
	default:
		if err := q.send(ctx, b); err != nil {
			return nil, err
		}
		b = q.get()
	}
	b.table = table
	return b, nil
}

// noteSize follows the size of the kept buffer. What a huge one grew out of is almost as large, and memory is promised
// to be small: such garbage is not left to pile up.
func (q *queue) noteSize(size int) {
	if size > hugeBytes && size > q.largest {
		q.largest = size
		debug.FreeOSMemory()
	}
}

// release gives memory back once the reader has ended and let go of its buffer.
func (q *queue) release() {
	if q.largest > 0 {
		debug.FreeOSMemory()
	}
}

func (q *queue) cost(b *block) int64 { return min(int64(len(b.data)), q.bytes) }

func (q *queue) send(ctx context.Context, b *block) error {
	if err := q.budget.Acquire(ctx, q.cost(b)); err != nil {
		return context.Cause(ctx)
	}
	select {
	case q.full <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drained waits until nothing is on its way.
func (q *queue) drained(ctx context.Context) error {
	if err := q.budget.Acquire(ctx, q.bytes); err != nil {
		return context.Cause(ctx)
	}
	q.budget.Release(q.bytes)
	return nil
}

// close tells the writer that no more blocks come.
func (q *queue) close() { close(q.full) }

// next returns the next block for the writer, false at the end.
func (q *queue) next(ctx context.Context) (*block, bool, error) {
	select {
	case b, ok := <-q.full:
		return b, ok, nil
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
}

// done gives a written block back.
func (q *queue) done(b *block) {
	cost, wide := q.cost(b), b.wide()
	*b = block{data: b.data[:0]}
	if !wide && cap(b.data) <= 2*blockBytes {
		select {
		case q.empty <- b:
		default:
		}
	}
	q.budget.Release(cost)
}
