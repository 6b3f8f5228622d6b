package tenant

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// modelPool is what the model knows of a pool.
type modelPool struct {
	id      string
	rev     int64
	entry   *entry
	refs    int
	linked  bool
	closed  bool
	lastUse int
}

// modelFlight is an opening that has not landed; waiters are callers that wait for it.
type modelFlight struct {
	flight  *flight
	waiters int
}

// tableModel runs random operations on a table and predicts every outcome from its own simple bookkeeping.
type tableModel struct {
	table      *table
	soft, hard int
	clock      time.Time
	use        int // counts uses, for the order of eviction
	current    map[string]int64
	pools      []*modelPool
	flights    map[flightKey]*modelFlight
	late       []*flight // landed flights whose waiter has not looked yet: each holds a reference
	closed     bool
	closes     []*entry // reported by the table since the last check
}

func newTableModel(t *rapid.T) *tableModel {
	m := &tableModel{
		soft:    rapid.IntRange(1, 4).Draw(t, "soft"),
		clock:   time.Unix(0, 0),
		current: map[string]int64{},
		flights: map[flightKey]*modelFlight{},
	}
	m.hard = m.soft + rapid.IntRange(0, 3).Draw(t, "spare")
	m.table = newTable(tableOptions{
		soft: m.soft, hard: m.hard, now: func() time.Time { return m.clock }, took: func() {},
		close: func(e *entry) { m.closes = append(m.closes, e) },
	})
	for i := range 6 {
		m.current[fmt.Sprint("t", i)] = 1
	}
	return m
}

func (m *tableModel) tenant(t *rapid.T) string {
	return fmt.Sprint("t", rapid.IntRange(0, 5).Draw(t, "tenant"))
}

func (m *tableModel) linked(id string) *modelPool {
	for _, p := range m.pools {
		if p.linked && p.id == id {
			return p
		}
	}
	return nil
}

func (m *tableModel) of(e *entry) *modelPool {
	for _, p := range m.pools {
		if p.entry == e {
			return p
		}
	}
	return nil
}

func (m *tableModel) open() int {
	n := len(m.flights)
	for _, p := range m.pools {
		if p.linked || p.refs > 0 {
			n++
		}
	}
	return n
}

// unlink predicts that p leaves the table, and closes if nobody refers to it.
func (m *tableModel) unlink(p *modelPool) {
	p.linked = false
	p.closed = p.refs == 0
}

// shrink predicts which idle pools go for at most limit to be open.
func (m *tableModel) shrink(limit int) {
	idle := slices.DeleteFunc(slices.Clone(m.pools), func(p *modelPool) bool { return !p.linked || p.refs > 0 })
	slices.SortFunc(idle, func(a, b *modelPool) int { return a.lastUse - b.lastUse })
	for _, p := range idle {
		if m.open() <= limit {
			return
		}
		m.unlink(p)
	}
}

func (m *tableModel) touch(p *modelPool) {
	m.use++
	p.lastUse = m.use
}

func (m *tableModel) acquire(t *rapid.T) {
	key := flightKey{id: m.tenant(t)}
	// Sometimes the caller's record is out of date.
	key.revision = m.current[key.id] - int64(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 1}).Draw(t, "behind"))
	m.acquireKey(t, key, rapid.IntRange(0, 9).Draw(t, "refuse") == 0)
}

// visit is the common case in one step: acquire, wait for the opening if need be, release.
func (m *tableModel) visit(t *rapid.T) {
	key := flightKey{id: m.tenant(t)}
	key.revision = m.current[key.id]
	if m.flights[key] != nil {
		t.Skip("somebody else is opening it")
	}
	m.acquireKey(t, key, false)
	if m.flights[key] != nil {
		m.landKey(t, key, nil)
		m.late = m.late[:len(m.late)-1]
	}
	if p := m.linked(key.id); p != nil {
		m.table.release(p.entry)
		m.released(p)
	}
}

func (m *tableModel) acquireKey(t *rapid.T, key flightKey, refuse bool) {
	refusal := errors.New("refused")
	e, f, first, err := m.table.acquire(key, func() error {
		if refuse {
			return refusal
		}
		return nil
	})
	if m.closed {
		expectf(t, errors.Is(err, errClosed), "closed table: %v", err)
		return
	}
	if p := m.linked(key.id); p != nil && p.rev < key.revision {
		m.unlink(p)
	}
	if p := m.linked(key.id); p != nil {
		expectf(t, err == nil && f == nil && e == p.entry, "want the linked pool of %v, got %v, %v, %v", key, e, f, err)
		p.refs++
		m.touch(p)
		return
	}
	if mf := m.flights[key]; mf != nil {
		expectf(t, err == nil && e == nil && f == mf.flight && !first, "want the flight of %v, got %v, %v, %v", key, e, f, err)
		mf.waiters++
		return
	}
	if refuse {
		expectf(t, errors.Is(err, refusal), "refused opening: %v", err)
		return
	}
	m.shrink(m.soft - 1)
	if m.open() >= m.hard {
		expectf(t, errors.Is(err, errFull), "%d of %d open: %v", m.open(), m.hard, err)
		return
	}
	expectf(t, err == nil && e == nil && f != nil && first, "want a new flight of %v, got %v, %v, %v", key, e, f, err)
	m.flights[key] = &modelFlight{flight: f, waiters: 1}
}

func (m *tableModel) land(t *rapid.T) {
	if len(m.flights) == 0 {
		t.Skip("nothing is being opened")
	}
	keys := make([]flightKey, 0, len(m.flights))
	for key := range m.flights {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b flightKey) int {
		if a.id != b.id {
			return slices.Compare([]byte(a.id), []byte(b.id))
		}
		return int(a.revision - b.revision)
	})
	key := rapid.SampledFrom(keys).Draw(t, "flight")
	var failure error
	if rapid.IntRange(0, 7).Draw(t, "fails") == 0 {
		failure = errors.New("failed")
	}
	m.landKey(t, key, failure)
}

func (m *tableModel) landKey(t *rapid.T, key flightKey, failure error) {
	mf := m.flights[key]
	delete(m.flights, key)
	p := &pool{}
	owned := m.table.land(mf.flight, p, failure, func() bool { return m.current[key.id] == key.revision }, errMoved)
	<-mf.flight.done
	switch {
	case failure != nil:
		expectf(t, !owned && errors.Is(mf.flight.err, failure), "failed opening: %v, %v", owned, mf.flight.err)
	case m.closed:
		expectf(t, !owned && errors.Is(mf.flight.err, errClosed), "closed table: %v, %v", owned, mf.flight.err)
	case m.current[key.id] != key.revision:
		expectf(t, !owned && errors.Is(mf.flight.err, errMoved), "outdated: %v, %v", owned, mf.flight.err)
	default:
		expectf(t, owned && mf.flight.err == nil && mf.flight.entry.pool == p, "not linked: %v", mf.flight.err)
		if old := m.linked(key.id); old != nil {
			m.unlink(old)
		}
		mp := &modelPool{id: key.id, rev: key.revision, entry: mf.flight.entry, refs: mf.waiters, linked: true}
		m.touch(mp)
		m.pools = append(m.pools, mp)
	}
	for range mf.waiters {
		m.late = append(m.late, mf.flight)
	}
}

// look is a waiter that finds the flight landed: it leaves at that moment or keeps what it got.
func (m *tableModel) look(t *rapid.T) {
	if len(m.late) == 0 {
		t.Skip("nobody waits for a landed flight")
	}
	i := rapid.IntRange(0, len(m.late)-1).Draw(t, "waiter")
	f := m.late[i]
	m.late = slices.Delete(m.late, i, i+1)
	if rapid.Bool().Draw(t, "leaves") {
		m.table.leave(f)
		if f.entry != nil {
			m.released(m.of(f.entry))
		}
	}
}

func (m *tableModel) leave(t *rapid.T) {
	for _, mf := range m.flights {
		if mf.waiters > 0 {
			m.table.leave(mf.flight)
			mf.waiters--
			return
		}
	}
	t.Skip("nobody waits")
}

// held lists the pools with references that belong to leases rather than to late waiters.
func (m *tableModel) held() []*modelPool {
	var held []*modelPool
	for _, p := range m.pools {
		refs := p.refs
		for _, f := range m.late {
			if f.entry == p.entry {
				refs--
			}
		}
		if refs > 0 {
			held = append(held, p)
		}
	}
	return held
}

func (m *tableModel) release(t *rapid.T) {
	held := m.held()
	if len(held) == 0 {
		t.Skip("nothing is leased")
	}
	p := rapid.SampledFrom(held).Draw(t, "pool")
	m.table.release(p.entry)
	m.released(p)
}

func (m *tableModel) released(p *modelPool) {
	p.refs--
	switch {
	case p.refs > 0:
	case !p.linked:
		p.closed = true
	default:
		m.shrink(m.soft)
	}
}

func (m *tableModel) peek(t *rapid.T) {
	id := m.tenant(t)
	e, p := m.table.peek(id), m.linked(id)
	if p == nil {
		expectf(t, e == nil, "peeked at %v", e)
		return
	}
	expectf(t, e == p.entry, "peeked at %v", e)
	p.refs++
	if rapid.Bool().Draw(t, "briefly") {
		m.table.unpeek(e)
		m.released(p)
	}
}

func (m *tableModel) change(t *rapid.T) {
	rarely(t)
	id := m.tenant(t)
	m.current[id]++
	m.table.unlink(id, m.current[id])
	if p := m.linked(id); p != nil && p.rev < m.current[id] {
		m.unlink(p)
	}
}

func (m *tableModel) unlinkIdle(t *rapid.T) {
	rarely(t)
	m.clock = m.clock.Add(time.Minute) // every use so far is before this
	m.table.unlinkIdle(m.clock)
	for _, p := range m.pools {
		if p.linked && p.refs == 0 {
			m.unlink(p)
		}
	}
}

// rarely skips most steps of a kind that undoes what makes others interesting.
func rarely(t *rapid.T) {
	if rapid.IntRange(0, 7).Draw(t, "really") != 0 {
		t.Skip("not yet")
	}
}

func (m *tableModel) close(t *rapid.T) {
	rarely(t)
	rarely(t)
	m.table.close()
	m.closed = true
	for _, p := range m.pools {
		if p.linked {
			m.unlink(p)
		}
	}
}

// check compares what the table closed and counts with the model, after every operation.
func (m *tableModel) check(t *rapid.T) {
	for _, e := range m.closes {
		p := m.of(e)
		expectf(t, p.closed, "pool %d of %s was closed with %d references, linked %v", e.generation, e.id, p.refs, p.linked)
		expectf(t, p.entry != nil, "pool of %s was closed twice", e.id)
	}
	reported := len(m.closes)
	expected := 0
	m.pools = slices.DeleteFunc(m.pools, func(p *modelPool) bool {
		if p.closed {
			expected++
			expectf(t, slices.Contains(m.closes, p.entry), "pool %d of %s is unused and was not closed", p.entry.generation, p.id)
		}
		return p.closed
	})
	expectf(t, reported == expected, "%d pools closed, want %d", reported, expected)
	m.closes = nil

	linked, leased, draining := m.table.counts()
	var wantLinked, wantLeased, wantDraining int
	for _, p := range m.pools {
		switch {
		case !p.linked:
			wantDraining++
		case p.refs > 0:
			wantLeased++
			fallthrough
		default:
			wantLinked++
		}
		expectf(t, p.entry.refs == p.refs, "pool of %s has %d references, want %d", p.id, p.entry.refs, p.refs)
	}
	expectf(t, linked == wantLinked && leased == wantLeased && draining == wantDraining,
		"linked %d, leased %d, draining %d; want %d, %d, %d", linked, leased, draining, wantLinked, wantLeased, wantDraining)
	expectf(t, linked+draining+len(m.flights) <= m.hard, "%d open, at most %d", linked+draining+len(m.flights), m.hard)
}

// finish gives everything back: whatever happened before, nothing may stay open.
func (m *tableModel) finish(t *rapid.T) {
	m.table.close()
	m.closed = true
	for _, p := range m.pools {
		if p.linked {
			m.unlink(p)
		}
	}
	m.check(t)
	for _, f := range m.late {
		m.table.leave(f)
		if f.entry != nil {
			m.released(m.of(f.entry))
		}
		m.check(t)
	}
	m.late = nil
	for held := m.held(); len(held) > 0; held = m.held() {
		m.table.release(held[0].entry)
		m.released(held[0])
		m.check(t)
	}
	expectf(t, len(m.pools) == 0, "%d pools stay open", len(m.pools))
}

func expectf(t *rapid.T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

func TestTableAgainstModel(t *testing.T) {
	t.Parallel()
	for range 20 { // short runs find most, so make many
		rapid.Check(t, checkTable)
	}
}

func checkTable(t *rapid.T) {
	m := newTableModel(t)
	t.Repeat(map[string]func(*rapid.T){
		"acquire": m.acquire, "visit": m.visit, "visit again": m.visit, "land": m.land, "look": m.look,
		"leave": m.leave, "release": m.release, "peek": m.peek, "change": m.change, "unlink idle": m.unlinkIdle,
		"close": m.close, "": m.check,
	})
	m.finish(t)
}
