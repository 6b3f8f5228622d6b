package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/store"
)

func TestRelocateChangesThePortOnly(t *testing.T) {
	t.Parallel()
	s := store.NewConnections(newDB(t))
	moved, other := newConnection("moved"), newConnection("other")
	for _, c := range []*store.Connection{moved, other} {
		if err := s.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Relocate(t.Context(), moved.ID, 6543); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(t.Context(), moved.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !got.UpdatedAt.After(moved.UpdatedAt) {
		t.Errorf("updated %v, created %v", got.UpdatedAt, moved.CreatedAt)
	}
	want := *moved
	want.Port, want.Revision, want.UpdatedAt = 6543, 2, got.UpdatedAt
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
	if got, err = s.Get(t.Context(), other.ID); err != nil || cmp.Diff(other, got) != "" {
		t.Errorf("the other connection changed: %s, %v", cmp.Diff(other, got), err)
	}
}
