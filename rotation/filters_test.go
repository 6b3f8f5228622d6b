package rotation_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/rotation"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

const filters = `{"a":{"t":{"f":{"eq":["x"]}}}}`

// asked stores jobs with filters as they stood in clear, sealed under keys if there are any.
func (x *process) asked(t *testing.T, n int, keys *secret.Keyring) (ids []uuid.UUID) {
	t.Helper()
	ctx := t.Context()
	l := x.lease(t)
	defer l.Release()
	for range n {
		job := &store.Job{
			ID: uuid.Must(uuid.NewV7()), RequestHash: uuid.NewString(), Metadata: []byte(`{}`), MappedFields: []byte(`{}`), Filters: []byte(filters), Source: "ledger",
		}
		if keys != nil {
			must(jobs.Reencrypt(keys, acme, job))
		}
		if _, err := store.NewJobs(l.DB(ctx)).CreateOnce(ctx, job, 0, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, job.ID)
	}
	return ids
}

// Filters in clear and under the old key are under the new one after a rotation, page by page.
func TestRotateFilters(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	row := control.Tenant{ID: acme, DSNSealed: must(tenant.SealDSN(ring(2, 1), acme, testkit.Postgres(t).NewDatabase(t)))}
	if err := p.control.CreateTenant(t.Context(), &row); err != nil {
		t.Fatal(err)
	}
	nobody := func(context.Context) ([]string, error) { return []string{acme}, nil }
	during := p.with(ring(2, 1))
	must(p.with(ring(1, 2)).rotator.Missing(t.Context(), nobody))
	ids := during.asked(t, 101, nil)
	ids = append(ids, during.asked(t, 3, ring(1))...)
	ids = append(ids, during.asked(t, 2, ring(2))...)
	want := []rotation.Unreadable{{Version: 1, Filters: 3}}
	if diff := cmp.Diff(want, must(p.with(ring(2)).rotator.Missing(t.Context(), nobody))); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	if got := must(during.rotator.Tenant(t.Context(), acme)); got != (rotation.Counts{Filters: 104}) {
		t.Errorf("rotated %+v", got)
	}
	if got := must(during.rotator.Tenant(t.Context(), acme)); got != (rotation.Counts{}) {
		t.Errorf("a second time: %+v", got)
	}
	l := during.lease(t)
	defer l.Release()
	for _, id := range ids {
		job := must(store.NewJobs(l.DB(t.Context())).Get(t.Context(), id))
		if changed, err := jobs.Reencrypt(ring(2), acme, job); changed || err != nil || job.Filters[0] != '"' {
			t.Errorf("job %s: %s, %v", id, job.Filters, err)
		}
		if changed, err := jobs.Reencrypt(ring(3, 2), acme, job); !changed || err != nil { // they open under the new key
			t.Errorf("job %s: %v", id, err)
		}
	}
}
