package documents

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

var (
	// errFull says that every slot of the tenant is taken.
	errFull = errors.New("documents: every slot is taken")
	// errMoved says that the page got or lost its document while the decision was made.
	errMoved = errors.New("documents: the page has another document now")
)

// How often a waiting request looks for a free slot.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = 400 * time.Millisecond
)

// enter lets the attempt in, waiting for a slot if need be, or returns the answer that was kept under the key, or says
// why not. Nothing is stored while it waits, so that nothing is left of a process that dies.
func (a *attempt) enter(ctx context.Context, lease *tenant.Lease) (*store.Answer, error) {
	patience := time.NewTimer(a.s.opts.SlotWait)
	defer patience.Stop()
	for {
		kept, err := a.tryEnter(ctx, lease)
		switch {
		case errors.Is(err, errMoved):
			continue
		case !errors.Is(err, errFull):
			return kept, err
		}
		if err := a.awaitSlot(ctx, lease, patience.C); err != nil {
			return nil, err
		}
	}
}

// awaitSlot returns when a slot seems to be free. Looking takes no lock.
func (a *attempt) awaitSlot(ctx context.Context, lease *tenant.Lease, patience <-chan time.Time) error {
	rows := store.NewDocuments(lease.DB(ctx))
	for pause := firstLook; ; pause = min(pause*3/2, lastLook) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience:
			return &Error{Code: RateLimited, Message: "Too many fetches run at once.", RetryAfter: retryBusy}
		case <-time.After(pause):
		}
		running, err := rows.RunningFetches(ctx)
		if err != nil || running < a.s.opts.Slots {
			return err
		}
	}
}

// tryEnter makes all decisions and, if they are in favour, the running fetch and the hold of the key, in one
// transaction.
func (a *attempt) tryEnter(ctx context.Context, lease *tenant.Lease) (kept *store.Answer, err error) {
	id, err := a.operation()
	if err != nil {
		return nil, err
	}
	var refusal *Error
	err = store.NewDocuments(lease.DB(ctx)).Atomically(ctx, func(rows store.Documents) (failed error) {
		kept, refusal, failed = a.decide(ctx, rows, id)
		return failed
	})
	switch {
	case errors.Is(err, store.ErrOutcomeUnknown): // if it runs, then without anybody: until its lease ends
		return nil, &Error{Code: OutcomeUnknown, OperationID: id, RetryAfter: retryUnavailable, Err: err}
	case err != nil:
		return nil, err
	case refusal != nil:
		return nil, refusal
	}
	return kept, nil
}

// decide is what happens in the transaction. A refusal is one that is kept, so that the transaction has to take effect.
func (a *attempt) decide(ctx context.Context, rows store.Documents, id uuid.UUID) (kept *store.Answer, refusal *Error, err error) {
	a.claim, kept, err = claimKey(ctx, rows, a.key(), id, a.s.opts.FetchTime+margin)
	if err != nil || kept != nil {
		return kept, nil, err
	}
	err = a.admit(ctx, rows, id)
	if fault, ok := errors.AsType[*Error](err); ok && fault.Code.Info().Keep {
		return nil, fault, a.settleKey(ctx, rows, fault)
	}
	return nil, nil, err
}

func (a *attempt) key() key {
	return key{
		operation: opSync, environment: a.in.EnvironmentID, subject: a.in.Caller.Subject, key: a.in.Key,
		content: []string{a.in.EnvironmentID.String(), a.in.SourceID.String(), a.url.String(), a.in.ObjectID.String()},
	}
}

// admit decides about the request and starts its fetch.
func (a *attempt) admit(ctx context.Context, rows store.Documents, id uuid.UUID) error {
	source, err := rows.Source(ctx, a.in.EnvironmentID, a.in.SourceID)
	if err != nil {
		return err
	}
	if err = a.admits(source, URLNotApproved); err != nil {
		return err
	}
	if err = a.findPage(ctx, rows); err != nil {
		return err
	}
	a.fetch = store.Fetch{
		ID: id, EnvironmentID: source.EnvironmentID, SourceID: source.ID, URL: a.url.String(), ObjectID: a.in.ObjectID,
		Attempt: a.claim.attempt, ApprovalID: source.Approval.ID, Actor: a.in.Caller.Subject,
	}
	if a.page != nil {
		a.fetch.ObjectID = a.page.ID
	}
	entry, wait, err := rows.Admit(ctx, &a.fetch, store.Admission{
		Lease: a.s.opts.FetchTime + margin, Slots: a.s.opts.Slots, PerMinute: a.s.opts.RatePerMinute, Lapsed: string(lapsed),
	})
	if err != nil {
		return err
	}
	switch entry {
	case store.EntryPage:
		return &Error{Code: SyncInProgress, RetryAfter: retryBusy}
	case store.EntryRate:
		return &Error{Code: RateLimited, RetryAfter: wait}
	case store.EntryFull:
		return errFull
	}
	return a.refindPage(ctx, rows)
}

// admits returns nil if the page may be fetched from the source as it stands, else SourceDisconnected or the code given.
func (a *attempt) admits(source *store.Source, otherwise Code) error {
	switch {
	case source.Status != store.SourceConnected:
		return Fault(SourceDisconnected)
	case !a.s.admitted(source.Approval).Admits(a.url):
		return &Error{Code: otherwise, SnapshotRef: source.Approval.ID}
	}
	return nil
}

// findPage finds the document of the page, or sees that it can be made.
func (a *attempt) findPage(ctx context.Context, rows store.Documents) (err error) {
	if a.page, err = rows.Page(ctx, a.in.SourceID, a.url.String()); err != nil || a.page != nil {
		return err
	}
	other, err := rows.Object(ctx, a.in.EnvironmentID, a.in.ObjectID)
	switch {
	case err != nil && AsError(err).Code == NotFound:
		return nil
	case err != nil:
		return err
	case other.Bound && other.SourceID == a.in.SourceID && other.URL == a.url.String():
		return errMoved // it was made between the two questions
	}
	return &Error{Code: ObjectIDInUse, Param: paramObjectID}
}

// refindPage looks at the page again, now that no other fetch can change it, and finds out what may be asked for
// conditionally: an entity tag of a version that has been replaced meanwhile would hide a change.
func (a *attempt) refindPage(ctx context.Context, rows store.Documents) error {
	page, err := rows.Page(ctx, a.in.SourceID, a.url.String())
	if err != nil {
		return err
	}
	if !a.same(page) {
		return errMoved
	}
	if a.page, a.etag = page, ""; page == nil {
		return nil
	}
	a.etag, err = rows.FreshETag(ctx, page.EnvironmentID, page.ID, fullFetchEvery)
	return err
}
