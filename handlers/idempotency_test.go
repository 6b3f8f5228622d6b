package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/testkit"
)

const (
	keyHeader = "Idempotency-Key"
	replayed  = "Idempotent-Replayed"
)

// keyed posts with a key, for the product ledger where a product is asked for.
func (s *service) keyed(t *testing.T, path, token, key, body string, headers ...string) answer {
	t.Helper()
	if headers == nil {
		headers = []string{"X-Product-Name", "ledger"}
	}
	return s.do(t, http.MethodPost, path, token, body, append([]string{keyHeader, key}, headers...)...)
}

// checkAnswer fails unless the answer has the status and, for an error, the code.
func checkAnswer(t *testing.T, got answer, status int, code string) {
	t.Helper()
	if got.status != status || code != "" && !strings.Contains(got.body, `"`+code+`"`) {
		t.Errorf("status %d, want %d %s: %s", got.status, status, code, got.body)
	}
}

func TestKeyedConnection(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	acme := s.token("acme")
	body := describe(t, somewhere(), "orders", map[string]any{"metadata": map[string]any{"a": 1.5}})
	first := s.keyed(t, connectionsPath, acme, "k", body)
	checkAnswer(t, first, 201, "")
	if first.header.Get(replayed) != "" {
		t.Error("the first answer is marked as a repetition")
	}
	again := s.keyed(t, connectionsPath, acme, "k", body, "X-Product-Name", " LEDGER ") // the same product
	checkAnswer(t, again, 201, "")
	if diff := cmp.Diff(first.body, again.body); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"Location", "ETag", "Content-Type", "Content-Length", "Cache-Control"} {
		if first.header.Get(name) != again.header.Get(name) || first.header.Get(name) == "" {
			t.Errorf("%s: %q, then %q", name, first.header.Get(name), again.header.Get(name))
		}
	}
	if again.header.Get(replayed) != "true" {
		t.Errorf("%s %q", replayed, again.header.Get(replayed))
	}

	// Whoever else or whatever else it is, the answer is another.
	checkAnswer(t, s.keyed(t, connectionsPath, acme, "k", body+" "), 422, "FET-0419")
	checkAnswer(t, s.keyed(t, connectionsPath, acme, "k", body, "X-Product-Name", "other"), 422, "FET-0419")
	checkAnswer(t, s.keyed(t, connectionsPath, acme, "K", body), 409, "FET-1002")
	bob := s.issuer.Token(testkit.Token{Tenant: "acme", Owner: "acme", Subject: "bob"})
	checkAnswer(t, s.keyed(t, connectionsPath, bob, "k", body), 409, "FET-1002")
	theirs := s.keyed(t, connectionsPath, s.token("globex"), "k", body)
	checkAnswer(t, theirs, 201, "")
	if theirs.header.Get(replayed) != "" || theirs.header.Get("Location") == first.header.Get("Location") {
		t.Errorf("another tenant was given %s", theirs.body)
	}

	// The kept answer is that of the time, whatever became of the connection.
	s.expect(t, 204, "", http.MethodDelete, first.header.Get("Location"), acme, "")
	checkAnswer(t, s.keyed(t, connectionsPath, acme, "k", body), 201, "")
	execAs(t, s.dsn["acme"], "UPDATE idempotency_records SET expires_at = now()") // 24 hours later
	late := s.keyed(t, connectionsPath, acme, "k", body)
	checkAnswer(t, late, 201, "")
	if late.header.Get(replayed) != "" || late.header.Get("Location") == first.header.Get("Location") {
		t.Errorf("an expired key was given %s", late.body)
	}
	if strings.Contains(s.logs.String(), "canary-secret") {
		t.Error("the log tells the password")
	}
}

func TestFailuresFreeTheKey(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	acme := s.token("acme")
	for _, tc := range []struct {
		body, code string
		status     int
		headers    []string
	}{
		{`{`, "FET-0001", 400, nil},
		{describe(t, somewhere(), "x", nil), "FET-0001", 400, nil},
		{describe(t, somewhere(), "orders", map[string]any{"port": nil}), "FET-0402", 400, nil},
		{describe(t, somewhere(), "orders", map[string]any{"host": "169.254.169.254"}), "FET-0414", 400, nil},
		{describe(t, somewhere(), "orders", nil), "FET-0403", 400, []string{"X-Product-Name", "a b"}},
		{describe(t, somewhere(), "orders", nil), "", 201, nil},
	} {
		checkAnswer(t, s.keyed(t, connectionsPath, acme, "k", tc.body, tc.headers...), tc.status, tc.code)
	}
	if left := s.count(t, "acme", "SELECT count(*) FROM idempotency_records"); left != 1 {
		t.Errorf("%d records are left", left)
	}
}

func (s *service) count(t *testing.T, tenantID, query string) (n int) {
	t.Helper()
	must(t, s.lease(t, tenantID).DB(t.Context()).Raw(query).Scan(&n).Error)
	return n
}

func TestMalformedKeys(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	body := describe(t, somewhere(), "orders", nil)
	for name, headers := range map[string][]string{
		"empty":        {keyHeader, ""},
		"blank":        {keyHeader, "  "},
		"inner blank":  {keyHeader, "a b"},
		"beyond ASCII": {keyHeader, "é"},
		"too long":     {keyHeader, strings.Repeat("k", 256)},
		"two lines":    {keyHeader, "k", keyHeader, "k"},
	} {
		for _, path := range []string{connectionsPath, "/v1/fetcher"} {
			p := s.expect(t, 400, "FET-0403", http.MethodPost, path, s.token("acme"), body, append(headers, "X-Product-Name", "p")...).problem(t)
			if len(p.Errors) != 1 || p.Errors[0].Location != "header.Idempotency-Key" {
				t.Errorf("%s: errors %+v", name, p.Errors)
			}
		}
	}
	// Operations that don't heed it don't look at it.
	s.expect(t, 200, "", http.MethodGet, connectionsPath, s.token("acme"), "", keyHeader, "a b")
	checkAnswer(t, s.keyed(t, connectionsPath, s.token("acme"), " "+strings.Repeat("~", 255)+" ", body), 201, "")
}

// TestKeyRace sends one request fifty times at once.
func TestKeyRace(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	acme := s.token("acme")
	body := describe(t, somewhere(), "orders", nil)
	var made, conflicts atomic.Int32
	var locations sync.Map
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
				got := s.keyed(t, connectionsPath, acme, "k", body)
				if got.status == http.StatusConflict {
					conflicts.Add(1)
					if got.problem(t).Code != "FET-0004" || got.header.Get("Retry-After") != "1" {
						t.Errorf("Retry-After %q: %s", got.header.Get("Retry-After"), got.body)
					}
					continue
				}
				checkAnswer(t, got, 201, "")
				if got.header.Get(replayed) == "" {
					made.Add(1)
				}
				locations.Store(got.header.Get("Location")+got.body, true)
				return
			}
			t.Error("no answer in time")
		})
	}
	wg.Wait()
	different := 0
	locations.Range(func(any, any) bool { different++; return true })
	if made.Load() != 1 || different != 1 {
		t.Errorf("%d were made, %d different answers, %d conflicts", made.Load(), different, conflicts.Load())
	}
	if n := s.count(t, "acme", "SELECT count(*) FROM connections"); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestCrashedAttempt holds that an attempt which was never heard of again keeps the key until its lease ends.
func TestCrashedAttempt(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	acme := s.token("acme")
	body := describe(t, somewhere(), "orders", nil)
	checkAnswer(t, s.keyed(t, connectionsPath, acme, "k", body), 201, "")
	// As if the process had died between claiming the key and storing anything.
	execAs(t, s.dsn["acme"], "DELETE FROM connections",
		"UPDATE idempotency_records SET status = NULL, body = NULL, lease_until = now() + interval '20 seconds'")
	checkAnswer(t, s.keyed(t, connectionsPath, acme, "k", body), 409, "FET-0004")
	checkAnswer(t, s.keyed(t, connectionsPath, acme, "k", body+" "), 422, "FET-0419")
	execAs(t, s.dsn["acme"], "UPDATE idempotency_records SET lease_until = now()")
	got := s.keyed(t, connectionsPath, acme, "k", body)
	checkAnswer(t, got, 201, "")
	if got.header.Get(replayed) != "" {
		t.Error("there was nothing to repeat")
	}
	checkAnswer(t, s.keyed(t, connectionsPath, acme, "k", body), 201, "")
}

func TestKeyedJob(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	acme := s.token("acme")
	s.create(t, "acme", describe(t, external(t), "orders", nil))
	request := func(n int) string {
		return fmt.Sprintf(`{"metadata":{"source":"ledger","n":%d},"dataRequest":{"mappedFields":{"orders":{"Order":["id"]}}}}`, n)
	}
	first := s.keyed(t, "/v1/fetcher", acme, "k", request(1))
	checkAnswer(t, first, 202, "")
	again := s.keyed(t, "/v1/fetcher", acme, "k", request(1), "X-Product-Name", "! not read here")
	checkAnswer(t, again, 202, "") // not 200: the key comes before the search for duplicates
	if first.body != again.body || first.header.Get("Location") != again.header.Get("Location") || again.header.Get(replayed) != "true" {
		t.Errorf("%s, then %s %v", first.body, again.body, again.header)
	}
	checkAnswer(t, s.keyed(t, "/v1/fetcher", acme, "k", request(2)), 422, "FET-0419")
	duplicate := s.keyed(t, "/v1/fetcher", acme, "other", request(1))
	checkAnswer(t, duplicate, 200, "")
	repeated := s.keyed(t, "/v1/fetcher", acme, "other", request(1))
	checkAnswer(t, repeated, 200, "")
	if duplicate.body != repeated.body || duplicate.header.Get(replayed) != "" || repeated.header.Get(replayed) != "true" {
		t.Errorf("%s, then %s", duplicate.body, repeated.body)
	}
	// The key outlives the search for duplicates.
	execAs(t, s.dsn["acme"], "UPDATE jobs SET request_hash = id::text")
	checkAnswer(t, s.keyed(t, "/v1/fetcher", acme, "k", request(1)), 202, "")
	if n := s.count(t, "acme", "SELECT count(*) FROM jobs"); n != 1 {
		t.Errorf("%d jobs", n)
	}
	checkAnswer(t, s.keyed(t, "/v1/fetcher", acme, "failing", strings.Replace(request(3), "orders", "nope", 1)), 400, "FET-1020")
	checkAnswer(t, s.keyed(t, "/v1/fetcher", acme, "failing", request(3)), 202, "")
	// The same key means something else for connections.
	checkAnswer(t, s.keyed(t, connectionsPath, acme, "k", describe(t, somewhere(), "second", nil)), 201, "")

	// A job is in the way of a change of what it reads, and of nothing else.
	var connection string
	must(t, s.lease(t, "acme").DB(t.Context()).Raw("SELECT id FROM connections WHERE config_name = 'orders'").Scan(&connection).Error)
	s.expect(t, 409, "FET-1021", http.MethodPatch, connectionsPath+"/"+connection, acme, `{"port":1}`)
	s.expect(t, 409, "FET-1021", http.MethodDelete, connectionsPath+"/"+connection, acme, "")
}

// TestJobKeyRace sends one job request fifty times at once, with one key.
func TestJobKeyRace(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	acme := s.token("acme")
	s.create(t, "acme", describe(t, external(t), "orders", nil))
	const body = `{"metadata":{"source":"ledger"},"dataRequest":{"mappedFields":{"orders":{"Order":["id"]}}}}`
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			switch got := s.keyed(t, "/v1/fetcher", acme, "k", body); {
			case got.status == http.StatusAccepted && got.header.Get(replayed) == "":
				made.Add(1)
			case got.status == http.StatusConflict && got.problem(t).Code == "FET-0004":
			default:
				checkAnswer(t, got, 202, "")
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("%d were made", made.Load())
	}
	if n := s.count(t, "acme", "SELECT count(*) FROM jobs"); n != 1 {
		t.Errorf("%d jobs", n)
	}
}
