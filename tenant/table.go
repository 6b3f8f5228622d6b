package tenant

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

var (
	errFull   = errors.New("every pool is in use")
	errClosed = errors.New("the router is closed")
)

// entry is one pool in the table. Its fields below id, revision, generation and pool belong to the table's lock.
type entry struct {
	id         string
	revision   int64 // of the registry record it was opened for
	generation uint64
	pool       *pool

	refs     int
	linked   bool
	closing  bool
	lastUsed time.Time
	unlinked reason // why, once it is
}

// flight is one opening of a pool, shared by everybody who waits for it.
type flight struct {
	key  flightKey
	done chan struct{} // closed when the outcome is known

	waiters int // under the table's lock, until landed
	landed  bool
	entry   *entry // set before done is closed; nil when err is not
	err     error
}

type flightKey struct {
	id       string
	revision int64
}

// reason is why a pool was unlinked.
type reason string

const (
	evicted  reason = "evicted"  // to make room
	idle     reason = "idle"     // unused for long
	replaced reason = "replaced" // the registry's record changed, was suspended or removed
	shutdown reason = "shutdown"
)

// tableOptions configure a table.
type tableOptions struct {
	soft, hard int              // pools aimed at, and pools at most
	now        func() time.Time // for the order of use
	took       func()           // called under the lock when a flight is begun
	close      func(*entry)     // closes an unlinked pool nobody refers to
}

// table holds the pools that may be leased, and counts the references to every pool that is not closed.
// It does no I/O and calls close once per entry, after its lock is released. Against its bounds count linked pools,
// unlinked ones still referred to, and flights.
type table struct {
	opts tableOptions

	mu         sync.Mutex
	linked     *simplelru.LRU[string, *entry] // never evicts by itself
	flights    map[flightKey]*flight
	draining   int // unlinked entries with references
	generation uint64
	closed     bool
}

func newTable(o tableOptions) *table {
	// The table keeps its own bounds: the LRU would evict a pool in use.
	lru, err := simplelru.NewLRU[string, *entry](o.hard+1, nil)
	if err != nil {
		panic(err) // the size is positive
	}
	return &table{opts: o, linked: lru, flights: map[flightKey]*flight{}}
}

// run calls fn under the lock and then closes what fn dropped for good.
func (t *table) run(fn func(drop func(*entry, reason))) {
	var unused []*entry
	t.mu.Lock()
	fn(func(e *entry, why reason) {
		if t.unlinkLocked(e, why) {
			unused = append(unused, e)
		}
	})
	t.mu.Unlock()
	for _, e := range unused {
		t.opts.close(e)
	}
}

// unlinkLocked takes e out of the table and reports whether it must be closed now.
func (t *table) unlinkLocked(e *entry, why reason) bool {
	if e.linked {
		e.linked = false
		e.unlinked = why
		t.linked.Remove(e.id)
		if e.refs > 0 {
			t.draining++
		}
	}
	if e.refs > 0 || e.closing {
		return false
	}
	e.closing = true
	return true
}

// acquire returns the pool opened for the key, or a later one of that tenant, with a reference for the caller;
// otherwise a flight that opens it, with the caller among its waiters. first: the caller must do the opening and
// then call land. A pool of an earlier revision is unlinked. mayOpen may refuse to begin a flight.
// errFull: there is no room, every pool being in use. errClosed: the table takes no more.
func (t *table) acquire(key flightKey, mayOpen func() error) (e *entry, f *flight, first bool, err error) {
	t.run(func(drop func(*entry, reason)) {
		if t.closed {
			err = errClosed
			return
		}
		if e = t.takeLocked(key, drop); e != nil {
			return
		}
		if f = t.flights[key]; f != nil {
			f.waiters++
			return
		}
		if err = mayOpen(); err != nil {
			return
		}
		t.shrinkLocked(drop, t.opts.soft-1)
		if t.openLocked() >= t.opts.hard {
			err = errFull
			return
		}
		f = &flight{key: key, done: make(chan struct{}), waiters: 1}
		t.flights[key] = f
		first = true
		t.opts.took()
	})
	return e, f, first, err
}

// take is acquire for a pool that is open already, at the key's revision or later; nil if there is none.
func (t *table) take(key flightKey) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.linked.Get(key.id)
	if !ok || t.closed || e.revision < key.revision {
		return nil
	}
	e.refs++
	e.lastUsed = t.opts.now()
	return e
}

func (t *table) takeLocked(key flightKey, drop func(*entry, reason)) *entry {
	e, ok := t.linked.Get(key.id)
	if !ok {
		return nil
	}
	if e.revision < key.revision {
		drop(e, replaced)
		return nil
	}
	e.refs++
	e.lastUsed = t.opts.now()
	return e
}

// peek adds a reference to the tenant's pool and returns it, or nil when none is linked. It does not count as use:
// the pool's place in the order of eviction stays.
func (t *table) peek(id string) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.linked.Peek(id)
	if !ok {
		return nil
	}
	e.refs++
	return e
}

// release takes a reference back. The last one closes an unlinked pool; with more pools open than aimed at, idle
// ones go.
func (t *table) release(e *entry) {
	t.mu.Lock()
	e.lastUsed = t.opts.now()
	if e.linked && t.openLocked() <= t.opts.soft { // nothing is to close, as nearly always
		e.refs--
		t.mu.Unlock()
		return
	}
	t.mu.Unlock()
	t.unpeek(e)
}

// unpeek is release without counting as use.
func (t *table) unpeek(e *entry) {
	t.run(func(drop func(*entry, reason)) {
		e.refs--
		if e.refs > 0 {
			return
		}
		if !e.linked {
			t.draining--
			drop(e, e.unlinked)
			return
		}
		t.shrinkLocked(drop, t.opts.soft)
	})
}

// shrinkLocked unlinks idle pools, least recently used first, until at most limit are open.
func (t *table) shrinkLocked(drop func(*entry, reason), limit int) {
	over := t.openLocked() - limit
	if over <= 0 {
		return
	}
	for _, e := range t.linked.Values() {
		if over == 0 {
			return
		}
		if e.refs == 0 {
			drop(e, evicted)
			over--
		}
	}
}

// openLocked counts pools that are open or being opened.
func (t *table) openLocked() int { return t.linked.Len() + t.draining + len(t.flights) }

// land ends the flight: with a pool, which then has one reference per waiter, or with err. current says, under the
// lock, whether the pool may still be linked; when not, the flight ends with stale and the pool stays the caller's.
// It reports whether the table owns the pool now.
func (t *table) land(f *flight, p *pool, err error, current func() bool, stale error) (owned bool) {
	t.run(func(drop func(*entry, reason)) {
		delete(t.flights, f.key)
		f.landed = true
		switch {
		case err != nil:
			f.err = err
		case t.closed:
			f.err = errClosed
		case !current():
			f.err = stale
		default:
			owned = true
			f.entry = t.linkLocked(f, p, drop)
		}
	})
	close(f.done)
	return owned
}

func (t *table) linkLocked(f *flight, p *pool, drop func(*entry, reason)) *entry {
	if old, ok := t.linked.Peek(f.key.id); ok {
		drop(old, replaced)
	}
	t.generation++
	e := &entry{
		id: f.key.id, revision: f.key.revision, generation: t.generation, pool: p,
		refs: f.waiters, linked: true, lastUsed: t.opts.now(),
	}
	t.linked.Add(e.id, e)
	return e
}

// leave takes a waiter off the flight that did not wait for its outcome.
func (t *table) leave(f *flight) {
	t.mu.Lock()
	if !f.landed {
		f.waiters--
		t.mu.Unlock()
		return
	}
	t.mu.Unlock()
	if f.entry != nil {
		t.release(f.entry)
	}
}

// unlink takes the tenant's pool out if it was opened for a revision before the given one.
func (t *table) unlink(id string, before int64) {
	t.run(func(drop func(*entry, reason)) {
		if e, ok := t.linked.Peek(id); ok && e.revision < before {
			drop(e, replaced)
		}
	})
}

// unlinkIdle takes out the pools nobody has used since the given instant.
func (t *table) unlinkIdle(since time.Time) {
	t.run(func(drop func(*entry, reason)) {
		for _, e := range t.linked.Values() {
			if e.refs == 0 && e.lastUsed.Before(since) {
				drop(e, idle)
			}
		}
	})
}

// close takes out every pool; acquire and land accept no more.
func (t *table) close() {
	t.run(func(drop func(*entry, reason)) {
		t.closed = true
		for _, e := range t.linked.Values() {
			drop(e, shutdown)
		}
	})
}

// entries returns the linked pools, least recently used first.
func (t *table) entries() []*entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.linked.Values()
}

// counts returns how many pools are linked, how many of them are leased, and how many only wait for their last lease.
func (t *table) counts() (linked, leased, draining int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.linked.Values() {
		if e.refs > 0 {
			leased++
		}
	}
	return t.linked.Len(), leased, t.draining
}
