package tenant

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenantid"
)

func TestValidID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"acme": "acme", "Acme": "Acme", "0_-": "0_-", strings.Repeat("a", 128): strings.Repeat("a", 128),
		"550E8400-E29B-41D4-A716-446655440000": "550e8400-e29b-41d4-a716-446655440000",
		"550E8400-E29B-41D4-A716-44665544000X": "550E8400-E29B-41D4-A716-44665544000X",
		"":                                     "", "-a": "", "_a": "", "a.b": "", "a/b": "", "ä": "", "a\n": "", strings.Repeat("a", 129): "",
	} {
		if got, ok := tenantid.Canonical(id); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", id, got, ok)
		}
	}
}

func TestOrgID(t *testing.T) {
	t.Parallel()
	const id = "550E8400-E29B-41D4-A716-446655440000"
	if got := OrgID(id); got != uuid.MustParse(id) {
		t.Errorf("a UUID: %v", got)
	}
	// These must never change: they are in tenants' addresses.
	for id, want := range map[string]string{
		"acme":    "282e974e-88bf-5ba6-ab5e-2cd5febdbfe7",
		"default": "0ac0879f-908b-51ed-b3ee-d51365820f9e",
	} {
		if got := OrgID(id); got.String() != want || got.Version() != 5 {
			t.Errorf("%s: %v", id, got)
		}
	}
}

// countingRegistry knows the tenants whose id begins with "t".
type countingRegistry struct {
	singleRegistry

	mu    sync.Mutex
	asked map[string]int
	down  atomic.Bool
	slow  time.Duration

	meanwhile func() // called before the answer
	doubted   atomic.Int32

	late    string // an id that exists once it is created
	created atomic.Bool
}

func (c *countingRegistry) get(ctx context.Context, id string) (control.Tenant, error) {
	c.mu.Lock()
	c.asked[id]++
	c.mu.Unlock()
	sleep(ctx, c.slow)
	exists := id[0] == 't' || id == c.late && c.created.Load()
	if c.meanwhile != nil {
		c.meanwhile()
	}
	switch {
	case c.down.Load():
		return control.Tenant{}, errors.New("down")
	case !exists:
		return control.Tenant{}, control.ErrNoTenant
	}
	return control.Tenant{ID: id, Status: control.TenantActive, Revision: 1}, nil
}

func newCountingResolver(t *testing.T, o Options) (*resolver, *countingRegistry) {
	t.Helper()
	reg := &countingRegistry{asked: map[string]int{}}
	r, err := newResolver(reg, o.withDefaults(), func() { reg.doubted.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	return r, reg
}

func TestUnknownIDsAreAskedForOnceInTenSeconds(t *testing.T) {
	t.Parallel()
	clock := time.Unix(0, 0)
	r, reg := newCountingResolver(t, Options{Now: func() time.Time { return clock }})
	ask := func(want int) {
		t.Helper()
		for range 5 {
			_, err := r.get(t.Context(), "nobody")
			refused(t, err, problem.TenantUnknown)
		}
		if reg.asked["nobody"] != want {
			t.Errorf("asked %d times, want %d", reg.asked["nobody"], want)
		}
	}
	ask(1)
	clock = clock.Add(unknownTTL - time.Millisecond)
	ask(1)
	clock = clock.Add(time.Millisecond)
	ask(2)
	r.announce("nobody")
	ask(3)
	r.announce("")
	ask(4)
}

func TestFloodOfUnknownIDsIsBounded(t *testing.T) {
	t.Parallel()
	r, reg := newCountingResolver(t, Options{MaxUnknown: 1000, MaxRecords: 1000, MaxPools: 1})
	for i := range 5000 {
		_, _ = r.get(t.Context(), fmt.Sprint("x", i))
		_, _ = r.get(t.Context(), fmt.Sprint("t", i))
	}
	if n := r.unknown.Len(); n != 1000 {
		t.Errorf("%d unknown ids remembered", n)
	}
	if n := r.records.Len(); n != 1000 {
		t.Errorf("%d records remembered", n)
	}
	for id, n := range reg.asked {
		if n != 1 {
			t.Fatalf("%s was asked for %d times", id, n)
		}
	}
}

func TestConcurrentMissesShareOneQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, reg := newCountingResolver(t, Options{})
		reg.slow = time.Second
		impatient, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer leave()
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := r.get(impatient, "t1"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the one who left: %v", err)
			}
		})
		synctest.Wait()
		for range 20 {
			group.Go(func() {
				if rec, err := r.get(t.Context(), "t1"); err != nil || rec.ID != "t1" {
					t.Errorf("%v, %v", rec, err)
				}
			})
		}
		group.Wait()
		if reg.asked["t1"] != 1 {
			t.Errorf("asked %d times", reg.asked["t1"])
		}
	})
}

func TestOlderRecordDoesNotReplaceANewerOne(t *testing.T) {
	t.Parallel()
	r, reg := newCountingResolver(t, Options{})
	r.put(control.Tenant{ID: "t1", Status: control.TenantDeleted, Revision: 7})
	got := r.put(control.Tenant{ID: "t1", Status: control.TenantActive, Revision: 6})
	if got.Revision != 7 || got.servable() == nil || r.current("t1", 6) || r.current("t1", 7) {
		t.Errorf("%+v", got.Tenant)
	}
	reg.down.Store(true)
	if rec, err := r.get(t.Context(), "t1"); err != nil || rec.Revision != 7 {
		t.Errorf("%v, %v", rec, err)
	}
	_, err := r.get(t.Context(), "t2")
	refused(t, err, problem.TenantUnavailable)
	if diff := cmp.Diff(map[string]int64{"t1": 7}, r.revisions()); diff != "" {
		t.Error(diff)
	}
}

func TestChangeDuringALookUpIsNotMissed(t *testing.T) {
	t.Parallel()
	for changes, want := range map[int]struct{ asked, doubted int }{0: {1, 0}, 1: {2, 0}, 2: {3, 0}, 9: {3, 1}} {
		r, reg := newCountingResolver(t, Options{})
		reg.meanwhile = func() {
			if changes > 0 {
				changes--
				r.announce("t1")
			}
		}
		if _, err := r.get(t.Context(), "t1"); err != nil {
			t.Fatal(err)
		}
		if reg.asked["t1"] != want.asked || int(reg.doubted.Load()) != want.doubted {
			t.Errorf("asked %d times, doubted %d times, want %+v", reg.asked["t1"], reg.doubted.Load(), want)
		}
	}
}

// A tenant that is created while the registry is being asked does not stay unknown.
func TestCreationDuringALookUpIsNotMissed(t *testing.T) {
	t.Parallel()
	for changes, want := range map[int]struct {
		asked, doubted int
		known          bool // to be unknown
	}{0: {1, 0, true}, 1: {2, 0, true}, 2: {3, 0, true}, 9: {3, 1, false}} {
		r, reg := newCountingResolver(t, Options{})
		reg.meanwhile = func() {
			if changes > 0 {
				changes--
				r.announce("new")
			}
		}
		_, err := r.get(t.Context(), "new")
		refused(t, err, problem.TenantUnknown)
		if _, known := r.cached("new"); known != want.known || reg.asked["new"] != want.asked || int(reg.doubted.Load()) != want.doubted {
			t.Errorf("known %v, asked %d times, doubted %d times, want %+v", known, reg.asked["new"], reg.doubted.Load(), want)
		}
	}
	r, reg := newCountingResolver(t, Options{})
	reg.meanwhile = func() {
		reg.meanwhile = nil
		r.announce("new")
		reg.created.Store(true)
	}
	reg.late = "new"
	if rec, err := r.get(t.Context(), "new"); err != nil || rec.ID != "new" {
		t.Errorf("got %+v, %v", rec, err)
	}
}

func TestAnnouncementsOfOthersTenantsLoadNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme", "globex")
	r := w.router(t, Options{})
	mustUse(t, r, "acme")
	for _, id := range []string{"globex", "acme"} { // in this order, so that both have been heard
		if _, err := w.Control.Pool().Exec(t.Context(), `UPDATE tenants SET rate_limit = 1 WHERE id = $1`, id); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 5*time.Second, "the change of the known tenant", func() bool {
		info, err := r.Info(t.Context(), "acme")
		return err == nil && info.RateLimit == 1
	})
	if _, known := r.resolver.cached("globex"); known {
		t.Error("a tenant nobody asked for is cached")
	}
}

func TestBreakerAndBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &health{failures: 3, timeout: 30 * time.Second, now: time.Now}
		down := errors.New("down")
		if h.mayDial() != nil || !h.well() || h.state() != "closed" {
			t.Fatal("ill from the start")
		}
		for i, wait := range []time.Duration{time.Second, 2 * time.Second} {
			h.report(down)
			refused(t, h.mayDial(), problem.TenantUnavailable)
			time.Sleep(wait - time.Millisecond)
			if h.mayDial() == nil {
				t.Errorf("failure %d: dials before %v", i+1, wait)
			}
			time.Sleep(time.Millisecond)
			if err := h.mayDial(); err != nil {
				t.Errorf("failure %d: does not dial after %v: %v", i+1, wait, err)
			}
		}
		h.report(nil) // starts the count anew
		h.report(down)
		h.report(down)
		if !h.well() {
			t.Error("open after two failures in a row")
		}
		h.report(down)
		if h.well() || h.state() != "open" {
			t.Errorf("%s after three failures in a row", h.state())
		}
		time.Sleep(29 * time.Second)
		_, err := h.try()
		refused(t, err, problem.TenantUnavailable)
		time.Sleep(2 * time.Second)
		if h.state() != "half-open" || h.mayDial() != nil {
			t.Errorf("%s after 31 s, %v", h.state(), h.mayDial())
		}
		h.report(nil) // not the test
		done, err := h.try()
		if err != nil || h.well() {
			t.Fatalf("first test: %v, well %v", err, h.well())
		}
		if _, err = h.try(); err == nil {
			t.Error("two tests at once")
		}
		done(errNotCounted)
		if done, err = h.try(); err != nil {
			t.Fatalf("after a test without outcome: %v", err)
		}
		done(down)
		if h.state() != "open" {
			t.Errorf("%s after a failed test", h.state())
		}
		time.Sleep(31 * time.Second)
		if done, err = h.try(); err != nil {
			t.Fatal(err)
		}
		done(nil)
		if !h.well() || h.state() != "closed" {
			t.Errorf("%s after a good test", h.state())
		}
	})
}

func TestBackoffGrows(t *testing.T) {
	t.Parallel()
	for row, want := range map[int]time.Duration{
		1: 5 * time.Second, 2: 10 * time.Second, 3: 20 * time.Second, 6: 160 * time.Second, 7: maxLoginRetry, 1000: maxLoginRetry,
	} {
		if got := backoff(minLoginRetry, maxLoginRetry, row); got != want {
			t.Errorf("%d in a row: %v", row, got)
		}
	}
}

// pipe returns a tracked connection and its peer.
func pipe(t *testing.T, silence time.Duration) (c *trackedConn, peer net.Conn, silent, closed *atomic.Int32) {
	t.Helper()
	ours, peer := net.Pipe()
	t.Cleanup(func() { _, _ = ours.Close(), peer.Close() })
	silent, closed = new(atomic.Int32), new(atomic.Int32)
	c = &trackedConn{
		Conn: ours, silence: silence,
		silent: func() { silent.Add(1) }, closed: func() { closed.Add(1) },
	}
	return c, peer, silent, closed
}

func TestSilentConnectionIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]func(*trackedConn) (int, error){
		"read":  func(c *trackedConn) (int, error) { return c.Read(make([]byte, 1)) },
		"write": func(c *trackedConn) (int, error) { return c.Write(make([]byte, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _, silent, closed := pipe(t, 20*time.Millisecond)
			if _, err := op(c); !errors.Is(err, errSilent) || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			_ = c.Close()
			if silent.Load() != 1 || closed.Load() != 1 {
				t.Errorf("silent %d times, closed %d times", silent.Load(), closed.Load())
			}
		})
	}
}

// A connection that listens may be quiet for ever, but must answer what it was asked.
func TestListeningConnectionIsOwedNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, listenToAQuietPeer)
}

func listenToAQuietPeer(t *testing.T) {
	const silence = 20 * time.Millisecond
	c, peer, silent, _ := pipe(t, silence)
	c.listens = true
	say := func(after time.Duration) {
		time.Sleep(after) // the silence under test
		_, _ = peer.Write([]byte{1})
	}
	hear := func() error { _, err := c.Read(make([]byte, 1)); return err }
	ask := func() {
		t.Helper()
		go func() { _, _ = peer.Read(make([]byte, 1)) }()
		if _, err := c.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	go say(5 * silence)
	if err := hear(); err != nil {
		t.Fatalf("a notification: %v", err)
	}
	ask()
	go say(0)
	if err := hear(); err != nil {
		t.Fatalf("an answer: %v", err)
	}
	go say(5 * silence)
	if err := hear(); err != nil {
		t.Fatalf("a notification after an answer: %v", err)
	}
	if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
		t.Fatal(err)
	}
	if err := hear(); !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errSilent) {
		t.Fatalf("a deadline from outside: %v", err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	ask()
	if err := hear(); !errors.Is(err, errSilent) || silent.Load() != 1 {
		t.Errorf("no answer: %v, silent %d times", err, silent.Load())
	}
}

func TestProgressKeepsAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, peer, silent, _ := pipe(t, time.Second)
		go func() {
			for range 5 {
				time.Sleep(900 * time.Millisecond)
				_, _ = peer.Write([]byte{1})
			}
		}()
		for range 5 {
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if silent.Load() != 0 {
			t.Error("given up")
		}
	})
}

func TestOutsideDeadlinesHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _, silent, closed := pipe(t, time.Hour)
		began := time.Now()
		if err := c.SetReadDeadline(began.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errSilent) {
			t.Errorf("set before: %v", err)
		}
		if err := c.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { _ = c.SetDeadline(time.Now()) }) // how pgx cancels
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errSilent) {
			t.Errorf("set meanwhile: %v", err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
		if silent.Load() != 0 || closed.Load() != 0 {
			t.Error("given up")
		}
	})
}

func TestBudget(t *testing.T) {
	t.Parallel()
	b := newBudget(2)
	got := []bool{b.take("a"), b.take("a"), b.take("a"), b.take("b")}
	if diff := cmp.Diff([]bool{true, true, false, true}, got); diff != "" {
		t.Error(diff)
	}
	b.give("a")
	if !b.take("a") || b.used("a") != 2 {
		t.Errorf("%d after one came back", b.used("a"))
	}
	b.give("a")
	b.give("a")
	b.give("b")
	if len(b.open) != 0 {
		t.Errorf("left over: %v", b.open)
	}
}

func TestFailedDialCostsNoBudget(t *testing.T) {
	t.Parallel()
	b := newBudget(1)
	d := dialer{
		dial:    func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") },
		budget:  b,
		reclaim: func(context.Context, string) bool { return false },
	}
	for range 3 {
		if _, err := d.DialContext(t.Context(), "tcp", "a"); err == nil || errors.Is(err, errHostSpent) {
			t.Fatalf("got %v", err)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b", "c")
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	r := w.router(t, Options{Meter: provider.Meter("test"), LabelLimit: 2})
	mustUse(t, r, "a")
	mustUse(t, r, "b")
	held := mustAcquire(t, r, "c")
	r.pools.unlink("a", 1<<62)
	collect := func() map[string]int64 {
		t.Helper()
		var got metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &got); err != nil {
			t.Fatal(err)
		}
		return flatten(got)
	}
	var got map[string]int64
	eventually(t, 5*time.Second, "three openings are counted", func() bool { // a moment after they are usable
		got = collect()
		return got["fetcher.tenant.pool.opens{outcome=ok}"] == 3 && got["fetcher.tenant.pool.open.duration{outcome=ok}"] == 3
	})
	want := map[string]int64{
		"fetcher.tenant.pool.opens{outcome=ok}": 3, "fetcher.tenant.pool.open.duration{outcome=ok}": 3,
		"fetcher.tenant.pool.unlinked{reason=replaced}": 1, "fetcher.tenant.pool.unlinked{reason=evicted}": 0,
		"fetcher.tenant.pool.unlinked{reason=idle}": 0, "fetcher.tenant.pool.unlinked{reason=shutdown}": 0,
		"fetcher.tenant.pools{state=idle}": 1, "fetcher.tenant.pools{state=leased}": 1, "fetcher.tenant.pools{state=draining}": 0,
		"fetcher.tenant.connections{state=idle,tenant=b}": 1, "fetcher.tenant.connections{state=in_use,tenant=b}": 0,
		// a was the first to have a label, though its pool has been closed; c is beyond the limit.
		"fetcher.tenant.connections{state=idle,tenant=a}": 0, "fetcher.tenant.connections{state=in_use,tenant=a}": 0,
		"fetcher.tenant.connections{state=idle,tenant=other}": 1, "fetcher.tenant.connections{state=in_use,tenant=other}": 0,
	}
	for key := range got {
		if strings.Contains(key, ".wait") {
			delete(got, key)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	held.Release()
	mustUse(t, r, "a")
	if n, ok := collect()["fetcher.tenant.connections{state=idle,tenant=a}"]; !ok || n != 1 {
		t.Errorf("a tenant that is back under its label: %d, %v", n, ok)
	}
}

// flatten names every number of a collection by metric and attributes; a histogram is its count.
func flatten(m metricdata.ResourceMetrics) map[string]int64 {
	flat := map[string]int64{}
	for _, scope := range m.ScopeMetrics {
		for _, metric := range scope.Metrics {
			switch data := metric.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					flat[metric.Name+"{"+p.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = p.Value
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					flat[metric.Name+"{"+p.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = p.Value
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					flat[metric.Name+"{"+p.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = int64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					flat[metric.Name+"{"+p.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = int64(p.Count)
				}
			}
		}
	}
	return flat
}

func BenchmarkAcquire(b *testing.B) {
	r, err := NewRouter(b.Context(), Options{Single: &SingleTenant{DSN: "postgres://localhost/none"}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close(b.Context()) }()
	rec, err := r.resolver.get(b.Context(), "default")
	if err != nil {
		b.Fatal(err)
	}
	p, err := r.newPool(rec)
	if err != nil {
		b.Fatal(err)
	}
	_, f, _, err := r.pools.acquire(flightKey{rec.ID, rec.Revision}, rec.health.mayDial)
	if err != nil {
		b.Fatal(err)
	}
	r.pools.land(f, p, nil, func() bool { return true }, nil)
	defer r.pools.leave(f)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l, err := r.Acquire(b.Context(), "default")
			if err != nil {
				b.Error(err)
				return
			}
			l.Release()
		}
	})
}
