package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

const window = 5 * time.Minute

func newJob(hash string) *store.Job {
	return &store.Job{
		ID: uuid.Must(uuid.NewV7()), RequestHash: hash, Metadata: []byte(`{"source":"crm"}`),
		MappedFields: []byte(`{"a":{"t":["*"]}}`), Source: "crm",
	}
}

func enqueued(context.Context) error { return nil }

// created stores a pending job.
func created(t *testing.T, s store.Jobs, hash string) *store.Job {
	t.Helper()
	job := newJob(hash)
	existing, err := s.CreateOnce(t.Context(), job, window, enqueued)
	if err != nil || existing != nil {
		t.Fatalf("create: existing %v, %v", existing, err)
	}
	return job
}

func event(job *store.Job, status string) store.Event {
	return store.Event{
		ID: "fetcher.job." + status + "." + job.ID.String(), Type: "fetcher.job." + status,
		Time: time.Date(2025, 6, 7, 8, 9, 10, 11000, time.UTC), Data: []byte(`{"jobId": "x"}`),
	}
}

func TestJobReadsBackAsWritten(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	minimal := created(t, s, "minimal")
	full := newJob("full")
	full.Metadata = []byte("{ \"source\" :\"crm\",\"n\":1.10, \"n2\":\"\\u0000\",\"z\":1e400}")
	full.Filters, full.Output = []byte(`{"a":{"t":{"f":{"eq":[1]}}}}`), []byte(`{"format":"csv"}`)
	if _, err := s.CreateOnce(t.Context(), full, window, enqueued); err != nil {
		t.Fatal(err)
	}
	for _, job := range []*store.Job{minimal, full} {
		if job.Status != store.JobPending || job.CreatedAt.IsZero() {
			t.Errorf("created as %q at %v", job.Status, job.CreatedAt)
		}
		got, err := s.Get(t.Context(), job.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(job, got); diff != "" {
			t.Errorf("(-created +read):\n%s", diff)
		}
	}
}

func TestOneOfManyIdenticalRequestsCreates(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	var (
		group   errgroup.Group
		entries atomic.Int32
		winners atomic.Int32
		ids     [20]uuid.UUID
	)
	for i := range ids {
		group.Go(func() error {
			job := newJob("same")
			existing, err := s.CreateOnce(t.Context(), job, window, func(context.Context) error {
				entries.Add(1)
				return nil
			})
			if existing != nil {
				job = existing
			} else {
				winners.Add(1)
			}
			ids[i] = job.ID
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if entries.Load() != 1 || winners.Load() != 1 {
		t.Errorf("%d entries and %d jobs, want one of each", entries.Load(), winners.Load())
	}
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("jobs %v and %v", id, ids[0])
		}
	}
}

func TestWhatCountsAsDuplicate(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	s := store.NewJobs(db)
	for name, test := range map[string]struct {
		set  string
		want bool
	}{
		"pending":                {"status = 'pending'", true},
		"pending for long":       {"created_at = now() - interval '1 day'", true},
		"processing for long":    {"status = 'processing', created_at = now() - interval '1 day'", true},
		"completed inside":       {"status = 'completed', completed_at = now(), result_path = '', result_sha256 = '', created_at = now() - interval '4 min 50 s'", true},
		"completed outside":      {"status = 'completed', completed_at = now(), result_path = '', result_sha256 = '', created_at = now() - interval '5 min 10 s'", false},
		"failed a moment ago":    {"status = 'failed', completed_at = now(), error_code = 'FET-1025'", false},
		"another request's hash": {"request_hash = 'other'", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := created(t, s, name)
			if err := db.Exec("UPDATE jobs SET "+test.set+" WHERE id = ?", job.ID).Error; err != nil {
				t.Fatal(err)
			}
			found, err := s.FindDuplicate(t.Context(), name, window)
			if err != nil || (found != nil) != test.want {
				t.Fatalf("found %v, %v", found, err)
			}
			existing, err := s.CreateOnce(t.Context(), newJob(name), window, enqueued)
			if err != nil || (existing != nil) != test.want {
				t.Fatalf("existing %v, %v", existing, err)
			}
			if test.want && existing.ID != job.ID {
				t.Errorf("existing %v, want %v", existing.ID, job.ID)
			}
		})
	}
}

func TestNothingIsStoredWhenTheQueueRefuses(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	job, refusal := newJob("x"), problem.New(problem.Unavailable, "queue")
	_, err := s.CreateOnce(t.Context(), job, window, func(context.Context) error { return refusal })
	if !errors.Is(err, refusal) {
		t.Fatalf("got %v", err)
	}
	if _, err := s.Get(t.Context(), job.ID); problem.CodeOf(err) != problem.NotFoundInTenant {
		t.Fatalf("stored all the same: %v", err)
	}
}

func TestCreateOnceDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	inside, leave := make(chan struct{}), make(chan struct{})
	var group errgroup.Group
	group.Go(func() error {
		_, err := s.CreateOnce(t.Context(), newJob("held"), window, func(context.Context) error {
			close(inside)
			<-leave
			return nil
		})
		return err
	})
	<-inside
	_, err := s.CreateOnce(t.Context(), newJob("held"), window, enqueued)
	close(leave)
	var coded *problem.Error
	if !errors.As(err, &coded) || coded.Code != problem.Unavailable || coded.RetryAfter == 0 {
		t.Errorf("got %v", err)
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestClaim(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	ctx, at := t.Context(), time.Date(2025, 1, 2, 3, 4, 5, 6000, time.UTC)
	if _, err := s.Claim(ctx, uuid.New(), at, 5); !errors.Is(err, store.ErrNoJob) {
		t.Fatalf("no row: %v", err)
	}
	job := created(t, s, "x")
	claimed, err := s.Claim(ctx, job.ID, at, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := *job
	want.Status, want.Attempt, want.StartedAt = store.JobProcessing, 1, &at
	if diff := cmp.Diff(&want, claimed); diff != "" {
		t.Fatalf("first claim (-want +got):\n%s", diff)
	}
	// The worker died: somebody else claims the processing job and fences the first one.
	if err = s.SaveProgress(ctx, job.ID, 1, []byte(`{"rows": 1}`)); err != nil {
		t.Fatal(err)
	}
	if claimed, err = s.Claim(ctx, job.ID, at, 2); err != nil || claimed.Attempt != 2 || claimed.Progress != nil {
		t.Fatalf("second claim: %+v, %v", claimed, err)
	}
	if err = s.SaveProgress(ctx, job.ID, 1, []byte(`{}`)); !errors.Is(err, store.ErrLostAttempt) {
		t.Fatalf("progress of the first: %v", err)
	}
	exhausted, err := s.Claim(ctx, job.ID, at, 2)
	if !errors.Is(err, store.ErrExhausted) || exhausted.Attempt != 2 {
		t.Fatalf("third claim: %+v, %v", exhausted, err)
	}
	// An attempt handed back is not spent.
	if err = s.Release(ctx, job.ID, 2, nil, true); err != nil {
		t.Fatal(err)
	}
	if claimed, err = s.Claim(ctx, job.ID, at, 2); err != nil || claimed.Attempt != 3 || claimed.AttemptsReturned != 1 {
		t.Fatalf("after a return: %+v, %v", claimed, err)
	}
	if err = s.Fail(ctx, job.ID, 3, store.Failure{Code: "FET-1026", Message: "m"}, event(job, "failed")); err != nil {
		t.Fatal(err)
	}
	ended, err := s.Claim(ctx, job.ID, at, 9)
	if !errors.Is(err, store.ErrTerminal) || ended.Status != store.JobFailed {
		t.Fatalf("ended: %+v, %v", ended, err)
	}
}

// A job that waits for its next attempt is not claimed before that.
func TestClaimTooEarly(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	ctx, at := t.Context(), time.Date(2025, 1, 2, 3, 4, 5, 6000, time.UTC)
	job, next := created(t, s, "x"), at.Add(time.Second)
	if _, err := s.Claim(ctx, job.ID, at, 5); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(ctx, job.ID, 1, &next, false); err != nil {
		t.Fatal(err)
	}
	early, err := s.Claim(ctx, job.ID, next.Add(-time.Microsecond), 5)
	if !errors.Is(err, store.ErrTooEarly) || early.Attempt != 1 || early.Status != store.JobPending || !early.NextAttemptAt.Equal(next) {
		t.Fatalf("early: %+v, %v", early, err)
	}
	if claimed, err := s.Claim(ctx, job.ID, next, 5); err != nil || claimed.Attempt != 2 || claimed.NextAttemptAt != nil {
		t.Fatalf("in time: %+v, %v", claimed, err)
	}
}

func TestConcurrentClaimsGetNumbersOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	job := created(t, s, "x")
	var (
		group errgroup.Group
		got   [8]atomic.Int32
	)
	for range got {
		group.Go(func() error {
			claimed, err := s.Claim(t.Context(), job.ID, time.Now(), len(got))
			if err == nil {
				got[claimed.Attempt-1].Add(1)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i].Load() != 1 {
			t.Errorf("attempt %d was given %d times", i+1, got[i].Load())
		}
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	ctx, next := t.Context(), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	job := created(t, s, "x")
	if err := s.Release(ctx, job.ID, 0, nil, false); !errors.Is(err, store.ErrLostAttempt) {
		t.Fatalf("a pending job: %v", err)
	}
	claimed, err := s.Claim(ctx, job.ID, next, 5)
	if err != nil {
		t.Fatal(err)
	}
	if err = s.Release(ctx, job.ID, claimed.Attempt, &next, false); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(ctx, job.ID)
	if err != nil {
		t.Fatal(err)
	}
	claimed.Status, claimed.NextAttemptAt = store.JobPending, &next
	if diff := cmp.Diff(claimed, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	ctx, expires := t.Context(), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	job := created(t, s, "x")
	ev := event(job, "completed")
	facts := store.CompleteFacts{
		Path: "acme/external-data/x.json", HMAC: "aa", SHA256: "bb", Format: "json", SizeBytes: 1 << 40, RowCount: 3,
		KeyVersion: 2, Tables: []byte(`[ {"rows":3} ]`), ExpiresAt: &expires,
	}
	if err := s.Complete(ctx, job.ID, 0, facts, ev); !errors.Is(err, store.ErrLostAttempt) {
		t.Fatalf("a pending job: %v", err)
	}
	claimed, err := s.Claim(ctx, job.ID, expires, 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, attempt := range []int{0, 2} {
		if err = s.Complete(ctx, job.ID, attempt, facts, ev); !errors.Is(err, store.ErrLostAttempt) {
			t.Fatalf("attempt %d: %v", attempt, err)
		}
	}
	if events := mustEvents(t, s, job.ID); len(events) != 0 {
		t.Fatalf("events of a refused completion: %v", events)
	}
	if err = s.Complete(ctx, job.ID, 1, facts, ev); err != nil {
		t.Fatal(err)
	}
	want := *claimed
	want.Status, want.CompletedAt = store.JobCompleted, &ev.Time
	want.ResultPath, want.ResultHMAC, want.ResultSHA256 = &facts.Path, &facts.HMAC, &facts.SHA256
	want.ResultFormat, want.ResultSizeBytes, want.ResultRowCount = &facts.Format, &facts.SizeBytes, &facts.RowCount
	want.ResultKeyVersion, want.ResultTables, want.ResultExpiresAt = &facts.KeyVersion, facts.Tables, &expires
	got, err := s.Get(ctx, job.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]store.Event{ev}, mustEvents(t, s, job.ID)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	// A terminal state never changes.
	for name, err := range map[string]error{
		"complete": s.Complete(ctx, job.ID, 1, facts, ev),
		"fail":     s.Fail(ctx, job.ID, 1, store.Failure{Code: "c"}, event(job, "failed")),
		"release":  s.Release(ctx, job.ID, 1, nil, true),
		"progress": s.SaveProgress(ctx, job.ID, 1, []byte(`{}`)),
	} {
		if !errors.Is(err, store.ErrLostAttempt) {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
}

func TestFail(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		claim   bool
		failure store.Failure
	}{
		"running":        {true, store.Failure{Code: "FET-1028", Message: "m", Datasource: "d", Table: "t"}},
		"before it runs": {false, store.Failure{Code: "FET-1025", Message: "canceled"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store.NewJobs(newDB(t))
			job := created(t, s, "x")
			if test.claim {
				var err error
				if job, err = s.Claim(t.Context(), job.ID, time.Now().UTC().Truncate(time.Microsecond), 5); err != nil {
					t.Fatal(err)
				}
			}
			ev := event(job, "failed")
			if err := s.Fail(t.Context(), job.ID, job.Attempt+1, test.failure, ev); !errors.Is(err, store.ErrLostAttempt) {
				t.Fatalf("another attempt: %v", err)
			}
			if err := s.Fail(t.Context(), job.ID, job.Attempt, test.failure, ev); err != nil {
				t.Fatal(err)
			}
			want := *job
			want.Status, want.CompletedAt = store.JobFailed, &ev.Time
			want.ErrorCode, want.ErrorMessage = &test.failure.Code, &test.failure.Message
			if test.failure.Table != "" {
				want.ErrorDatasource, want.ErrorTable = &test.failure.Datasource, &test.failure.Table
			}
			got, err := s.Get(t.Context(), job.ID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]store.Event{ev}, mustEvents(t, s, job.ID)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestATerminalStateNeedsItsEvent(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	job := created(t, s, "x")
	broken := event(job, "failed")
	broken.Data = []byte("{")
	if err := s.Fail(t.Context(), job.ID, 0, store.Failure{Code: "FET-1025"}, broken); err == nil {
		t.Fatal("an event that can't be stored was accepted")
	}
	got, err := s.Get(t.Context(), job.ID)
	if err != nil || got.Status != store.JobPending {
		t.Fatalf("status %v, %v", got.Status, err)
	}
}

func mustEvents(t *testing.T, s store.Jobs, id uuid.UUID) []store.Event {
	t.Helper()
	events, err := s.Events(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return events
}
