package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

// cancellation is how these tests cancel.
func cancellation() (store.Failure, func(*store.Job) (store.Event, error)) {
	return store.Failure{Code: string(problem.JobCanceled), Message: "canceled"},
		func(job *store.Job) (store.Event, error) { return event(job, "failed"), nil }
}

func cancel(ctx context.Context, s store.Jobs, id uuid.UUID) (*store.Job, error) {
	f, ended := cancellation()
	return s.Cancel(ctx, id, f, ended)
}

func claimed(t *testing.T, s store.Jobs, hash string) *store.Job {
	t.Helper()
	job, err := s.Claim(t.Context(), created(t, s, hash).ID, time.Now().UTC().Truncate(time.Microsecond), 5)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func TestCancelPending(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	ctx := t.Context()
	for name, attempt := range map[string]int{"never claimed": 0, "between attempts": 1} {
		job := created(t, s, name)
		if attempt > 0 {
			if _, err := s.Claim(ctx, job.ID, time.Now(), 5); err != nil {
				t.Fatal(err)
			}
			if err := s.Release(ctx, job.ID, 1, new(time.Now()), false); err != nil {
				t.Fatal(err)
			}
		}
		got, err := cancel(ctx, s, job.ID)
		if err != nil {
			t.Fatal(err)
		}
		ev := event(job, "failed")
		want := *job
		want.Status, want.Attempt, want.CompletedAt = store.JobFailed, attempt, &ev.Time
		want.ErrorCode, want.ErrorMessage = new("FET-1025"), new("canceled")
		if diff := cmp.Diff(&want, got, cmpopts.IgnoreFields(store.Job{}, "StartedAt")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff([]store.Event{ev}, mustEvents(t, s, job.ID)); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", name, diff)
		}
		again, err := cancel(ctx, s, job.ID)
		if !errors.Is(err, store.ErrTerminal) || again.Status != store.JobFailed {
			t.Errorf("%s, again: %+v, %v", name, again, err)
		}
	}
	if _, err := cancel(ctx, s, uuid.New()); problem.CodeOf(err) != problem.NotFoundInTenant {
		t.Errorf("unknown job: %v", err)
	}
}

// A job that was asked to stop ends as canceled and in no other way, also in a later attempt.
func TestCancelProcessing(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	ctx := t.Context()
	job := claimed(t, s, "x")
	marked, err := cancel(ctx, s, job.ID)
	if err != nil || marked.CancelRequestedAt == nil || time.Since(*marked.CancelRequestedAt) > time.Minute {
		t.Fatalf("marked %+v, %v", marked, err)
	}
	want := *job
	want.CancelRequestedAt = marked.CancelRequestedAt
	if diff := cmp.Diff(&want, marked); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if again, failed := cancel(ctx, s, job.ID); failed != nil || cmp.Diff(marked, again) != "" {
		t.Fatalf("again: %+v, %v", again, failed)
	}
	refused := func(attempt int) map[string]error {
		return map[string]error{
			"progress": s.SaveProgress(ctx, job.ID, attempt, []byte(`{}`)),
			"release":  s.Release(ctx, job.ID, attempt, nil, true),
			"complete": s.Complete(ctx, job.ID, attempt, store.CompleteFacts{}, event(job, "completed")),
			"fail":     s.Fail(ctx, job.ID, attempt, store.Failure{Code: "FET-1040"}, event(job, "failed")),
		}
	}
	for name, err := range refused(1) {
		if !errors.Is(err, store.ErrCancelRequested) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range refused(2) {
		if !errors.Is(err, store.ErrLostAttempt) {
			t.Errorf("%s of another attempt: %v", name, err)
		}
	}
	// Its worker died.
	next, err := s.Claim(ctx, job.ID, time.Now(), 5)
	if err != nil || next.Attempt != 2 || next.CancelRequestedAt == nil {
		t.Fatalf("next claim: %+v, %v", next, err)
	}
	f, _ := cancellation()
	if err = s.Fail(ctx, job.ID, 1, f, event(job, "failed")); !errors.Is(err, store.ErrLostAttempt) {
		t.Fatalf("the first attempt: %v", err)
	}
	if err = s.Fail(ctx, job.ID, 2, f, event(job, "failed")); err != nil {
		t.Fatal(err)
	}
	ended, err := s.Get(ctx, job.ID)
	if err != nil || ended.Status != store.JobFailed || *ended.ErrorCode != "FET-1025" || len(mustEvents(t, s, job.ID)) != 1 {
		t.Errorf("ended %+v, %v", ended, err)
	}
}

// Whatever happens to a job at the moment of its cancellation, it ends once, with one event, and as everybody was told.
func TestCancelRaces(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	ctx := t.Context()
	for i := range 40 {
		job := claimed(t, s, fmt.Sprint(i))
		var (
			group    errgroup.Group
			complete error
			canceled [2]error
		)
		group.Go(func() error {
			complete = s.Complete(ctx, job.ID, 1, store.CompleteFacts{Path: "p", SHA256: "s"}, event(job, "completed"))
			return nil
		})
		for n := range canceled {
			group.Go(func() error {
				_, canceled[n] = cancel(ctx, s, job.ID)
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(ctx, job.ID)
		if err != nil {
			t.Fatal(err)
		}
		events := len(mustEvents(t, s, job.ID))
		switch {
		case complete == nil:
			// A cancellation that came first would have kept it from completing.
			if got.Status != store.JobCompleted || events != 1 || !errors.Is(canceled[0], store.ErrTerminal) || !errors.Is(canceled[1], store.ErrTerminal) {
				t.Fatalf("completed: %s, %d events, canceled %v", got.Status, events, canceled)
			}
		case errors.Is(complete, store.ErrCancelRequested):
			if got.Status != store.JobProcessing || events != 0 || canceled[0] != nil || canceled[1] != nil {
				t.Fatalf("asked to stop: %s, %d events, canceled %v", got.Status, events, canceled)
			}
		default:
			t.Fatal(complete)
		}
	}
}

// A claim and the cancellation of a pending job meet: either the job fails at once, or its attempt learns of it.
func TestCancelMeetsClaim(t *testing.T) {
	t.Parallel()
	s := store.NewJobs(newDB(t))
	ctx := t.Context()
	for i := range 40 {
		job := created(t, s, fmt.Sprint(i))
		var (
			group errgroup.Group
			claim error
		)
		group.Go(func() error {
			_, claim = s.Claim(ctx, job.ID, time.Now(), 5)
			return nil
		})
		group.Go(func() error {
			_, err := cancel(ctx, s, job.ID)
			return err
		})
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(ctx, job.ID)
		if err != nil {
			t.Fatal(err)
		}
		events := len(mustEvents(t, s, job.ID))
		failed := errors.Is(claim, store.ErrTerminal) && got.Status == store.JobFailed && got.Attempt == 0 && events == 1
		marked := claim == nil && got.Status == store.JobProcessing && got.CancelRequestedAt != nil && events == 0
		if failed == marked {
			t.Fatalf("%s in attempt %d, %d events, claim %v", got.Status, got.Attempt, events, claim)
		}
	}
}

func TestListJobs(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	s := store.NewJobs(db)
	ids := map[string]uuid.UUID{}
	at := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, row := range []struct{ name, source string }{{"a", "crm"}, {"b", "crm"}, {"c", "erp"}, {"d", "crm"}, {"e", "crm"}} {
		job := newJob(row.name)
		job.Source, job.CreatedAt = row.source, at.AddDate(0, 0, i/2) // a and b, c and d at one instant
		if _, err := s.CreateOnce(t.Context(), job, window, enqueued); err != nil {
			t.Fatal(err)
		}
		ids[row.name] = job.ID
	}
	if _, err := s.Claim(t.Context(), ids["d"], at, 5); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "e"} {
		if _, err := cancel(t.Context(), s, ids[name]); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		filter store.JobFilter
		want   []string
		total  int64
	}{
		"all":            {store.JobFilter{Page: store.Page{Limit: 10}}, []string{"a", "b", "c", "d", "e"}, 5},
		"descending":     {store.JobFilter{Page: store.Page{Limit: 10, Desc: true}}, []string{"e", "d", "c", "b", "a"}, 5},
		"second page":    {store.JobFilter{Page: store.Page{Number: 2, Limit: 2}}, []string{"c", "d"}, 5},
		"beyond":         {store.JobFilter{Page: store.Page{Number: 9, Limit: 2}}, nil, 5},
		"failed":         {store.JobFilter{Page: store.Page{Limit: 1}, Status: new(store.JobFailed)}, []string{"a"}, 2},
		"processing":     {store.JobFilter{Page: store.Page{Limit: 10}, Status: new(store.JobProcessing)}, []string{"d"}, 1},
		"completed":      {store.JobFilter{Page: store.Page{Limit: 10}, Status: new(store.JobCompleted)}, nil, 0},
		"product":        {store.JobFilter{Page: store.Page{Limit: 10}, Source: new("erp")}, []string{"c"}, 1},
		"product status": {store.JobFilter{Page: store.Page{Limit: 10}, Source: new("crm"), Status: new(store.JobPending)}, []string{"b"}, 1},
		"window":         {store.JobFilter{Page: store.Page{Limit: 10}, Window: store.Window{Start: at.AddDate(0, 0, 1), End: at.AddDate(0, 0, 1)}}, []string{"c", "d"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, total, err := s.List(t.Context(), test.filter)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, row := range rows {
				got = append(got, row.RequestHash)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || total != test.total || rows == nil {
				t.Errorf("total %d, want %d (-want +got):\n%s", total, test.total, diff)
			}
		})
	}
}
