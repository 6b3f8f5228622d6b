package control_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/store/control"
)

// entry puts a row into the queue as it looks in the given state, age ago.
func entry(t *testing.T, db *control.DB, args, state string, age time.Duration) int64 {
	t.Helper()
	var id int64
	err := db.Pool().QueryRow(t.Context(), `
		INSERT INTO river_job (args, kind, max_attempts, state, attempted_at, scheduled_at, finalized_at)
		VALUES ($1::jsonb, 'extract', 1, $2::river_job_state, now() - $3::interval, now() - $3::interval,
		        CASE WHEN $2::text IN ('completed', 'discarded') THEN now() END)
		RETURNING id`, args, state, age).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestStrayEntries(t *testing.T) {
	t.Parallel()
	db, ctx := newDB(t), t.Context()
	job := uuid.MustParse("0198c0de-0000-7000-8000-000000000001")
	args := `{"tenantId":"acme","jobId":"` + job.String() + `"}`
	stray := entry(t, db, args, "running", time.Minute)
	entry(t, db, args, "running", time.Second)
	entry(t, db, args, "available", time.Minute)
	entry(t, db, args, "completed", time.Minute)
	entry(t, db, `{"another":"kind"}`, "running", time.Minute)
	leased := entry(t, db, args, "running", time.Minute)
	lapsed := entry(t, db, args, "running", 2*time.Minute)
	for id, ttl := range map[int64]time.Duration{leased: time.Minute, lapsed: -time.Second} {
		l := control.Lease{TenantID: "acme", JobID: uuid.New(), Token: uuid.New(), QueueID: id}
		if _, err := db.TakeLease(ctx, l, ttl); err != nil {
			t.Fatal(err)
		}
	}
	got, err := db.StrayEntries(ctx, 30*time.Second, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if age := time.Since(got[i].ClaimedAt); age < 59*time.Second || age > 10*time.Minute {
			t.Errorf("entry %d was claimed %v ago", got[i].ID, age)
		}
		got[i].ClaimedAt = time.Time{}
	}
	want := []control.QueueEntry{{ID: lapsed, TenantID: "acme", JobID: job}, {ID: stray, TenantID: "acme", JobID: job}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, err = db.StrayEntries(ctx, 30*time.Second, 1); err != nil || len(got) != 1 || got[0].ID != lapsed {
		t.Errorf("limited to the oldest: %v, %v", got, err)
	}
}

func TestDiscardEntry(t *testing.T) {
	t.Parallel()
	db, ctx := newDB(t), t.Context()
	id := entry(t, db, `{}`, "running", time.Minute)
	discard := func() error {
		return pgx.BeginFunc(ctx, db.Pool(), func(tx pgx.Tx) error { return db.DiscardEntry(ctx, tx, id) })
	}
	if err := discard(); err != nil {
		t.Fatal(err)
	}
	var state string
	if err := db.Pool().QueryRow(ctx, "SELECT state FROM river_job WHERE id = $1", id).Scan(&state); err != nil || state != "discarded" {
		t.Fatalf("state %q, %v", state, err)
	}
	if err := discard(); !errors.Is(err, control.ErrEntryNotRunning) {
		t.Fatalf("twice: %v", err)
	}
}

func TestQueueDepth(t *testing.T) {
	t.Parallel()
	db, ctx := newDB(t), t.Context()
	if depth, err := db.QueueDepth(ctx); err != nil || depth != (control.Depth{}) {
		t.Fatalf("empty queue: %+v, %v", depth, err)
	}
	for _, e := range []struct{ args, state string }{
		{`{"tenantId":"acme"}`, "available"},
		{`{"tenantId":"acme"}`, "scheduled"},
		{`{"tenantId":"acme"}`, "retryable"},
		{`{"tenantId":"acme"}`, "running"},
		{`{"tenantId":"acme"}`, "completed"},
		{`{"tenantId":"globex"}`, "available"},
	} {
		entry(t, db, e.args, e.state, time.Minute)
	}
	depth, err := db.QueueDepth(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if depth.Oldest < time.Minute || depth.Oldest > 10*time.Minute {
		t.Errorf("oldest waits %v", depth.Oldest)
	}
	depth.Oldest = 0
	if diff := cmp.Diff(control.Depth{Available: 2, Scheduled: 2, Running: 1}, depth); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
