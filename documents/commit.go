package documents

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/fetcherhq/fetcher/documents/content"
	"github.com/fetcherhq/fetcher/documents/fetch"
	"github.com/fetcherhq/fetcher/store"
)

const (
	typeUndeclared = "application/octet-stream"
	paramObjectID  = "object_id"
)

// gotten is what a fetch brought.
type gotten struct {
	unchanged    bool // the origin said so, and sent nothing
	declaredType string
	size         int64
	etag         string

	mediaType string
	bytes     []byte
	blob      store.Blob
}

// get fetches the page and makes content of it.
func (a *attempt) get(ctx context.Context) (*gotten, error) {
	res, err := a.s.opts.Fetcher.Fetch(ctx, a.url, a.etag)
	if err != nil {
		return nil, fetchFault(err)
	}
	if res.NotModified {
		if a.page == nil { // nothing was asked for conditionally
			return nil, Fault(UpstreamProtocolError)
		}
		return &gotten{unchanged: true, declaredType: a.page.DeclaredType, size: a.page.FetchedBytes}, nil
	}
	made, err := a.s.opts.Converter.Convert(ctx, res.DeclaredType, res.Body, a.url)
	if err != nil {
		return nil, convertFault(ctx, err)
	}
	return &gotten{
		declaredType: cmp.Or(res.DeclaredType, typeUndeclared), size: res.Size, etag: res.ETag,
		mediaType: made.MediaType, bytes: made.Bytes,
	}, nil
}

func fetchFault(err error) error {
	if known, ok := errors.AsType[*fetch.Error](err); ok {
		return &Error{Code: Code(known.Code), UpstreamStatus: known.UpstreamStatus, Err: err}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Code: UpstreamTimeout, Err: err}
	}
	return fmt.Errorf("fetch page: %w", err)
}

func convertFault(ctx context.Context, err error) error {
	if known, ok := errors.AsType[*content.Error](err); ok {
		return &Error{Code: Code(known.Code), Message: sentence(errors.New(known.Reason)), Err: err}
	}
	if ctx.Err() != nil { // others had the converter for all the time there was
		return &Error{Code: Unavailable, RetryAfter: retryUnavailable, Err: err}
	}
	return fmt.Errorf("convert page: %w", err)
}

// keepBytes sees that the content store has the content, before any row refers to it.
func (a *attempt) keepBytes(ctx context.Context, got *gotten) error {
	sum := digestOf(got.bytes)
	var known *store.Blob
	err := a.rows(ctx, func(rows store.Documents) (err error) {
		known, err = rows.Blob(ctx, sum)
		return err
	})
	if err != nil {
		return err
	}
	if known != nil {
		got.blob = *known
		return nil
	}
	segment := a.tenant
	if a.s.opts.SingleTenant {
		segment = ""
	}
	facts, err := a.s.opts.Content.Put(ctx, a.tenant, got.bytes, segment, "content")
	if err != nil {
		return contentFault(err)
	}
	got.blob = store.Blob{
		SHA256: sum, ObjectKey: facts.Key, SizeBytes: facts.SizeBytes, HMAC: facts.HMAC, KeyVersion: facts.KeyVersion,
	}
	if hex.EncodeToString(sum) != facts.SHA256 {
		return errors.New("the content store digested something else")
	}
	return nil
}

// commit stores all that came of the fetch in one transaction. With ErrOutcomeUnknown, the reply is the one to give if
// it took effect.
func (a *attempt) commit(ctx context.Context, got *gotten) (reply Reply, err error) {
	err = a.rows(ctx, func(rows store.Documents) error {
		return rows.Atomically(ctx, func(rows store.Documents) error {
			reply, err = a.record(ctx, rows, got)
			return err
		})
	})
	return reply, err
}

func (a *attempt) record(ctx context.Context, rows store.Documents, got *gotten) (Reply, error) {
	// First: what others did after it was given up explains nothing.
	if err := rows.HoldFetch(ctx, &a.fetch); err != nil {
		return Reply{}, err
	}
	source, err := rows.HoldSource(ctx, a.in.EnvironmentID, a.in.SourceID)
	if err != nil {
		return Reply{}, err
	}
	if err = a.admits(source, ApprovalChanged); err != nil {
		return Reply{}, err
	}
	page, err := rows.LockPage(ctx, a.in.SourceID, a.url.String())
	if err != nil {
		return Reply{}, err
	}
	if !a.same(page) {
		return Reply{}, &Error{
			Code: SyncInProgress, Message: "The document was deleted while its page was fetched.", RetryAfter: retryBusy,
		}
	}
	version, changed, err := a.version(ctx, rows, page, got)
	if err != nil {
		return Reply{}, err
	}
	f := a.fetch
	f.Status, f.ObjectID, f.Changed, f.Version = store.FetchSucceeded, version.ObjectID, &changed, &version.Version
	f.MediaType, f.SizeBytes = &got.declaredType, &got.size
	if err = rows.EndFetch(ctx, &f); err != nil {
		return Reply{}, err
	}
	answer, err := a.in.Render(SyncResult{
		FetchID: f.ID, URL: f.URL, Changed: changed, Version: *version, MediaType: got.declaredType, SizeBytes: got.size,
	})
	if err != nil {
		return Reply{}, fmt.Errorf("render answer: %w", err)
	}
	if err := a.claim.finish(ctx, rows, answer); err != nil {
		return Reply{}, err
	}
	return Reply{Answer: answer}, rows.Audit(ctx, a.in.Caller.did("document.synced", f.ID, store.AuditEvent{
		EnvironmentID: f.EnvironmentID, SourceID: &f.SourceID, ObjectID: &f.ObjectID, FetchID: &f.ID, ApprovalID: &f.ApprovalID,
		Version: &version.Version,
	}))
}

// same tells whether the page has the document that it had when the fetch began. Only deletion can have changed that.
func (a *attempt) same(page *store.Object) bool {
	if a.page == nil || page == nil {
		return a.page == nil && page == nil
	}
	return a.page.ID == page.ID
}

// version returns the version that holds what was fetched, which is new if it differs from the newest one.
func (a *attempt) version(
	ctx context.Context, rows store.Documents, page *store.Object, got *gotten,
) (version *store.DocumentVersion, changed bool, err error) {
	now, err := rows.Now(ctx)
	if err != nil {
		return nil, false, err
	}
	if page == nil {
		return a.first(ctx, rows, got, now)
	}
	newest, err := rows.DocumentVersion(ctx, page.EnvironmentID, page.ID, page.Version)
	if err != nil {
		return nil, false, err
	}
	page.LastFetchID, page.LastFetchedAt = a.fetch.ID, now
	if !got.unchanged {
		page.ETag, page.FullFetchedAt, page.DeclaredType, page.FetchedBytes = got.etag, now, got.declaredType, got.size
		changed = !bytes.Equal(newest.SHA256, got.blob.SHA256)
	}
	if changed {
		page.Version++
	}
	if err = rows.SaveObject(ctx, page); err != nil || !changed {
		return newest, changed, err
	}
	version, err = a.addVersion(ctx, rows, page, got, now)
	return version, true, err
}

// first makes the page's document.
func (a *attempt) first(ctx context.Context, rows store.Documents, got *gotten, now time.Time) (*store.DocumentVersion, bool, error) {
	page := &store.Object{
		EnvironmentID: a.in.EnvironmentID, ID: a.in.ObjectID, SourceID: a.in.SourceID, URL: a.url.String(), Bound: true,
		Version: 1, CreatedAt: now, LastFetchID: a.fetch.ID, LastFetchedAt: now,
		ETag: got.etag, FullFetchedAt: now, DeclaredType: got.declaredType, FetchedBytes: got.size,
	}
	free, err := rows.CreateObject(ctx, page)
	if err != nil {
		return nil, false, err
	}
	if !free {
		return nil, false, &Error{Code: ObjectIDInUse, Param: paramObjectID}
	}
	version, err := a.addVersion(ctx, rows, page, got, now)
	return version, true, err
}

func (a *attempt) addVersion(
	ctx context.Context, rows store.Documents, page *store.Object, got *gotten, now time.Time,
) (*store.DocumentVersion, error) {
	if err := rows.AddBlob(ctx, &got.blob); err != nil {
		return nil, err
	}
	version := &store.DocumentVersion{
		EnvironmentID: page.EnvironmentID, ObjectID: page.ID, Version: page.Version, SHA256: got.blob.SHA256,
		MediaType: got.mediaType, SizeBytes: got.blob.SizeBytes, CreatedAt: now, CreatedBy: a.in.Caller.Subject,
		FetchID: a.fetch.ID,
	}
	return version, rows.AddVersion(ctx, version)
}
