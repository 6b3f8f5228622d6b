package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// testKataraKeys is section 3, apart from what testKataraRefusals says of errors.
func testKataraKeys(t *testing.T, s *kataraSuite) {
	admin, operator := s.agent(t, "admin"), s.agent(t, "operator")
	environment := s.environment(t)
	source := s.source(t, environment, s.web.Base())
	path, url := s.page()
	s.web.Page(path, "text/plain", "one")
	object, key := uuid.NewString(), uuid.NewString()
	r := fetchingAs(t, source, url, object, key)
	first := operator.succeeds(t, http.StatusOK, r)
	s.web.Page(path, "text/plain", "two")
	var page synced
	operator.succeeds(t, http.StatusOK, fetchingAs(t, source, url, object, uuid.NewString())).Decode(t, &page)
	if page.Content.Version != 2 || !page.Changed {
		t.Errorf("the second version: %+v", page)
	}

	same := r // the same body in other words, under the key in other case
	same.headers = []string{"Idempotency-Key", strings.ToUpper(key)}
	same.body = fmt.Sprintf("{ \"object_id\" : \"%s\",\n\"url\":\"%s\" }", strings.ToUpper(object), strings.Replace(url, "https://docs.", "https://DOCS.", 1))
	for _, again := range []call{r, same} {
		got := operator.succeeds(t, http.StatusOK, again)
		if got.Header.Get("Idempotent-Replayed") != "true" || got.Header.Get("X-Request-ID") == first.Header.Get("X-Request-ID") {
			t.Errorf("headers %v", got.Header)
		}
		if diff := cmp.Diff(string(first.Body), string(got.Body)); diff != "" {
			t.Error("the stored answer:", diff)
		}
	}
	operator.fails(t, "idempotency_key_reused", "Idempotency-Key", fetchingAs(t, source, url, uuid.NewString(), key))
	operator.fails(t, "idempotency_key_reused", "Idempotency-Key", fetchingAs(t, source, s.web.URL("/docs/page"), object, key))
	other := s.source(t, environment, s.web.Base())
	operator.fails(t, "idempotency_key_reused", "Idempotency-Key", fetchingAs(t, other, url, object, key))

	// Another principal, another environment: other keys.
	admin.succeeds(t, http.StatusOK, r).Decode(t, &page)
	if page.Content.Version != 2 || page.Changed {
		t.Errorf("another principal's request: %+v", page)
	}
	elsewhere := s.source(t, s.environment(t), s.web.Base())
	operator.succeeds(t, http.StatusOK, fetchingAs(t, elsewhere, url, object, key)).Decode(t, &page)
	if page.Content.Version != 1 {
		t.Errorf("another environment's request: %+v", page)
	}

	// A refusal that is kept, and one that isn't, after the reason has gone.
	path, url = s.page()
	busy := fetching(t, source, url)
	gone := fetching(t, source, url)
	s.web.Status(path, http.StatusServiceUnavailable, nil)
	operator.fails(t, "upstream_unavailable", "", busy)
	s.web.Status(path, http.StatusGone, nil)
	operator.fails(t, "upstream_refused", "", gone)
	s.web.Page(path, "text/plain", "back")
	operator.fails(t, "upstream_refused", "", gone)
	operator.succeeds(t, http.StatusOK, busy)

	// A mutation other than sync, whose failures free the key.
	change := post(source+"/disconnect", `{"revision":9}`, "Idempotency-Key", uuid.NewString())
	admin.fails(t, "revision_conflict", "revision", change)
	change.body = `{"revision":1}`
	stored := admin.succeeds(t, http.StatusOK, change)
	if again := admin.succeeds(t, http.StatusOK, change); string(again.Body) != string(stored.Body) || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("again: %s", again.Body)
	}
	change.body = `{"revision":2}`
	admin.fails(t, "idempotency_key_reused", "Idempotency-Key", change)
}

// testKataraOneEffect: fifty requests at once with one key fetch once.
func testKataraOneEffect(t *testing.T, s *kataraSuite) {
	operator := s.agent(t, "operator")
	source := s.source(t, s.environment(t), s.web.Base())
	path, url := s.page()
	s.web.Page(path, "text/plain", "once")
	r := fetching(t, source, url)
	answers := make([]blackbox.Answer, 50)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			var err error
			if answers[i], err = operator.send(t, r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	bodies, fresh := map[string]int{}, 0
	for _, got := range answers {
		operator.check(t, r, got)
		switch v, _ := opened(got); {
		case got.Status == http.StatusOK:
			bodies[string(got.Body)]++
			if got.Header.Get("Idempotent-Replayed") == "" {
				fresh++
			}
		case v.Code != "idempotency_in_progress" || got.Header.Get("Retry-After") == "" || v.OperationID == "":
			t.Errorf("%d: %s", got.Status, got.Body)
		}
	}
	fetched := 0
	for _, seen := range s.web.Seen() {
		if seen.Target == path {
			fetched++
		}
	}
	if fetched != 1 || len(bodies) != 1 || fresh != 1 {
		t.Errorf("fetched %d times, %d answers of which %d fresh: %v", fetched, len(bodies), fresh, bodies)
	}
}

// testKataraKill kills a process in the middle of a fetch. A retry meets the dead attempt's lease, and takes over once
// that has ended.
func testKataraKill(t *testing.T, s *kataraSuite) {
	admin, org := s.newTenant(t, "katara_kill") // whose slots nobody else needs
	source := s.sourceOf(t, admin, s.environmentOf(t, admin, org), s.web.Base())
	url, arrived, release := s.hanging(t)
	process, address := launchProcess(t, "manager", s.Env(t)...)
	doomed := agent{suite: s, base: address, token: admin.token}
	r := fetching(t, source, url)
	answers := doomed.sending(t, r)
	await(t, arrived)
	process.Kill()
	for range answers {
		t.Error("the killed process answered")
	}
	release()
	v := admin.fails(t, "idempotency_in_progress", "", r)
	fetch := source + "/fetches/" + v.OperationID
	status := func() string {
		var f struct{ Status string }
		admin.succeeds(t, http.StatusOK, get(fetch)).Decode(t, &f)
		return f.Status
	}
	if got := status(); got != "running" {
		t.Errorf("the dead attempt is %s", got)
	}
	// The time until the lease ends passes at once.
	s.superuser(t, "katara_kill", "UPDATE mutation_keys SET lease_until = now() WHERE operation_id = $1", v.OperationID)
	s.superuser(t, "katara_kill", "UPDATE fetches SET lease_until = now() WHERE id = $1", v.OperationID)
	var page synced
	admin.succeeds(t, http.StatusOK, r).Decode(t, &page)
	if page.Content.Version != 1 || !page.Changed || page.FetchID == v.OperationID {
		t.Errorf("the second attempt: %+v", page)
	}
	if got := status(); got != "failed" {
		t.Errorf("the dead attempt is %s", got)
	}
	if again := admin.succeeds(t, http.StatusOK, r); again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the third request: %v", again.Header)
	}
}
