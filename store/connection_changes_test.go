package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

func create(t *testing.T, s store.Connections, c *store.Connection) *store.Connection {
	t.Helper()
	if err := s.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// openJob stores a pending job that reads the datasources.
func openJob(t *testing.T, db *gorm.DB, datasources ...string) *store.Job {
	t.Helper()
	parts := make([]string, 0, len(datasources))
	for _, name := range datasources {
		parts = append(parts, fmt.Sprintf(`%q:{"t":["*"]}`, name))
	}
	job := &store.Job{
		ID: uuid.Must(uuid.NewV7()), RequestHash: uuid.NewString(), Metadata: []byte(`{"source":"crm"}`),
		MappedFields: []byte("{" + strings.Join(parts, ",") + "}"), Source: "crm",
	}
	_, err := store.NewJobs(db).CreateOnce(t.Context(), job, time.Minute, func(context.Context) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func TestAssignIsOneWay(t *testing.T) {
	t.Parallel()
	s := store.NewConnections(newDB(t))
	c := create(t, s, newConnection("orders"))
	got, err := s.Assign(t.Context(), c.ID, "crm")
	if err != nil {
		t.Fatal(err)
	}
	want := *c
	want.ProductName, want.Revision, want.UpdatedAt = new("crm"), 2, got.UpdatedAt
	if diff := cmp.Diff(&want, got); diff != "" || got.UpdatedAt.Before(c.UpdatedAt) {
		t.Errorf("updated %v (-want +got):\n%s", got.UpdatedAt, diff)
	}
	if _, err = s.Assign(t.Context(), c.ID, "crm"); problem.CodeOf(err) != problem.AlreadyAssigned {
		t.Errorf("again: %v", err)
	}
	if _, err = s.Assign(t.Context(), uuid.New(), "crm"); problem.CodeOf(err) != problem.NotFoundInTenant {
		t.Errorf("unknown: %v", err)
	}
	gone := create(t, s, newConnection("gone"))
	if err = s.Delete(t.Context(), gone.ID, nil); err != nil {
		t.Fatal(err)
	}
	if _, err = s.Assign(t.Context(), gone.ID, "crm"); problem.CodeOf(err) != problem.NotFoundInTenant {
		t.Errorf("deleted: %v", err)
	}
}

func TestOneOfManyAssigns(t *testing.T) {
	t.Parallel()
	s := store.NewConnections(newDB(t))
	c := create(t, s, newConnection("orders"))
	var winners atomic.Int32
	var product atomic.Value
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			name := fmt.Sprintf("product-%d", i)
			switch _, err := s.Assign(t.Context(), c.ID, name); {
			case err == nil:
				winners.Add(1)
				product.Store(name)
			case problem.CodeOf(err) != problem.AlreadyAssigned:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := s.Get(t.Context(), c.ID)
	if err != nil || winners.Load() != 1 || *got.ProductName != product.Load() || got.Revision != 2 {
		t.Errorf("%d winners, stored %+v, %v", winners.Load(), got, err)
	}
}

func TestChangeStoresWhatItIsGiven(t *testing.T) {
	t.Parallel()
	s := store.NewConnections(newDB(t))
	c := newConnection("orders")
	c.ProductName, c.SSLMode, c.SSLCASealed, c.Metadata = new("crm"), new("require"), []byte("ca"), []byte(`{"team":"a"}`)
	create(t, s, c)
	create(t, s, newConnection("taken"))
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	want := *c
	want.ConfigName, want.Host, want.Schema, want.SSLMode, want.SSLCASealed = "invoices", "other", new("s"), nil, nil
	want.Metadata, want.UpdatedAt, want.KeyVersion = []byte(`{"team": "b"}`), at, 2
	got, err := s.Change(t.Context(), c.ID, func(c *store.Connection) error {
		revision := c.Revision
		*c = want
		c.Revision = revision
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want.Revision = 2
	read, err := s.Get(t.Context(), c.ID)
	if diff := cmp.Diff(&want, read); diff != "" || err != nil || !cmp.Equal(got, read) {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for value, total := range map[string]int64{"a": 0, "b": 1} {
		_, n, listErr := s.List(t.Context(), store.ConnectionFilter{
			Page: store.Page{Limit: 1}, Metadata: []store.MetadataMatch{{Path: []string{"team"}, Value: value}},
		})
		if listErr != nil || n != total {
			t.Errorf("team %s: %d found, want %d, %v", value, n, total, listErr)
		}
	}
	_, err = s.Change(t.Context(), c.ID, func(c *store.Connection) error { c.ConfigName = "taken"; return nil })
	if problem.CodeOf(err) != problem.NameTaken {
		t.Errorf("the name of another: %v", err)
	}
	refusal := problem.New(problem.HostNotAllowed, "no")
	_, err = s.Change(t.Context(), c.ID, func(c *store.Connection) error { c.Host = "refused"; return refusal })
	if !errors.Is(err, refusal) {
		t.Errorf("refused: %v", err)
	}
	if again, err := s.Get(t.Context(), c.ID); err != nil || !cmp.Equal(read, again) {
		t.Errorf("a refused change left %+v, %v", again, err)
	}
}

func TestDeleteWipesSecrets(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	s := store.NewConnections(db)
	c := newConnection("orders")
	c.SSLMode, c.SSLCASealed, c.SSLCertSealed, c.SSLKeySealed = new("require"), []byte("a"), []byte("b"), []byte("c")
	create(t, s, c)
	if _, err := s.TakeTest(t.Context(), c.ID, 10, time.Minute); err != nil {
		t.Fatal(err)
	}
	refusal := problem.New(problem.PreconditionFailed, "no")
	if err := s.Delete(t.Context(), c.ID, func(*store.Connection) error { return refusal }); !errors.Is(err, refusal) {
		t.Fatalf("refused: %v", err)
	}
	if err := s.Delete(t.Context(), c.ID, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), c.ID, nil); problem.CodeOf(err) != problem.NotFoundInTenant {
		t.Errorf("again: %v", err)
	}
	_, err := s.Change(t.Context(), c.ID, func(*store.Connection) error { return nil })
	if problem.CodeOf(err) != problem.NotFoundInTenant {
		t.Errorf("change of a deleted one: %v", err)
	}
	var left struct {
		Secrets, Tests int
		Deleted        bool
		Revision       int64
	}
	err = db.Raw(`SELECT num_nonnulls(password_sealed, ssl_ca_sealed, ssl_cert_sealed, ssl_key_sealed) AS secrets,
		deleted_at IS NOT NULL AS deleted, revision, (SELECT count(*) FROM connection_tests) AS tests FROM connections`).
		Scan(&left).Error
	if err != nil || left.Secrets != 0 || left.Tests != 0 || !left.Deleted || left.Revision != 2 {
		t.Errorf("%+v, %v", left, err)
	}
	create(t, s, newConnection("orders")) // the name is free again
}

func TestActiveJobsKeepConnections(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	s := store.NewConnections(db)
	jobs := store.NewJobs(db)
	for name, test := range map[string]struct {
		finish func(*testing.T, *store.Job)
		used   bool
	}{
		"pending": {func(*testing.T, *store.Job) {}, true},
		"processing": {func(t *testing.T, j *store.Job) {
			if _, err := jobs.Claim(t.Context(), j.ID, time.Now(), 3); err != nil {
				t.Fatal(err)
			}
		}, true},
		"failed": {func(t *testing.T, j *store.Job) {
			err := jobs.Fail(t.Context(), j.ID, 0, store.Failure{Code: "FET-1025", Message: "m"},
				store.Event{ID: j.ID.String(), Type: "x", Time: time.Now(), Data: []byte("{}")})
			if err != nil {
				t.Fatal(err)
			}
		}, false},
		"completed": {func(t *testing.T, j *store.Job) {
			claimed, err := jobs.Claim(t.Context(), j.ID, time.Now(), 3)
			if err != nil {
				t.Fatal(err)
			}
			err = jobs.Complete(t.Context(), j.ID, claimed.Attempt, store.CompleteFacts{Path: "p", SHA256: "s", HMAC: "h", Format: "json"},
				store.Event{ID: j.ID.String(), Type: "x", Time: time.Now(), Data: []byte("{}")})
			if err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := create(t, s, newConnection("used-by-"+name))
			free := create(t, s, newConnection("Used-by-"+name)) // names are case-sensitive
			test.finish(t, openJob(t, db, "another", c.ConfigName))
			want := problem.Code("")
			if test.used {
				want = problem.ConnectionInUse
			}
			_, err := s.Change(t.Context(), c.ID, func(*store.Connection) error { return nil })
			checkCode(t, "change", want, err)
			checkCode(t, "delete", want, s.Delete(t.Context(), c.ID, nil))
			checkCode(t, "delete another", "", s.Delete(t.Context(), free.ID, nil))
		})
	}
}

func checkCode(t *testing.T, what string, want problem.Code, err error) {
	t.Helper()
	if err == nil && want == "" || err != nil && problem.CodeOf(err) == want {
		return
	}
	t.Errorf("%s: %v, want %q", what, err, want)
}

func TestUseOfConnectionsIsIndexed(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	err := db.Exec(`INSERT INTO jobs (id, request_hash, metadata, mapped_fields, source, datasources)
		SELECT gen_random_uuid(), n::text, '{}', '{}', 's', ARRAY['d' || n] FROM generate_series(1, 5000) n`).Error
	if err != nil {
		t.Fatal(err)
	}
	if err = db.Exec("ANALYZE jobs").Error; err != nil {
		t.Fatal(err)
	}
	var plan []string
	err = db.Raw(`EXPLAIN SELECT EXISTS (SELECT 1 FROM jobs WHERE status IN ('pending', 'processing') AND datasources @> '{d7}')`).
		Scan(&plan).Error
	if err != nil || !strings.Contains(strings.Join(plan, "\n"), "jobs_open_datasources") {
		t.Errorf("%v: %q", err, plan)
	}
}

// TestNoJobBesideAChange holds that a job which was checked against a connection is not stored once that has changed,
// and that a change waits for a job that is being stored.
func TestNoJobBesideAChange(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	s := store.NewConnections(db)
	c := create(t, s, newConnection("orders"))
	job := func() *store.Job {
		return &store.Job{
			ID: uuid.Must(uuid.NewV7()), RequestHash: uuid.NewString(), Metadata: []byte(`{}`),
			MappedFields: []byte(`{"orders":{}}`), Source: "crm",
		}
	}
	stale := store.NewJobs(db).Holding([]store.ConnectionRef{{ID: c.ID, Revision: c.Revision}})
	if _, err := s.Assign(t.Context(), c.ID, "crm"); err != nil {
		t.Fatal(err)
	}
	_, err := stale.CreateOnce(t.Context(), job(), time.Minute, func(context.Context) error {
		t.Error("queued")
		return nil
	})
	checkCode(t, "stale", problem.Conflict, err)

	current := store.NewJobs(db).Holding([]store.ConnectionRef{{ID: c.ID, Revision: 2}})
	deleted := make(chan error, 1)
	_, err = current.CreateOnce(t.Context(), job(), time.Minute, func(context.Context) error {
		go func() { deleted <- s.Delete(context.WithoutCancel(t.Context()), c.ID, nil) }()
		return waitForLock(t, db)
	})
	checkCode(t, "create", "", err)
	checkCode(t, "delete", problem.ConnectionInUse, <-deleted)
}

// waitForLock returns when a statement waits for a lock in the database.
func waitForLock(t *testing.T, db *gorm.DB) error {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		var waiting int
		err := db.Raw(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).
			Scan(&waiting).Error
		if err != nil || waiting > 0 {
			return err
		}
	}
	return errors.New("nobody waits for a lock")
}

func TestOddNamesOfDatasourcesCanBeStored(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	job := openJob(t, db, `a"b`, "c,d", `e\f`)
	odd := &store.Job{
		ID: uuid.Must(uuid.NewV7()), RequestHash: "h", Metadata: []byte(`{}`), Source: "crm",
		MappedFields: []byte(`{"a\u0000b":{"\u0000":["\ud800"]},"plain":{}}`),
	}
	if _, err := store.NewJobs(db).CreateOnce(t.Context(), odd, time.Minute, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[uuid.UUID]string{job.ID: `{"a\"b","c,d","e\\f"}`, odd.ID: `{plain}`} {
		var got string
		if err := db.Raw("SELECT datasources::text FROM jobs WHERE id = ?", id).Scan(&got).Error; err != nil || got != want {
			t.Errorf("%s, want %s, %v", got, want, err)
		}
	}
}

func TestTestsAreCounted(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	s := store.NewConnections(db)
	id, other := uuid.New(), uuid.New()
	take := func(id uuid.UUID) time.Duration {
		t.Helper()
		wait, err := s.TakeTest(t.Context(), id, 3, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	back := func(seconds int) { // the tests so far lie that much further back
		t.Helper()
		err := db.Exec(`UPDATE connection_tests SET taken = ARRAY(SELECT x - ? * interval '1 second' FROM unnest(taken) x)
			WHERE connection_id = ?`, seconds, id).Error
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if wait := take(id); wait != 0 {
			t.Fatalf("test %d waits %v", i, wait)
		}
		back(10)
	}
	if wait := take(id); wait <= 25*time.Second || wait > 30*time.Second {
		t.Errorf("the fourth waits %v, want 30s", wait)
	}
	if take(other) != 0 {
		t.Error("another connection waits")
	}
	back(29)
	if wait := take(id); wait <= 0 || wait > time.Second {
		t.Errorf("a second before there is room: %v", wait)
	}
	back(1)
	if wait := take(id); wait != 0 {
		t.Errorf("the first no longer counts, but one waits %v", wait)
	}
	if wait := take(id); wait <= 5*time.Second || wait > 10*time.Second {
		t.Errorf("room for one only: %v, want 10s", wait)
	}
}

func TestTestsAreCountedForAllProcesses(t *testing.T) {
	t.Parallel()
	s := store.NewConnections(newDB(t))
	id := uuid.New()
	var allowed atomic.Int32
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			wait, err := s.TakeTest(t.Context(), id, 10, time.Minute)
			if err != nil {
				t.Error(err)
			} else if wait == 0 {
				allowed.Add(1)
			}
		})
	}
	wg.Wait()
	if allowed.Load() != 10 {
		t.Errorf("%d were allowed", allowed.Load())
	}
}
