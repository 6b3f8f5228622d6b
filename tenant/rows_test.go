package tenant

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/store"
)

// pooled is a connection as through a pooler, which tells a process id of its own making.
type pooled struct{ net.Conn }

func dialPooled(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return pooled{conn}, err
}

// Read changes the process id in the message BackendKeyData, whose length is twelve.
func (c pooled) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if at := bytes.Index(p[:n], []byte{'K', 0, 0, 0, 12}); at >= 0 && at+9 <= n {
		pid := p[at+5 : at+9]
		binary.BigEndian.PutUint32(pid, binary.BigEndian.Uint32(pid)+1)
	}
	return n, err
}

// storedID is the id of the connection that mark stored.
func storedID(t *testing.T, l *Lease) uuid.UUID {
	t.Helper()
	var id string
	if err := l.DB(t.Context()).Raw("SELECT id FROM connections").Scan(&id).Error; err != nil {
		t.Fatal(err)
	}
	return uuid.MustParse(id)
}

// mustGet reads the connection named like the tenant.
func mustGet(t *testing.T, l *Lease, id uuid.UUID) {
	t.Helper()
	c, err := store.NewConnections(l.DB(t.Context())).Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if c.ID != id || c.ConfigName != l.TenantID() {
		t.Errorf("%s is %q, of %s", c.ID, c.ConfigName, l.TenantID())
	}
}

func TestRowsArePreparedUnlessThereIsAPooler(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	for name, tt := range map[string]struct {
		dial     DialFunc
		prepared int
	}{"server": {nil, 1}, "pooler": {dialPooled, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.router(t, Options{MaxConns: 1, Dial: tt.dial}) // so that every statement runs on the same connection
			l := mustAcquire(t, r, "acme")
			defer l.Release()
			id := storedID(t, l)
			for range 3 {
				mustGet(t, l, id)
			}
			var prepared int
			if err := l.DB(t.Context()).Raw("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''").Scan(&prepared).Error; err != nil {
				t.Fatal(err)
			}
			if prepared != tt.prepared {
				t.Errorf("%d prepared statements, want %d", prepared, tt.prepared)
			}
		})
	}
}

func TestPreparedRowsOutliveWhatTheyDependOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	r := w.router(t, Options{MaxConns: 1})
	l := mustAcquire(t, r, "acme")
	defer l.Release()
	id := storedID(t, l)
	mustGet(t, l, id)
	owner, err := pgx.Connect(t.Context(), w.dsns["acme"])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Close(context.WithoutCancel(t.Context())) }()
	if _, err := owner.Exec(t.Context(), "ALTER TABLE connections ALTER COLUMN host TYPE varchar(300)"); err != nil {
		t.Fatal(err)
	}
	mustGet(t, l, id)
	if err := l.DB(t.Context()).Exec("DEALLOCATE ALL").Error; err != nil {
		t.Fatal(err)
	}
	mustGet(t, l, id)
}

func TestRowThatIsNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	r := w.router(t, Options{})
	l := mustAcquire(t, r, "acme")
	defer l.Release()
	_, err := store.NewConnections(l.DB(t.Context())).Get(t.Context(), uuid.New())
	refused(t, err, "FET-1001")
	l.Release()
	if _, err = store.NewConnections(l.DB(t.Context())).Get(t.Context(), uuid.New()); err == nil {
		t.Error("a lease that was released reads")
	}
}
