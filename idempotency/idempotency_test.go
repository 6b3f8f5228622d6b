package idempotency_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"

	"github.com/fetcherhq/fetcher/idempotency"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newDB(t *testing.T) *gorm.DB {
	t.Helper()
	cfg, err := pgx.ParseConfig(testkit.Postgres(t).NewDatabase(t))
	must(t, err)
	db := stdlib.OpenDB(*cfg)
	t.Cleanup(func() { must(t, db.Close()) })
	must(t, store.Migrate(t.Context(), db))
	g, err := store.Open(db)
	must(t, err)
	return g
}

func newService(t *testing.T) *idempotency.Service {
	t.Helper()
	key, err := secret.ParseKey(1, secret.GenerateKey())
	must(t, err)
	keys, err := secret.NewKeyring(key)
	must(t, err)
	s, err := idempotency.New(keys)
	must(t, err)
	return s
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lines []string
		want  string
		ok    bool
	}{
		"none":              {nil, "", true},
		"one":               {[]string{"k"}, "k", true},
		"every character":   {[]string{`!"#~aZ09,;`}, `!"#~aZ09,;`, true},
		"longest":           {[]string{strings.Repeat("k", 255)}, strings.Repeat("k", 255), true},
		"empty":             {[]string{""}, "", false},
		"two lines":         {[]string{"k", "k"}, "", false},
		"two empty lines":   {[]string{"", ""}, "", false},
		"too long":          {[]string{strings.Repeat("k", 256)}, "", false},
		"blank inside":      {[]string{"a b"}, "", false},
		"tab":               {[]string{"a\tb"}, "", false},
		"delete":            {[]string{"a\x7f"}, "", false},
		"beyond ASCII":      {[]string{"é"}, "", false},
		"not even a letter": {[]string{"\xff"}, "", false},
	} {
		got, err := idempotency.ParseKey(tc.lines)
		if got != tc.want || tc.ok != (err == nil) || err != nil && problem.CodeOf(err) != problem.HeaderInvalid {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func request(change func(*idempotency.Request)) idempotency.Request {
	r := idempotency.Request{
		Tenant: "acme", Subject: "acme/ann", Operation: "create-connection", Key: "k", Content: [][]byte{[]byte("ledger"), []byte("{}")},
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestBegin(t *testing.T) {
	t.Parallel()
	s, db := newService(t), newDB(t)
	rows := store.NewIdempotency(db)
	begin := func(r idempotency.Request) (*idempotency.Claim, *store.Answer, problem.Code) {
		t.Helper()
		claim, answer, err := s.Begin(t.Context(), rows, r)
		if err == nil {
			return claim, answer, ""
		}
		p, ok := errors.AsType[*problem.Error](err)
		if !ok {
			t.Fatal(err)
		}
		if (p.Code == problem.Conflict) != (p.RetryAfter > 0) {
			t.Errorf("%s with retry after %v", p.Code, p.RetryAfter)
		}
		return nil, nil, p.Code
	}
	exec := func(statement string) {
		t.Helper()
		must(t, db.Exec(statement).Error)
	}
	first, _, _ := begin(request(nil))
	if first == nil {
		t.Fatal("the first attempt has no claim")
	}
	if _, _, code := begin(request(nil)); code != problem.Conflict {
		t.Errorf("while it runs: %q", code)
	}
	otherBody := request(func(r *idempotency.Request) { r.Content[1] = []byte("{ }") })
	shifted := request(func(r *idempotency.Request) { r.Content = [][]byte{[]byte("ledger{"), []byte("}")} })
	for _, r := range []idempotency.Request{otherBody, shifted} {
		if _, _, code := begin(r); code != problem.IdempotencyKeyReused {
			t.Errorf("another request: %q", code)
		}
	}
	for name, r := range map[string]idempotency.Request{
		"subject":   request(func(r *idempotency.Request) { r.Subject = "acme/bob" }),
		"operation": request(func(r *idempotency.Request) { r.Operation = "create-fetcher-job" }),
		"key":       request(func(r *idempotency.Request) { r.Key = "K" }),
		"shifted":   request(func(r *idempotency.Request) { r.Subject, r.Operation = "acme/annc", "reate-connection" }),
	} {
		if claim, _, code := begin(r); claim == nil {
			t.Errorf("another %s: %q", name, code)
		}
	}

	exec("UPDATE idempotency_records SET lease_until = now()") // as if it had crashed
	if _, _, code := begin(otherBody); code != problem.IdempotencyKeyReused {
		t.Errorf("another request after a crash: %q", code)
	}
	second, _, _ := begin(request(nil))
	if second == nil {
		t.Fatal("no claim after a crash")
	}
	want := &store.Answer{Status: 201, Location: "/x", ETag: `"1"`, Body: []byte("{}\n")}
	if err := first.Record(t.Context(), rows, *want); problem.CodeOf(err) != problem.Conflict {
		t.Errorf("the crashed one records: %v", err)
	}
	must(t, first.Release(t.Context())) // must not free what it lost
	must(t, second.Record(t.Context(), rows, *want))
	must(t, second.Release(t.Context()))
	_, answer, _ := begin(request(nil))
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Error(diff)
	}
	if _, _, code := begin(otherBody); code != problem.IdempotencyKeyReused {
		t.Errorf("another request after the answer: %q", code)
	}

	exec("UPDATE idempotency_records SET expires_at = now()") // 24 hours later
	third, _, _ := begin(otherBody)
	if third == nil {
		t.Fatal("an expired key is not free")
	}
	must(t, third.Release(t.Context()))
	if claim, _, code := begin(request(nil)); claim == nil {
		t.Errorf("a released key is not free: %q", code)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	s, db := newService(t), newDB(t)
	_, _, err := s.Begin(t.Context(), store.NewIdempotency(db), request(nil))
	must(t, err)
	var got struct{ Lease, Keep float64 }
	must(t, db.Raw(`SELECT extract(epoch FROM lease_until - now())::float8 AS lease,
		extract(epoch FROM expires_at - now())::float8 AS keep FROM idempotency_records`).Scan(&got).Error)
	if got.Lease < 25 || got.Lease > 30 || got.Keep < 24*3600-5 || got.Keep > 24*3600 {
		t.Errorf("lease %v s, kept %v s", got.Lease, got.Keep)
	}
}

// TestRecordTellsNothing holds that a database alone does not suffice to guess at a body, and that a record is of no use
// to another tenant or under another key.
func TestRecordTellsNothing(t *testing.T) {
	t.Parallel()
	s, db := newService(t), newDB(t)
	rows := store.NewIdempotency(db)
	_, _, err := s.Begin(t.Context(), rows, request(nil))
	must(t, err)
	_, _, err = s.Begin(t.Context(), rows, request(func(r *idempotency.Request) { r.Key = "l" }))
	must(t, err)
	var prints [][]byte
	must(t, db.Raw("SELECT fingerprint FROM idempotency_records").Scan(&prints).Error)
	if len(prints) != 2 || cmp.Equal(prints[0], prints[1]) {
		t.Error("equal requests have equal fingerprints")
	}
	for name, err := range map[string]error{
		"another tenant": func() error {
			_, _, err := s.Begin(t.Context(), rows, request(func(r *idempotency.Request) { r.Tenant = "globex" }))
			return err
		}(),
		"another ring": func() error {
			_, _, err := newService(t).Begin(t.Context(), rows, request(nil))
			return err
		}(),
	} {
		if err == nil || problem.CodeOf(err) != problem.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewNeedsKeys(t *testing.T) {
	t.Parallel()
	if _, err := idempotency.New(nil); err == nil {
		t.Error("a service without keys")
	}
}

func TestReleaseWorksForAClientThatLeft(t *testing.T) {
	t.Parallel()
	s, db := newService(t), newDB(t)
	rows := store.NewIdempotency(db)
	claim, _, err := s.Begin(t.Context(), rows, request(nil))
	must(t, err)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	start := time.Now()
	must(t, claim.Release(ctx))
	if claim, _, err = s.Begin(t.Context(), rows, request(nil)); claim == nil || err != nil || time.Since(start) > 30*time.Second {
		t.Errorf("the key is not free: %v", err)
	}
}

func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{"", "k", " k", "a b", "\x00", "\x7f", "é", strings.Repeat("k", 256)} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, line string, twice bool) {
		lines := []string{line}
		if twice {
			lines = append(lines, line)
		}
		key, err := idempotency.ParseKey(lines)
		switch {
		case err != nil && (key != "" || problem.CodeOf(err) != problem.HeaderInvalid):
			t.Errorf("%q: %q, %v", lines, key, err)
		case err == nil && (twice || key != line || len(key) < 1 || len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' })):
			t.Errorf("%q is the key %q", lines, key)
		}
	})
}
