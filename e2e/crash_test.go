package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

func TestDevKilledComesBackWithItsData(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	first, err := binary.LaunchDev(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := first.Client("acme", "admin")
	name, id := first.Connect(t, c, "ledger")
	job := c.Extract(t, "ledger", name, "order", "*")
	result := c.AwaitCompleted(t, job, blackbox.StartTimeout)
	before := c.Expect(t, http.StatusOK, http.MethodGet, "/v1/fetcher/"+job+"/result", nil).Body
	first.Kill()

	second, err := binary.LaunchDev(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Stop(); err != nil {
			t.Error(err)
		}
	})
	c = second.Client("acme", "admin")
	c.Expect(t, http.StatusOK, http.MethodGet, "/v1/management/connections/"+id, nil)
	if got := c.Job(t, job); got.ResultHMAC != result.ResultHMAC {
		t.Errorf("HMAC %s after the restart, %s before", got.ResultHMAC, result.ResultHMAC)
	}
	if after := c.Expect(t, http.StatusOK, http.MethodGet, "/v1/fetcher/"+job+"/result", nil).Body; string(after) != string(before) {
		t.Error("the result has changed")
	}
	c.AwaitCompleted(t, c.Extract(t, "ledger", name, "order", "select", "placed"), blackbox.StartTimeout)
}

func TestKilledWorkersJobCompletesOnAnother(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--no-worker")
	env := d.Env(t)
	c := d.Client("acme", "operator")
	name, _ := d.Connect(t, c, "ledger")
	// A table long enough to be killed in the middle of.
	psql(t, dsn(d.Info.Sample), `CREATE TABLE long AS SELECT g AS id, md5(g::text) AS digest, repeat('x', 200) AS filler FROM generate_series(1, 500000) g`)

	victim, err := binary.Launch(env, "worker")
	if err != nil {
		t.Fatal(err)
	}
	id := c.Extract(t, "ledger", name, "long", "*")
	running := c.Await(t, id, blackbox.StartTimeout, func(j blackbox.Job) bool { return j.Status != "pending" })
	if running.Status != "processing" {
		t.Fatalf("the job is %s before anything was killed", running.Status)
	}
	victim.Kill()
	killed := time.Now()

	rescuer, err := binary.Launch(env, "worker")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rescuer.Stop(); err != nil {
			t.Error(err)
		}
	})
	c.Await(t, id, 30*time.Second-time.Since(killed), func(j blackbox.Job) bool { return j.Attempt == 2 })
	t.Logf("running again %s after the kill", time.Since(killed).Round(time.Millisecond))
	j := c.AwaitCompleted(t, id, 3*time.Minute)
	if j.Attempt != 2 || j.Result.RowCount != 500_000 {
		t.Errorf("attempt %d with %d rows, want attempt 2 with 500000", j.Attempt, j.Result.RowCount)
	}
	document := c.Expect(t, http.StatusOK, http.MethodGet, "/v1/fetcher/"+id+"/result", nil).Body
	verify(t, d, "acme", j, document)
	checkResult(t, d.Info.Sample, document, name, "long")

	var events struct {
		Items []struct{ ID, Type string }
	}
	c.Expect(t, http.StatusOK, http.MethodGet, "/v1/fetcher/"+id+"/events", nil).Decode(t, &events)
	if len(events.Items) != 1 || events.Items[0].ID != "fetcher.job.completed."+id {
		t.Errorf("events %+v, want exactly the one of completion", events.Items)
	}
}
