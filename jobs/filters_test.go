package jobs_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
)

const filtered = `{"src": {"small": {"id": {"eq": [1]}}}}`

// row is a job's row.
func (p *plant) row(id uuid.UUID) (job *store.Job) {
	p.t.Helper()
	if err := p.rows(func(rows store.Jobs) (err error) {
		job, err = rows.Get(p.t.Context(), id)
		return err
	}); err != nil {
		p.t.Fatal(err)
	}
	return job
}

// What a job asks for is sealed where it is stored, and answered and run as it was sent.
func TestFiltersAreSealed(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	id := p.submit(request(t, filtered, "small"))
	job := p.row(id)
	if bytes.Contains(job.Filters, []byte("small")) || job.Filters[0] != '"' || *job.FiltersKeyVersion != 1 {
		t.Errorf("stored as %s, %v", job.Filters, job.FiltersKeyVersion)
	}
	got, err := p.service.Filters("acme", job)
	if diff := cmp.Diff(filtered, string(got)); err != nil || diff != "" {
		t.Errorf("filters %v (-want +got):\n%s", err, diff)
	}
	foreign := *job
	foreign.ID = uuid.New()
	if _, err = p.service.Filters("acme", &foreign); !errors.Is(err, secret.ErrTampered) {
		t.Errorf("another job's: %v", err)
	}
	if _, err = p.service.Filters("globex", job); !errors.Is(err, secret.ErrTampered) {
		t.Errorf("another tenant's: %v", err)
	}
	p.worker()
	if done := p.await(id, terminal); done.Status != store.JobCompleted || *done.ResultRowCount != 1 {
		t.Errorf("the job: %+v", done)
	}
}

// Jobs that were stored with their filters in clear run with them.
func TestFiltersInClear(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	id := p.submit(request(t, filtered, "small"))
	p.clear(id, filtered)
	if got, err := p.service.Filters("acme", p.row(id)); err != nil || string(got) != filtered {
		t.Errorf("filters %s, %v", got, err)
	}
	p.worker()
	if done := p.await(id, terminal); done.Status != store.JobCompleted || *done.ResultRowCount != 1 {
		t.Errorf("the job: %+v", done)
	}
}

// A reader that knows nothing of sealed filters refuses the job instead of running it without them.
func TestSealedFiltersAreNoneInClear(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	id := p.submit(request(t, filtered, "small"))
	p.clear(id, string(p.row(id).Filters))
	p.worker(func(o *jobs.WorkerOptions) { o.MaxAttempts = 1 })
	if done := p.await(id, terminal); done.Status != store.JobFailed {
		t.Errorf("the job: %+v", done)
	}
}

// clear stores these filters as they stood before filters were sealed.
func (p *plant) clear(id uuid.UUID, filters string) {
	p.t.Helper()
	l := p.lease()
	defer l.Release()
	if err := l.DB(p.t.Context()).Exec("UPDATE jobs SET filters = ?, filters_key_version = NULL WHERE id = ?", filters, id).Error; err != nil {
		p.t.Fatal(err)
	}
}

func TestReencryptFilters(t *testing.T) {
	t.Parallel()
	ring := func(versions ...int) *secret.Keyring {
		keys := make([]secret.Key, 0, len(versions))
		for _, v := range versions {
			keys = append(keys, secret.Key{Version: v, Bytes: bytes.Repeat([]byte{byte(v)}, 32)})
		}
		return must(secret.NewKeyring(keys[0], keys[1:]...))
	}
	job := &store.Job{ID: uuid.New(), Filters: []byte(filtered)}
	for _, tt := range []struct {
		keys    *secret.Keyring
		changed bool
		err     error
		version int
	}{
		{ring(1), true, nil, 1},                   // from clear
		{ring(1), false, nil, 1},                  // nothing to do
		{ring(2), false, secret.ErrUnknownKey, 1}, // the old key is missing
		{ring(2, 1), true, nil, 2},                // to the next key
		{ring(3, 1), false, secret.ErrUnknownKey, 2},
	} {
		before := slices.Clone(job.Filters)
		changed, err := jobs.Reencrypt(tt.keys, "acme", job)
		if changed != tt.changed || !errors.Is(err, tt.err) || *job.FiltersKeyVersion != tt.version {
			t.Errorf("%v: %v, %v, version %d", tt.keys, changed, err, *job.FiltersKeyVersion)
		}
		if changed == bytes.Equal(before, job.Filters) {
			t.Errorf("%v: from %s to %s", tt.keys, before, job.Filters)
		}
	}
	if changed, err := jobs.Reencrypt(ring(2), "acme", &store.Job{}); changed || err != nil {
		t.Errorf("without filters: %v, %v", changed, err)
	}
	version := 1
	for _, text := range []string{`{}`, `"?"`, `"AAAA"`} {
		if changed, err := jobs.Reencrypt(ring(2, 1), "acme", &store.Job{Filters: []byte(text), FiltersKeyVersion: &version}); changed || err == nil {
			t.Errorf("%s: %v, %v", text, changed, err)
		}
	}
}
