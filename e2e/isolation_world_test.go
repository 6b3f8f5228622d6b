package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// isolationPools is the cap on open pools.
const isolationPools = 4

type isolationSample struct{ blackbox.Sample }

// isolationWorld is a running gateway with many tenants, the last two of which live on a server that restarts.
type isolationWorld struct {
	dev      *blackbox.Dev
	sample   isolationSample
	tenants  []*isolated
	admin    tenant.Admin
	away     *testkit.Server
	duration time.Duration
}

func newIsolationWorld(t *testing.T, n int) *isolationWorld {
	t.Helper()
	dir, err := os.MkdirTemp(binary.Dir(), "isolation-")
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	dev, err := binary.LaunchDevWith([]string{fmt.Sprintf("MULTI_TENANT_MAX_TENANT_POOLS=%d", isolationPools), "MULTI_TENANT_POOL_HARD_CAP=40"}, dir)
	must(t, err)
	t.Cleanup(func() { must(t, dev.Stop()) })
	w := &isolationWorld{dev: dev, sample: isolationSample{dev.Info.Sample}, away: testkit.NewServer(t), duration: time.Minute}
	if testing.Short() {
		w.duration = 10 * time.Second
	}
	w.openAdmin(t)
	sample := connectSample(t, dev.Info.Sample)
	for k := range n {
		i := w.add(t, fmt.Sprintf("iso%02d", k), k >= n-2)
		for _, statement := range []string{
			"CREATE SCHEMA " + i.id,
			"CREATE TABLE " + i.id + ".iso AS SELECT g AS id, '" + i.id + "' AS owner FROM generate_series(1, 6) g",
		} {
			_, err := sample.Exec(t.Context(), statement)
			must(t, err)
		}
	}
	return w
}

func (w *isolationWorld) openAdmin(t *testing.T) {
	t.Helper()
	env := map[string]string{}
	for _, line := range w.dev.Env(t) {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	raw, err := base64.StdEncoding.DecodeString(env["APP_ENC_KEY"])
	must(t, err)
	keys, err := secret.NewKeyring(secret.Key{Version: 1, Bytes: raw})
	must(t, err)
	pool, err := pgxpool.New(t.Context(), w.dev.Info.DatabaseURL)
	must(t, err)
	t.Cleanup(pool.Close)
	w.admin = tenant.Admin{Control: control.New(pool), Keys: keys}
}

// add makes a tenant with one connection.
func (w *isolationWorld) add(t *testing.T, id string, away bool) *isolated {
	t.Helper()
	made := tenant.NewTenant{ID: id}
	if away {
		made.DSN = w.away.NewDatabase(t)
	}
	_, err := w.admin.Create(t.Context(), made)
	must(t, err)
	i := &isolated{
		id: id, base: w.dev.Info.API, keyed: map[string]string{},
		token: w.dev.Token(t, "--tenant", id, "--role", "admin"),
	}
	var c owned
	must(t, i.fetch(t.Context(), &c, http.MethodPost, "/v1/management/connections", w.sample.connection("shared", id), "X-Product-Name", "iso"))
	i.connections = []string{c.ID}
	w.tenants = append(w.tenants, i)
	return i
}

// meddle suspends and resumes tenants, gives them new passwords, and restarts the server of the last two.
func (w *isolationWorld) meddle(ctx context.Context, t *testing.T) error {
	random := rand.New(rand.NewPCG(6, 6))
	own := w.tenants[:len(w.tenants)-2]
	for n := 1; ctx.Err() == nil; n++ {
		id := pick(random, own).id
		var err error
		switch {
		case n%10 == 0:
			w.away.Stop()
			w.away.Start()
		case n%2 == 0:
			err = w.rotate(t.Context(), id)
		default:
			if _, err = w.admin.Suspend(t.Context(), id); err == nil {
				wait(ctx, 300*time.Millisecond)
				_, err = w.admin.Resume(t.Context(), id)
			}
		}
		if err != nil {
			return fmt.Errorf("meddling with %s: %w", id, err)
		}
		wait(ctx, 200*time.Millisecond)
	}
	return nil
}

// rotate gives the tenant's role a new password, first at the server, then in the registry.
func (w *isolationWorld) rotate(ctx context.Context, id string) error {
	record, err := w.admin.Get(ctx, id)
	if err != nil {
		return err
	}
	dsn, err := w.admin.DSN(record)
	if err != nil {
		return err
	}
	address, err := url.Parse(dsn)
	if err != nil {
		return err
	}
	password := fmt.Sprintf("rotated%d", rand.Int64())
	role := pgx.Identifier{address.User.Username()}.Sanitize()
	if _, err = w.admin.Control.Pool().Exec(ctx, "ALTER ROLE "+role+" PASSWORD '"+password+"'"); err != nil {
		return err
	}
	address.User = url.UserPassword(address.User.Username(), password)
	_, err = w.admin.SetDSN(ctx, id, address.String())
	return err
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (w *isolationWorld) measure(t *testing.T) map[string]float64 {
	t.Helper()
	return parseMetrics(string(blackbox.Client{Base: w.dev.Info.API}.Expect(t, http.StatusOK, http.MethodGet, "/metrics", nil).Body))
}

func connectSample(t *testing.T, s blackbox.Sample) *pgx.Conn {
	t.Helper()
	dsn := url.URL{
		Scheme: "postgres", User: url.UserPassword(s.UserName, s.Password),
		Host: fmt.Sprintf("%s:%d", s.Host, s.Port), Path: "/" + s.DatabaseName, RawQuery: "sslmode=disable",
	}
	conn, err := pgx.Connect(t.Context(), dsn.String())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
