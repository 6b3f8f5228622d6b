package jobs

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
)

const fieldFilters = "filters"

func filtersScope(tenantID string, job uuid.UUID) secret.Scope {
	return secret.Scope{Tenant: tenantID, Object: job.String(), Field: fieldFilters}
}

// sealFilters puts the filters into the job as they are stored: sealed, as a JSON string. What reads them as they were
// stored before, an object, refuses a string, so that it never runs a job without its filters. nil: the job has none.
func sealFilters(keys *secret.Keyring, tenantID string, job *store.Job, filters []byte) error {
	if filters == nil {
		job.Filters, job.FiltersKeyVersion = nil, nil
		return nil
	}
	sealed, err := keys.Seal(filtersScope(tenantID, job.ID), filters)
	if err != nil {
		return fmt.Errorf("seal filters: %w", err)
	}
	return putFilters(keys, job, sealed)
}

func putFilters(keys *secret.Keyring, job *store.Job, sealed []byte) error {
	text, err := json.Marshal(sealed)
	if err != nil {
		return fmt.Errorf("encode filters: %w", err)
	}
	version := keys.CurrentVersion()
	job.Filters, job.FiltersKeyVersion = text, &version
	return nil
}

// openFilters returns the filters of a stored job as they were sent, nil for none. Errors are those of Keyring.Open.
func openFilters(keys *secret.Keyring, tenantID string, job *store.Job) ([]byte, error) {
	if job.Filters == nil || job.FiltersKeyVersion == nil {
		return job.Filters, nil
	}
	sealed, err := sealedFilters(job)
	if err != nil {
		return nil, err
	}
	filters, err := keys.Open(filtersScope(tenantID, job.ID), sealed)
	if err != nil {
		return nil, fmt.Errorf("filters of job %s: %w", job.ID, err)
	}
	return filters, nil
}

func sealedFilters(job *store.Job) ([]byte, error) {
	var sealed []byte
	if json.Unmarshal(job.Filters, &sealed) != nil {
		return nil, fmt.Errorf("filters of job %s: %w", job.ID, errors.New("what is stored is not sealed"))
	}
	return sealed, nil
}

// Reencrypt seals the filters of a tenant's job under the current key unless they are, and reports whether they were not;
// those that were stored in clear are sealed, too. It fails, with job as it was, when they can't be opened.
func Reencrypt(keys *secret.Keyring, tenantID string, job *store.Job) (changed bool, err error) {
	switch {
	case job.Filters == nil:
		return false, nil
	case job.FiltersKeyVersion == nil:
		return true, sealFilters(keys, tenantID, job, job.Filters)
	}
	sealed, err := sealedFilters(job)
	if err != nil {
		return false, err
	}
	sealed, changed, err = keys.Reseal(filtersScope(tenantID, job.ID), sealed)
	if err != nil {
		return false, fmt.Errorf("filters of job %s: %w", job.ID, err)
	}
	if !changed {
		return false, nil
	}
	return true, putFilters(keys, job, sealed)
}
