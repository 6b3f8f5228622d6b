package documents

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// Integrity is the digest of a version's content as it is published: sha256: and lower-case hex.
func Integrity(v store.DocumentVersion) string { return "sha256:" + hex.EncodeToString(v.SHA256) }

// Content is the stored bytes of one version.
type Content struct {
	Version store.DocumentVersion

	store  *results.Store
	tenant string
	facts  results.Facts
}

// Content finds the stored bytes of one version, or NotFound. It releases the lease: reading takes as long as its client
// likes.
func (s *Service) Content(
	ctx context.Context, lease *tenant.Lease, environment, object uuid.UUID, version int64,
) (*Content, error) {
	v, err := s.Version(ctx, lease, environment, object, version)
	if err != nil {
		return nil, err
	}
	blob, err := store.NewDocuments(lease.DB(ctx)).Blob(ctx, v.SHA256)
	if err != nil {
		return nil, err
	}
	if blob == nil {
		return nil, errors.New("a version's content is not known")
	}
	lease.Release()
	return &Content{
		Version: *v, store: s.opts.Content, tenant: lease.TenantID(), facts: results.Facts{
			Key: blob.ObjectKey, SizeBytes: blob.SizeBytes, SHA256: hex.EncodeToString(blob.SHA256), HMAC: blob.HMAC,
			KeyVersion: blob.KeyVersion,
		},
	}, nil
}

// Open opens length bytes from first on, which must lie inside the content. The caller closes what it returns.
//
// All of the content is verified. Of the whole, the last block is handed out only once that is done: a reader that ended
// with io.EOF delivered the version. A part is handed out only after the whole has proved to be the version. Errors while
// the storage fails are Unavailable; reading stops when ctx does.
func (c *Content) Open(ctx context.Context, first, length int64) (io.ReadCloser, error) {
	if first < 0 || length < 0 || length > c.facts.SizeBytes-first {
		return nil, errors.New("open content: the part lies outside of it")
	}
	r, err := c.store.OpenReader(ctx, c.tenant, c.facts)
	if err != nil {
		return nil, contentFault(err)
	}
	if length == c.facts.SizeBytes {
		return r, nil
	}
	part, err := cutOut(r, first, length)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, contentFault(err)
	}
	return io.NopCloser(bytes.NewReader(part)), nil
}

// cutOut reads r to its end and returns a part of it.
func cutOut(r io.Reader, first, length int64) ([]byte, error) {
	if _, err := io.CopyN(io.Discard, r, first); err != nil {
		return nil, err
	}
	part := make([]byte, length)
	if _, err := io.ReadFull(r, part); err != nil {
		return nil, err
	}
	_, err := io.Copy(io.Discard, r)
	return part, err
}

// contentFault describes a failure of the object storage by its kind: the storage's own words can hold addresses.
func contentFault(err error) error {
	kind := err
	for _, known := range []error{results.ErrTampered, results.ErrGone, results.ErrUnavailable} {
		if errors.Is(err, known) {
			kind = known
			break
		}
	}
	if kind == results.ErrUnavailable { //nolint:errorlint // it was assigned
		return &Error{Code: Unavailable, RetryAfter: retryUnavailable, Err: kind}
	}
	return fmt.Errorf("content: %w", kind)
}
