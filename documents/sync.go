package documents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents/weburl"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// lapsed is the code of fetches whose process is gone.
const lapsed = Internal

// retryBusy is what a caller is told who meets another fetch.
const retryBusy = time.Second

// attempt is one go at a SyncRequest.
type attempt struct {
	s      *Service
	in     SyncRequest
	tenant string
	url    weburl.URL

	claim *claim
	fetch store.Fetch
	page  *store.Object // the page's document as it was found; nil: it has none
	etag  string        // what may be asked for conditionally; empty: nothing
}

// Sync fetches a page of a connected source that its approval admits, and stores it as the next version of the page's
// document unless that is what it already holds. In this order: the URL is valid (InvalidRequest); the key is free, or
// the stored answer is given again (IdempotencyKeyReused, IdempotencyInProgress); the source exists (NotFound), is
// connected (SourceDisconnected) and admits the URL (URLNotApproved); a page without a document comes with an object id
// that is free (ObjectIDInUse); and nobody else fetches the page (SyncInProgress), the tenant's rate is kept and one of
// its slots is free, or is in time (RateLimited). Up to here a refusal leaves no trace, the one about the object id
// excepted, which is kept under the key. Then there is a fetch to be read, and the page is fetched whether the caller
// stays or not.
//
// Sync releases the lease before it waits for anything but the database, and takes others as it needs them.
func (s *Service) Sync(ctx context.Context, lease *tenant.Lease, in SyncRequest) (Reply, error) {
	if err := s.Ready(); err != nil {
		return Reply{}, err
	}
	u, err := weburl.Parse(in.URL)
	if err != nil {
		return Reply{}, Invalid("url", sentence(err))
	}
	a := &attempt{s: s, in: in, tenant: lease.TenantID(), url: u}
	kept, err := a.enter(ctx, lease)
	lease.Release()
	if err != nil {
		return Reply{}, err
	}
	if kept != nil {
		return Reply{Answer: *kept, Replayed: true}, nil
	}
	return a.run(context.WithoutCancel(ctx))
}

// run brings a fetch that was let in to its end.
func (a *attempt) run(ctx context.Context) (reply Reply, err error) {
	// The lease goes on for a little longer, for telling how it ended.
	ctx, cancel := context.WithTimeout(ctx, a.s.opts.FetchTime+margin-bookkeeping)
	defer cancel()
	over := false
	defer func() {
		if !over { // a panic, which goes on its way
			a.fail(ctx, Fault(Internal))
		}
	}()
	reply, err = a.work(ctx)
	over = true
	switch {
	case err == nil:
		return reply, nil
	case errors.Is(err, store.ErrOutcomeUnknown):
		return a.resolve(ctx, reply, err)
	case errors.Is(err, store.ErrLostAttempt), errors.Is(err, store.ErrClaimTaken):
		return Reply{}, gaveUp(err)
	}
	fault := AsError(err)
	a.fail(ctx, fault)
	return Reply{}, fault
}

func gaveUp(err error) error {
	return &Error{Code: Unavailable, Message: "The fetch took so long that it was given up.", RetryAfter: retryBusy, Err: err}
}

// work fetches, converts and stores. Its errors are *Error, the store's or fit for AsError.
func (a *attempt) work(ctx context.Context) (Reply, error) {
	got, err := a.get(ctx)
	if err != nil {
		return Reply{}, err
	}
	if !got.unchanged {
		if err := a.keepBytes(ctx, got); err != nil {
			return Reply{}, err
		}
	}
	return a.commit(ctx, got)
}

// bookkeeping is how long telling how an attempt ended may take. It is part of the margin.
const bookkeeping = 3 * time.Second

// fail stores how the attempt ended, and what it is answered with if that is kept. An attempt that was given up has
// nothing to tell any more.
func (a *attempt) fail(ctx context.Context, fault *Error) {
	err := a.end(ctx, fault)
	if err != nil && !errors.Is(err, store.ErrLostAttempt) && !errors.Is(err, store.ErrClaimTaken) {
		a.s.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "the end of a fetch was not stored",
			slog.String("tenant", a.tenant), slog.String("fetch", a.fetch.ID.String()), slog.Any("error", err))
	}
}

func (a *attempt) end(ctx context.Context, fault *Error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bookkeeping)
	defer cancel()
	f := a.fetch
	f.Status = store.FetchFailed
	if fault.status() < leastFailure {
		f.Status = store.FetchRefused
	}
	code := string(fault.Code)
	f.ErrorCode = &code
	if fault.UpstreamStatus != 0 {
		f.UpstreamStatus = &fault.UpstreamStatus
	}
	return a.rows(ctx, func(rows store.Documents) error {
		return rows.Atomically(ctx, func(rows store.Documents) error {
			if err := rows.EndFetch(ctx, &f); err != nil {
				return err
			}
			return a.settleKey(ctx, rows, fault)
		})
	})
}

// settleKey keeps the answer to a failure under the key, or frees the key.
func (a *attempt) settleKey(ctx context.Context, rows store.Documents, fault *Error) error {
	if !fault.Code.Info().Keep {
		return rows.ReleaseKey(ctx, a.claim.scope, a.claim.operation, a.claim.attempt)
	}
	answer, err := a.in.RenderError(fault)
	if err != nil {
		return fmt.Errorf("render answer: %w", err)
	}
	return a.claim.finish(ctx, rows, answer)
}

// resolve finds out what became of a commit whose outcome is unknown: the fetch that was to be committed with it can be
// ended in another way, or has ended.
func (a *attempt) resolve(ctx context.Context, reply Reply, cause error) (Reply, error) {
	fault := &Error{Code: Unavailable, RetryAfter: retryUnavailable, Err: cause}
	err := a.end(ctx, fault)
	if err == nil {
		return Reply{}, fault
	}
	unknown := &Error{Code: OutcomeUnknown, OperationID: a.fetch.ID, RetryAfter: retryUnavailable, Err: cause}
	if !errors.Is(err, store.ErrLostAttempt) {
		return Reply{}, unknown
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bookkeeping)
	defer cancel()
	var now *store.Fetch
	err = a.rows(ctx, func(rows store.Documents) error {
		now, err = rows.Fetch(ctx, a.in.SourceID, a.fetch.ID)
		return err
	})
	switch {
	case err != nil:
		return Reply{}, unknown
	case now.Status == store.FetchSucceeded:
		return reply, nil
	}
	return Reply{}, gaveUp(cause)
}

// rows runs fn with a lease of its own.
func (a *attempt) rows(ctx context.Context, fn func(store.Documents) error) error {
	lease, err := a.s.opts.Tenants.Acquire(ctx, a.tenant)
	if err != nil {
		return err
	}
	defer lease.Release()
	return fn(store.NewDocuments(lease.DB(ctx)))
}

// operation is the id of the fetch, of the attempt's hold of the key and of its audit event.
func (a *attempt) operation() (uuid.UUID, error) {
	id, err := a.s.opts.NewID()
	if err != nil {
		return id, fmt.Errorf("make an id: %w", err)
	}
	return id, nil
}
