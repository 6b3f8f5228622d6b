package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// code is the code of an error answer.
func code(t *testing.T, a blackbox.Answer) string {
	t.Helper()
	var p blackbox.Problem
	a.Decode(t, &p)
	return p.Code
}

// TestReplicasAgree holds that two processes limit tests, heed keys and guard changes as if they were one.
func TestReplicasAgree(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	clients := [2]blackbox.Client{d.Client("acme", "admin"), d.Client("acme", "admin")}
	clients[1].Base = launch(t, "manager", d.Env(t)...)
	s := d.Info.Sample
	body := map[string]any{
		"configName": "replicated", "type": s.Type, "host": s.Host, "port": s.Port, "databaseName": s.DatabaseName,
		"userName": s.UserName, "password": s.Password, "ssl": map[string]string{"mode": "disable"},
	}

	var mu sync.Mutex
	made, locations := 0, map[string]bool{}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			got := clients[i%2].Do(t, http.MethodPost, managed, body, "X-Product-Name", "ledger", "Idempotency-Key", "race")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case got.Status == http.StatusCreated:
				locations[got.Header.Get("Location")] = true
				if got.Header.Get("Idempotent-Replayed") == "" {
					made++
				}
			case got.Status != http.StatusConflict || code(t, got) != "FET-0004" || got.Header.Get("Retry-After") == "":
				t.Errorf("status %d: %s", got.Status, got.Body)
			}
		})
	}
	wg.Wait()
	if made != 1 || len(locations) != 1 {
		t.Fatalf("%d were made, at %v", made, locations)
	}
	again := clients[1].Expect(t, http.StatusCreated, http.MethodPost, managed, body, "X-Product-Name", "ledger", "Idempotency-Key", "race")
	location := again.Header.Get("Location")
	if again.Header.Get("Idempotent-Replayed") != "true" || !locations[location] {
		t.Errorf("headers %v", again.Header)
	}

	first := clients[0].Expect(t, http.StatusOK, http.MethodPatch, location, map[string]any{"metadata": map[string]any{"a": 1}}, "If-Match", `"1"`)
	stale := clients[1].Expect(t, http.StatusPreconditionFailed, http.MethodPatch, location, map[string]any{"port": 1}, "If-Match", `"1"`)
	if tag := first.Header.Get("ETag"); tag != `"2"` || code(t, stale) != "FET-1090" {
		t.Errorf("ETag %s, then %s", tag, stale.Body)
	}

	allowed := 0
	for i := range 12 {
		switch got := clients[i%2].Do(t, http.MethodPost, location+"/test", nil); {
		case got.Status == http.StatusOK:
			allowed++
		case got.Status != http.StatusTooManyRequests || code(t, got) != "FET-0008" || got.Header.Get("Retry-After") == "":
			t.Errorf("status %d: %s", got.Status, got.Body)
		}
	}
	if allowed != 10 {
		t.Errorf("%d tests were allowed", allowed)
	}

	job := clients[0].Extract(t, "ledger", "replicated", "transactions", "id")
	clients[0].AwaitCompleted(t, job, blackbox.StartTimeout)
	clients[1].Expect(t, http.StatusNoContent, http.MethodDelete, location, nil, "If-Match", `"2"`)
	clients[0].Expect(t, http.StatusNotFound, http.MethodGet, location, nil)
}

// TestAssignTheImported follows a connection without a product to its end.
func TestAssignTheImported(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	c := d.Client("globex", "admin")
	items := list(t, c, managed+"/unassigned")
	if len(items) != 1 || items[0].ConfigName != "unassigned_demo" {
		t.Fatalf("unassigned: %+v", items)
	}
	path := managed + "/" + items[0].ID + "/assign"
	var wg sync.WaitGroup
	statuses := make([]int, 8)
	for i := range statuses {
		wg.Go(func() {
			statuses[i] = c.Do(t, http.MethodPost, path, nil, "X-Product-Name", fmt.Sprint("product-", i)).Status
		})
	}
	wg.Wait()
	won := 0
	for _, status := range statuses {
		if status == http.StatusOK {
			won++
		} else if status != http.StatusConflict {
			t.Errorf("status %d", status)
		}
	}
	if left := list(t, c, managed+"/unassigned"); won != 1 || len(left) != 0 {
		t.Errorf("%d won, left %+v", won, left)
	}
	if got := c.Expect(t, http.StatusConflict, http.MethodPost, path, nil, "X-Product-Name", "late"); code(t, got) != "FET-1015" {
		t.Errorf("got %s", got.Body)
	}
}
