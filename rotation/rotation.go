// Package rotation owns the change from one master key to the next: it seals everything that is stored anew, under the
// current key of the ring, and tells what can't be read when a key is missing.
//
// It touches the registry, every tenant's database and the bucket, each through the package that owns it. It promises
// that stopping it at any moment loses nothing and that running it again does what is left; that it stands no change by
// others in the way, and overwrites none; and that it forgets a version only when nothing is sealed under it any more.
package rotation

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/events"
	"github.com/fetcherhq/fetcher/idempotency"
	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// Rotator seals anew. All members but Content are required.
type Rotator struct {
	Control *control.DB
	Tenants interface {
		AcquireSuspended(ctx context.Context, tenantID string) (*tenant.Lease, error)
	}
	Keys    *secret.Keyring
	Store   *results.Store
	Content *results.Store // of web documents; nil: there are none

	SingleTenant bool // object keys without the tenant
}

// Counts is how much was sealed anew.
type Counts struct {
	Registry     int `json:"registry"` // addresses and webhooks
	Connections  int `json:"connections"`
	Fingerprints int `json:"fingerprints"` // of requests with an Idempotency-Key
	Filters      int `json:"filters"`      // of jobs
	Results      int `json:"results"`
	Contents     int `json:"contents"` // of web documents
}

const (
	batch = 100
	tries = 100 // of one value that others keep changing
)

// errChanging says that a value was changed by others time and again.
var errChanging = errors.New("it keeps being changed")

// Registry seals what the control database keeps of tenants.
func (r *Rotator) Registry(ctx context.Context) (c Counts, err error) {
	for kind, reseal := range map[string]func(*secret.Keyring, string, []byte) ([]byte, bool, error){
		control.SealedDSNs: tenant.ReencryptDSN, control.SealedWebhooks: events.ReencryptWebhook,
	} {
		n, failed := r.registry(ctx, kind, reseal)
		c.Registry += n
		err = errors.Join(err, failed)
	}
	return c, err
}

func (r *Rotator) registry(ctx context.Context, kind string, reseal func(*secret.Keyring, string, []byte) ([]byte, bool, error)) (n int, err error) {
	for range tries {
		rows, failed := r.Control.SealedRows(ctx, kind)
		if failed != nil {
			return n, failed
		}
		err = nil
		lost := false
		for _, row := range rows {
			again, changed, failed := reseal(r.Keys, row.TenantID, row.Sealed)
			if failed != nil {
				err = errors.Join(err, fmt.Errorf("%s of tenant %s: %w", kind, row.TenantID, failed))
				continue
			}
			if !changed {
				continue
			}
			replaced, failed := r.Control.ReplaceSealed(ctx, kind, row, again)
			if failed != nil {
				return n, failed
			}
			if replaced {
				n++
			}
			lost = lost || !replaced
		}
		if !lost {
			return n, err
		}
	}
	return n, errors.Join(err, errChanging)
}

// Tenant seals what a tenant's database and bucket hold. What can't be sealed anew is named in the error; the rest is.
func (r *Rotator) Tenant(ctx context.Context, id string) (c Counts, err error) {
	var failed error
	c.Connections, err = r.connections(ctx, id)
	c.Fingerprints, failed = r.fingerprints(ctx, id)
	err = errors.Join(err, failed)
	c.Filters, failed = r.filters(ctx, id)
	err = errors.Join(err, failed)
	c.Results, failed = r.results(ctx, id)
	err = errors.Join(err, failed)
	c.Contents, failed = r.contents(ctx, id)
	return c, errors.Join(err, failed)
}

// with runs fn under a lease that is held no longer than that.
func (r *Rotator) with(ctx context.Context, id string, fn func(store.Sealed, store.Retention) error) error {
	lease, err := r.Tenants.AcquireSuspended(ctx, id)
	if err != nil {
		return err
	}
	defer lease.Release()
	return fn(store.NewSealed(lease.DB(ctx)), store.NewRetention(lease.DB(ctx)))
}

func (r *Rotator) connections(ctx context.Context, id string) (n int, err error) {
	var after uuid.UUID
	changing := 0
	for {
		var page []store.Connection
		if failed := r.with(ctx, id, func(rows store.Sealed, _ store.Retention) (failed error) {
			page, failed = rows.Connections(ctx, after, batch)
			return failed
		}); failed != nil {
			return n, errors.Join(err, failed)
		}
		if len(page) == 0 {
			return n, err
		}
		for i := range page {
			changed, failed := connections.Reencrypt(r.Keys, id, &page[i])
			replaced := false
			if failed == nil && changed {
				failed = r.with(ctx, id, func(rows store.Sealed, _ store.Retention) (failed error) {
					replaced, failed = rows.ReplaceSecrets(ctx, &page[i])
					return failed
				})
			}
			if failed == nil && changed && !replaced {
				if changing++; changing < tries { // look at it again
					break
				}
				failed = errChanging
			}
			if replaced {
				n++
			}
			err, changing, after = errors.Join(err, failed), 0, page[i].ID
		}
	}
}

func (r *Rotator) fingerprints(ctx context.Context, id string) (n int, err error) {
	after := []byte{}
	for {
		var page []store.Fingerprint
		failed := r.with(ctx, id, func(rows store.Sealed, _ store.Retention) (failed error) {
			if page, failed = rows.Fingerprints(ctx, after, batch); failed != nil {
				return failed
			}
			for _, f := range page {
				sealed, changed, failed := idempotency.Reencrypt(r.Keys, id, f.Scope, f.Fingerprint)
				replaced := false
				if failed == nil && changed { // one that has changed is of a new request, under the current key
					replaced, failed = rows.ReplaceFingerprint(ctx, f, sealed)
				}
				if replaced {
					n++
				}
				err, after = errors.Join(err, failed), f.Scope
			}
			return nil
		})
		if failed != nil || len(page) == 0 {
			return n, errors.Join(err, failed)
		}
	}
}

// filters never change but here, and nobody reads them while this waits for anything.
func (r *Rotator) filters(ctx context.Context, id string) (n int, err error) {
	var after uuid.UUID
	for {
		var page []store.Job
		failed := r.with(ctx, id, func(rows store.Sealed, _ store.Retention) (failed error) {
			if page, failed = rows.Filters(ctx, r.Keys.CurrentVersion(), after, batch); failed != nil {
				return failed
			}
			for i := range page {
				changed, failed := jobs.Reencrypt(r.Keys, id, &page[i])
				replaced := false
				if failed == nil && changed {
					replaced, failed = rows.ReplaceFilters(ctx, &page[i])
				}
				if replaced {
					n++
				}
				err, after = errors.Join(err, failed), page[i].ID
			}
			return nil
		})
		if failed != nil || len(page) == 0 {
			return n, errors.Join(err, failed)
		}
	}
}

func (r *Rotator) results(ctx context.Context, id string) (n int, err error) {
	var after uuid.UUID
	for {
		var page []store.ResultRef
		if failed := r.with(ctx, id, func(_ store.Sealed, rows store.Retention) (failed error) {
			page, failed = rows.SealedResults(ctx, r.Keys.CurrentVersion(), after, batch)
			return failed
		}); failed != nil {
			return n, errors.Join(err, failed)
		}
		if len(page) == 0 {
			return n, err
		}
		for _, ref := range page {
			failed := r.result(ctx, id, ref)
			if failed == nil {
				n++
			} else {
				failed = fmt.Errorf("result of job %s: %w", ref.JobID, failed)
			}
			err, after = errors.Join(err, failed), ref.JobID
			if ctx.Err() != nil {
				return n, errors.Join(err, ctx.Err())
			}
		}
	}
}

// result encrypts the objects of one result anew and then writes that down. One that retention deletes meanwhile is none
// any more.
func (r *Rotator) result(ctx context.Context, id string, ref store.ResultRef) error {
	keys := []string{ref.Path}
	segment := id
	if r.SingleTenant {
		segment = ""
	}
	err := r.Store.List(ctx, r.Store.Key(segment, "external-data", ref.JobID.String())+"/", func(o results.Object) error {
		if o.Key != ref.Path && !o.Unfinished { // what a rotation that was killed left of one
			keys = append(keys, o.Key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := r.Store.Reencrypt(ctx, id, key); err != nil && !errors.Is(err, results.ErrGone) {
			return err
		}
	}
	return r.with(ctx, id, func(_ store.Sealed, rows store.Retention) error {
		return rows.SealedUnder(ctx, ref, r.Keys.CurrentVersion())
	})
}

// Finish notes that nothing is sealed under any other version any more. It is the caller's to have sealed the registry
// and every tenant before, without an error.
func (r *Rotator) Finish(ctx context.Context) error {
	return r.Control.ForgetKeyVersions(ctx, r.Keys.CurrentVersion())
}
