package documents_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

// TestTakeover lets a request be sent again whose first process is gone, as far as anybody can tell, and then finds it
// was only slow.
func TestTakeover(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	g := p.hold(page)
	in := p.request(page)
	first := p.start(in)
	g.reached()
	old := p.refuse(in, documents.IdempotencyInProgress).OperationID
	p.exec("UPDATE fetches SET lease_until = now()")
	if row := p.fetchRow(old); row.Status != store.FetchFailed || deref(row.ErrorCode) != "internal" || row.FinishedAt == nil {
		t.Errorf("a dead fetch reads as %+v", row)
	}
	p.refuse(in, documents.IdempotencyInProgress) // its key is still held
	p.exec("UPDATE mutation_keys SET lease_until = now()")
	changed := in
	changed.ObjectID = uuid.New()
	p.refuse(changed, documents.IdempotencyKeyReused) // even so

	second := p.start(in)
	g.reached()
	g.open("one of the two")
	g.open("the other")
	a, b := receive(t, first), receive(t, second)
	refused(t, a.err, documents.Unavailable)
	got := made[answer](t, b.reply, b.err).Result
	if !got.Changed || got.Version.Version != 1 || got.FetchID == old {
		t.Errorf("%+v", got)
	}
	if row := p.fetchRow(got.FetchID); row.Attempt != 2 || row.Status != store.FetchSucceeded {
		t.Errorf("%+v", row)
	}
	if row := p.fetchRow(old); row.Attempt != 1 || row.Status != store.FetchFailed {
		t.Errorf("%+v", row)
	}
	if n := p.count("SELECT count(*) FROM versions"); n != 1 {
		t.Errorf("%d versions", n)
	}
	if r := made[answer](t, p.replayed(in), nil); r.Result.FetchID != got.FetchID {
		t.Errorf("kept: %+v", r)
	}
}

// TestLateFailure holds that an attempt which was given up can't end the next one's key or fetch.
func TestLateFailure(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	g := p.hold(page)
	in := p.request(page)
	first := p.start(in)
	g.reached()
	p.exec("UPDATE fetches SET lease_until = now()")
	p.exec("UPDATE mutation_keys SET lease_until = now()")
	p.origin.Status(page, 302, nil)
	p.refuse(in, documents.RedirectRefused)
	g.open("\x00") // content_invalid
	refused(t, receive(t, first).err, documents.ContentInvalid)
	if r := made[answer](t, p.replayed(in), nil); r.Error != "redirect_refused" {
		t.Errorf("kept: %+v", r)
	}
}

// TestCallerLeaves holds that a fetch goes on to its end, so that the same request finds the answer.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	g := p.hold(page)
	in := p.request(page)
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := p.Sync(ctx, p.lease(acme), in)
		done <- err
	}()
	g.reached()
	leave()
	g.open("A")
	if err := receive(t, done); err != nil {
		t.Fatal(err)
	}
	if r := made[answer](t, p.replayed(in), nil); !r.Result.Changed {
		t.Errorf("kept: %+v", r)
	}
}

// TestNoLeaseWhileFetching closes the router under a fetch, which waits for leases to come back.
func TestNoLeaseWhileFetching(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	g := p.hold(page)
	done := p.start(p.request(page))
	g.reached()
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if err := p.tenants[acme].Close(ctx); err != nil {
		t.Fatal(err)
	}
	g.open("A")
	refused(t, receive(t, done).err, documents.Unavailable)
}

// TestCommitOfUnknownOutcome cuts the connection at the moment of the commit.
func TestCommitOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	for name, delivered := range map[string]bool{"took effect": true, "took none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCutter(t, testkit.Postgres(t).NewDatabase(t))
			p := newPlantOn(t, c.dsn)
			g := p.hold(page)
			in := p.request(page)
			done := p.start(in)
			g.reached()
			c.arm(delivered)
			g.open("A")
			o := receive(t, done)
			if c.cuts.Load() != 1 {
				t.Fatalf("%d cuts", c.cuts.Load())
			}
			if delivered {
				if got := made[answer](t, o.reply, o.err).Result; !got.Changed {
					t.Errorf("%+v", got)
				}
				p.replayed(in)
				return
			}
			refused(t, o.err, documents.Unavailable)
			p.origin.Page(page, "text/plain", "A")
			if got := p.sync(in); !got.Changed || got.Version.Version != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// cutter passes bytes between a client and a Postgres server. Armed, it ends the connection at the next COMMIT, before
// or after the server has it.
type cutter struct {
	dsn  string
	cuts atomic.Int32

	listener net.Listener
	target   string
	armed    atomic.Bool
	deliver  atomic.Bool
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func newCutter(t *testing.T, dsn string) *cutter {
	t.Helper()
	u := must(url.Parse(dsn))
	c := &cutter{listener: must(net.Listen("tcp", "127.0.0.1:0")), target: u.Host}
	u.Host = c.listener.Addr().String()
	c.dsn = u.String()
	c.wg.Go(c.accept)
	t.Cleanup(func() {
		_ = c.listener.Close()
		c.mu.Lock()
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) arm(deliver bool) {
	c.deliver.Store(deliver)
	c.armed.Store(true)
}

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c.mu.Lock()
		c.conns = append(c.conns, client, server)
		c.mu.Unlock()
		var deaf atomic.Bool
		c.wg.Go(func() {
			defer func() { _, _ = client.Close(), server.Close() }()
			_, _ = io.Copy(ear{client, &deaf}, server)
		})
		c.wg.Go(func() {
			defer func() { _, _ = client.Close(), server.Close() }()
			c.forward(server, client, &deaf)
		})
	}
}

// ear hears nothing any more once it is deaf.
type ear struct {
	net.Conn

	deaf *atomic.Bool
}

func (e ear) Write(p []byte) (int, error) {
	if e.deaf.Load() {
		return len(p), nil
	}
	return e.Conn.Write(p)
}

func (c *cutter) forward(server, client net.Conn, deaf *atomic.Bool) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		commits := bytes.Contains(bytes.ToLower(buffer[:n]), []byte("commit\x00"))
		if commits && c.armed.CompareAndSwap(true, false) {
			deaf.Store(true)
			if c.deliver.Load() {
				_, _ = server.Write(buffer[:n])
			}
			c.cuts.Add(1)
			return
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestStorageFailure frees the key of a page that could not be stored.
func TestStorageFailure(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.origin.Page(page, "text/plain", "A")
	in := p.request(page)
	inTheWay := filepath.Join(p.dir, acme)
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := p.refuse(in, documents.Unavailable); e.RetryAfter <= 0 {
		t.Errorf("retry after %v", e.RetryAfter)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if got := p.sync(in); !got.Changed || got.Version.Version != 1 {
		t.Errorf("%+v", got)
	}
}

// TestTamperedContent is never delivered as if it were right.
func TestTamperedContent(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.origin.Page(page, "text/plain", "A")
	p.origin.Page("/docs/other", "text/plain", "B")
	in, other := p.request(page), p.request("/docs/other")
	p.sync(in)
	p.sync(other)
	var keys []string
	p.db(dbScan(&keys, "SELECT object_key FROM content_blobs ORDER BY object_key"))
	if len(keys) != 2 {
		t.Fatal(keys)
	}
	// One content in the place of another: it is the tenant's, and authentic.
	swapped := must(os.ReadFile(filepath.Join(p.dir, keys[0])))
	if err := os.WriteFile(filepath.Join(p.dir, keys[1]), swapped, 0o600); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, object := range []uuid.UUID{in.ObjectID, other.ObjectID} {
		content, err := with(p, func(l *tenant.Lease) (*documents.Content, error) {
			return p.Content(t.Context(), l, p.env, object, 1)
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, length := range []int64{0, 1} {
			r, err := content.Open(t.Context(), 0, length)
			if err == nil {
				_, err = io.Copy(io.Discard, r)
				_ = r.Close()
			}
			if err != nil {
				refused(t, err, documents.Internal)
				failed++
			}
		}
	}
	if failed != 2 {
		t.Errorf("%d of two reads failed", failed)
	}
}
