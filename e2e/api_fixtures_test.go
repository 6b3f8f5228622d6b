package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

var fixtures atomic.Int64

// unique is a name that nobody else in the suite has.
func unique(prefix string) string { return fmt.Sprintf("%s_%d", prefix, fixtures.Add(1)) }

// sample describes the sample database under a name, with changes; a nil value leaves a member out.
func (s *apiSuite) sample(name string, changes object) object {
	out := object{
		"configName": name, "type": s.Info.Sample.Type, "host": s.Info.Sample.Host, "port": s.Info.Sample.Port,
		"databaseName": s.Info.Sample.DatabaseName, "userName": s.Info.Sample.UserName, "password": s.Info.Sample.Password,
		"ssl": object{"mode": "disable"},
	}
	maps.Copy(out, changes)
	maps.DeleteFunc(out, func(_ string, value any) bool { return value == nil })
	return out
}

// connection is an answered connection, as far as tests look at it.
type connection struct {
	ID           string
	ProductName  *string
	ConfigName   string
	Type         string
	Host         string
	Port         int
	DatabaseName string
	Schema       *string
	UserName     string
	SSL          *struct{ Mode string }
	Metadata     object
	CreatedAt    string
	UpdatedAt    string
}

// create registers a connection to the sample database for a product.
func (c caller) create(t *testing.T, product string, changes object) connection {
	t.Helper()
	var made connection
	c.succeeds(t, http.StatusCreated, post(managed, text(t, c.suite.sample(unique("c"), changes)), "X-Product-Name", product)).Decode(t, &made)
	return made
}

// unassigned registers one of acme's that has no product, as imports leave them.
func (c caller) unassigned(t *testing.T) connection {
	t.Helper()
	made := c.create(t, "none", nil)
	c.suite.superuser(t, "fetcher_acme", "UPDATE connections SET product_name = NULL WHERE id = $1", made.ID)
	return made
}

// request asks for fields of one table; the metadata make it unlike any other.
func request(t *testing.T, product, datasource, table string, fields ...string) string {
	t.Helper()
	return text(t, object{
		"dataRequest": object{"mappedFields": object{datasource: object{table: fields}}},
		"metadata":    object{"source": product, "unique": unique("job")},
	})
}

// submit makes a new job.
func (c caller) submit(t *testing.T, body string) string {
	t.Helper()
	var made struct{ JobID string }
	c.succeeds(t, http.StatusAccepted, post("/v1/fetcher", body)).Decode(t, &made)
	return made.JobID
}

// completed is a job of the connection that has a result.
func (c caller) completed(t *testing.T, product, datasource string) string {
	t.Helper()
	id := c.submit(t, request(t, product, datasource, "reporting.Weird Name", "Id"))
	c.client().AwaitCompleted(t, id, blackbox.StartTimeout)
	return id
}

func (c caller) client() blackbox.Client { return blackbox.Client{Base: c.base, Token: c.token} }

// locked makes a table in the sample database that nobody can read before release is called.
func (s *apiSuite) locked(t *testing.T) (table string, release func()) {
	t.Helper()
	table = unique("locked")
	ctx := context.WithoutCancel(t.Context()) // released in clean-ups, too
	conn, err := pgx.Connect(ctx, dsn(s.Info.Sample))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	for _, sql := range []string{"CREATE TABLE " + table + " AS SELECT 1 AS id", "BEGIN", "LOCK TABLE " + table} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	return table, func() {
		if _, err := conn.Exec(ctx, "COMMIT"); err != nil {
			t.Error(err)
		}
	}
}

// blocked is a job that is running and stays so until release is called.
func (c caller) blocked(t *testing.T, product, datasource string) (id, body string, release func()) {
	t.Helper()
	table, release := c.suite.locked(t)
	body = request(t, product, datasource, table, "id")
	id = c.submit(t, body)
	c.client().Await(t, id, blackbox.StartTimeout, func(j blackbox.Job) bool { return j.Status == "processing" })
	return id, body, release
}

// silent is a server that accepts and never says a word. accepted gets a value for each caller.
func silent(t *testing.T) (port int, accepted <-chan struct{}, hangUp func()) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	calls := make(chan struct{}, 100)
	done := make(chan struct{})
	var conns []net.Conn
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
			calls <- struct{}{}
		}
	}()
	hangUp = func() {
		_ = listener.Close()
		<-done
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	t.Cleanup(hangUp)
	return listener.Addr().(*net.TCPAddr).Port, calls, hangUp
}

// manager starts another manager on the same databases and returns acme's administrator there.
func (s *apiSuite) manager(t *testing.T, env ...string) caller {
	t.Helper()
	c := s.admin()
	c.base = launch(t, "manager", append(s.Env(t), env...)...)
	return c
}

// at puts an id in a path.
func at(path, id string) string { return strings.Replace(path, "{id}", id, 1) }
