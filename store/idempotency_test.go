package store_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

func TestIdempotencyRecord(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	s := store.NewIdempotency(db)
	ctx := t.Context()
	scope, mine, theirs := []byte("scope"), uuid.New(), uuid.New()
	open := func(token uuid.UUID, fingerprint string) *store.IdempotencyRecord {
		t.Helper()
		record, err := s.Open(ctx, scope, token, []byte(fingerprint), time.Minute, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return record
	}
	takeOver := func(found *store.IdempotencyRecord, want bool) {
		t.Helper()
		got, err := s.TakeOver(ctx, found, theirs, []byte("g"), time.Minute, time.Hour)
		if err != nil || got != want {
			t.Fatalf("taken over: %t, want %t, %v", got, want, err)
		}
	}
	exec := func(set string) {
		t.Helper()
		if err := db.Exec("UPDATE idempotency_records SET " + set).Error; err != nil {
			t.Fatal(err)
		}
	}
	same := func(want, got *store.IdempotencyRecord) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	if open(mine, "f") != nil {
		t.Fatal("there is a record in an empty table")
	}
	running := &store.IdempotencyRecord{Scope: scope, Token: mine, Fingerprint: []byte("f")}
	same(running, open(theirs, "g"))
	takeOver(running, false)

	exec("lease_until = now()")
	lapsed := &store.IdempotencyRecord{Scope: scope, Token: mine, Fingerprint: []byte("f"), Lapsed: true}
	same(lapsed, open(theirs, "g"))
	takeOver(lapsed, true)
	takeOver(lapsed, false) // it is no longer as it was found
	answer := store.Answer{Status: 201, Location: "/l", ETag: `"1"`, Body: []byte("{}\n")}
	if err := s.Finish(ctx, scope, mine, answer); !errors.Is(err, store.ErrClaimTaken) {
		t.Fatalf("the one that lost it: %v", err)
	}
	if err := s.Release(ctx, scope, mine); err != nil {
		t.Fatal(err)
	}
	same(&store.IdempotencyRecord{Scope: scope, Token: theirs, Fingerprint: []byte("g")}, open(mine, "f"))
	if err := s.Finish(ctx, scope, theirs, answer); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(ctx, scope, theirs, answer); !errors.Is(err, store.ErrClaimTaken) {
		t.Fatalf("twice: %v", err)
	}
	if err := s.Release(ctx, scope, theirs); err != nil {
		t.Fatal(err)
	}
	exec("lease_until = now() - interval '1 hour'")
	finished := &store.IdempotencyRecord{Scope: scope, Token: theirs, Fingerprint: []byte("g"), Answer: &answer}
	same(finished, open(mine, "f"))
	takeOver(finished, false)

	exec("expires_at = now()")
	expired := *finished
	expired.Expired = true
	same(&expired, open(mine, "f"))
	takeOver(&expired, true)
	same(&store.IdempotencyRecord{Scope: scope, Token: theirs, Fingerprint: []byte("g")}, open(mine, "f"))
	if err := s.Release(ctx, scope, theirs); err != nil {
		t.Fatal(err)
	}
	if open(mine, "f") != nil {
		t.Fatal("a released key is not free")
	}
}

func TestOneOfManyOpensARecord(t *testing.T) {
	t.Parallel()
	s := store.NewIdempotency(newDB(t))
	var opened atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			record, err := s.Open(t.Context(), []byte("scope"), uuid.New(), []byte("f"), time.Minute, time.Hour)
			if err != nil {
				t.Error(err)
			} else if record == nil {
				opened.Add(1)
			}
		})
	}
	wg.Wait()
	if opened.Load() != 1 {
		t.Errorf("%d opened it", opened.Load())
	}
}

func TestExpiredRecordsAreForgotten(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	s := store.NewIdempotency(db)
	count := func() (n int) {
		t.Helper()
		if err := db.Raw("SELECT count(*) FROM idempotency_records").Scan(&n).Error; err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := range 25 {
		if _, err := s.Open(t.Context(), fmt.Append(nil, i), uuid.New(), nil, time.Minute, time.Hour); err == nil {
			t.Fatal("a record without a fingerprint")
		}
		if _, err := s.Open(t.Context(), fmt.Append(nil, i), uuid.New(), []byte("f"), time.Minute, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Exec("UPDATE idempotency_records SET expires_at = now()").Error; err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{16, 7, 3} {
		if _, err := s.Open(t.Context(), fmt.Append(nil, "new", i), uuid.New(), []byte("f"), time.Minute, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := count(); got != want {
			t.Errorf("%d records are left, want %d", got, want)
		}
	}
}

// TestAnswerAndConnectionAreOne holds that neither is stored without the other.
func TestAnswerAndConnectionAreOne(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	s := store.NewIdempotency(db)
	token := uuid.New()
	if _, err := s.Open(t.Context(), []byte("scope"), token, []byte("f"), time.Minute, time.Hour); err != nil {
		t.Fatal(err)
	}
	finish := func(token uuid.UUID) store.Connections {
		return store.NewConnections(db).Then(func(rows store.Idempotency, c *store.Connection) error {
			return rows.Finish(t.Context(), []byte("scope"), token, store.Answer{Status: 201, Body: []byte(c.ConfigName)})
		})
	}
	if err := finish(uuid.New()).Create(t.Context(), newConnection("lost")); !errors.Is(err, store.ErrClaimTaken) {
		t.Fatalf("an attempt that lost its key: %v", err)
	}
	if found, err := store.NewConnections(db).ByNames(t.Context(), []string{"lost"}); err != nil || len(found) != 0 {
		t.Fatalf("it stored %v, %v", found, err)
	}
	create(t, store.NewConnections(db), newConnection("taken"))
	if err := finish(token).Create(t.Context(), newConnection("taken")); problem.CodeOf(err) != problem.NameTaken {
		t.Fatalf("a name that is taken: %v", err)
	}
	create(t, finish(token), newConnection("kept"))
	record, err := s.Open(t.Context(), []byte("scope"), uuid.New(), []byte("f"), time.Minute, time.Hour)
	if err != nil || record == nil || record.Answer == nil || string(record.Answer.Body) != "kept" {
		t.Errorf("%+v, %v", record, err)
	}
}
