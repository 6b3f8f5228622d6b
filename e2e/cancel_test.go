package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// sleeping counts the statements on the sample database that read the view sleepy.
func sleeping(t *testing.T, d *blackbox.Dev) string {
	t.Helper()
	rows := psql(t, dsn(d.Info.Sample),
		`SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%sleepy%'`)
	return rows[len(rows)-1][0]
}

// awaitSleeping waits until that many statements sleep.
func awaitSleeping(t *testing.T, d *blackbox.Dev, want string, limit time.Duration) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for got := sleeping(t, d); got != want; got = sleeping(t, d) {
		if time.Now().After(deadline) {
			t.Fatalf("%s statements sleep after %s, want %s", got, limit, want)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// cancel cancels a job and checks the status it is answered with.
func cancel(t *testing.T, c blackbox.Client, id, status string) {
	t.Helper()
	var j blackbox.Job
	c.Expect(t, http.StatusAccepted, http.MethodPost, "/v1/fetcher/"+id+"/cancel", nil).Decode(t, &j)
	if j.ID != id || j.Status != status {
		t.Fatalf("canceled job %s is %s, want %s", j.ID, j.Status, status)
	}
}

// isCanceled waits for the end of a canceled job, and checks that it is the only one and for good.
func isCanceled(t *testing.T, c blackbox.Client, id string, attempt int, limit time.Duration) {
	t.Helper()
	j := c.Await(t, id, limit, blackbox.Ended)
	if j.Status != "failed" || j.Attempt != attempt || j.Error == nil || j.Error.Code != "FET-1025" || j.Error.Message != "the job was canceled" {
		t.Errorf("job is %s, attempt %d, %+v", j.Status, j.Attempt, j.Error)
	}
	var events struct{ Items []struct{ ID string } }
	c.Expect(t, http.StatusOK, http.MethodGet, "/v1/fetcher/"+id+"/events", nil).Decode(t, &events)
	if len(events.Items) != 1 || events.Items[0].ID != "fetcher.job.failed."+id {
		t.Errorf("events %+v, want exactly the one of the failure", events.Items)
	}
	var p blackbox.Problem
	c.Expect(t, http.StatusConflict, http.MethodPost, "/v1/fetcher/"+id+"/cancel", nil).Decode(t, &p)
	if p.Code != "FET-1022" {
		t.Errorf("canceled again: %+v", p)
	}
}

// A job is canceled wherever it is: before a worker has it, while one runs it, and after that one died.
func TestCancel(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--no-worker")
	c := d.Client("acme", "operator")
	name, _ := d.Connect(t, c, "ledger")
	psql(t, dsn(d.Info.Sample), `CREATE VIEW sleepy AS SELECT g AS id, pg_sleep(600)::text AS slept FROM generate_series(1, 3) g`)
	submit := func() string { return c.Extract(t, "ledger", name, "sleepy", "*") }

	pending := submit()
	cancel(t, c, pending, "failed")
	isCanceled(t, c, pending, 0, 0)

	worker, err := binary.Launch(d.Env(t), "worker")
	if err != nil {
		t.Fatal(err)
	}
	running := submit()
	awaitSleeping(t, d, "1", blackbox.StartTimeout)
	begun := time.Now()
	cancel(t, c, running, "processing")
	awaitSleeping(t, d, "0", blackbox.StartTimeout) // within 5 s on a machine that is not busy with other tests
	t.Logf("the statement was gone after %s", time.Since(begun).Round(time.Millisecond))
	isCanceled(t, c, running, 1, blackbox.StartTimeout)

	orphan := submit()
	awaitSleeping(t, d, "1", blackbox.StartTimeout)
	worker.Kill()
	cancel(t, c, orphan, "processing")
	rescuer, err := binary.Launch(d.Env(t), "worker")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rescuer.Stop(); err != nil {
			t.Error(err)
		}
	})
	isCanceled(t, c, orphan, 2, blackbox.StartTimeout)
}

// A part of a result is that part, and tells of how many bytes.
func TestResultRange(t *testing.T) {
	t.Parallel()
	d := shared(t)
	c := d.Client("acme", "operator")
	name, _ := d.Connect(t, c, "ledger")
	id := c.Extract(t, "ledger", name, "order", "*")
	c.AwaitCompleted(t, id, blackbox.StartTimeout)
	path := "/v1/fetcher/" + id + "/result"
	whole := c.Expect(t, http.StatusOK, http.MethodGet, path, nil)
	n := len(whole.Body)
	part := c.Expect(t, http.StatusPartialContent, http.MethodGet, path, nil,
		"Range", fmt.Sprintf("bytes=%d-", n/2), "If-Range", whole.Header.Get("ETag"))
	if string(part.Body) != string(whole.Body[n/2:]) {
		t.Errorf("%d bytes, want the second half of %d", len(part.Body), n)
	}
	if got, want := part.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-%d/%d", n/2, n-1, n); got != want {
		t.Errorf("Content-Range %q, want %q", got, want)
	}
	beyond := c.Expect(t, http.StatusRequestedRangeNotSatisfiable, http.MethodGet, path, nil, "Range", fmt.Sprintf("bytes=%d-", n))
	if got, want := beyond.Header.Get("Content-Range"), fmt.Sprintf("bytes */%d", n); got != want {
		t.Errorf("Content-Range %q, want %q", got, want)
	}
}
