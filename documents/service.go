// Package documents owns what an organisation's approved web sources are for: who may be fetched from, the single
// fetch of a page, and the versions that come of it.
//
// It touches tenants' databases through leases held for single operations, approved origins through package fetch,
// and object storage through package results. It promises:
//
//   - Nothing is fetched that the source's approval does not admit, and nothing is stored that it does not admit at the
//     moment of storing.
//   - Of one page of one source one fetch runs at a time, over all processes. Versions have no gaps and are in the order
//     in which the origin served them.
//   - A request with an idempotency key takes effect once: answer, version and record of the fetch are one transaction,
//     and an attempt that was given up for dead stores nothing.
//   - No database connection and no lease is held while the network or the object storage is waited for.
package documents

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents/content"
	"github.com/fetcherhq/fetcher/documents/fetch"
	"github.com/fetcherhq/fetcher/documents/weburl"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// Limits of the contract.
const (
	DefaultSlots     = 4                // fetches of a tenant at once
	DefaultSlotWait  = 5 * time.Second  // that one more waits
	DefaultFetchTime = 30 * time.Second // of one fetch, as package fetch bounds it

	// margin is how long an attempt may take beyond the fetch before it is given up for dead.
	margin = 10 * time.Second
	// keep is how long answers are kept for their idempotency keys.
	keep = 72 * time.Hour
	// fullFetchEvery bounds how long an entity tag may stand for the bytes.
	fullFetchEvery = 24 * time.Hour
)

// Tenants hands out leases on tenants' databases.
type Tenants interface {
	Acquire(ctx context.Context, tenantID string) (*tenant.Lease, error)
}

// Fetcher gets one page. Its errors are *fetch.Error or wrap the context's.
type Fetcher interface {
	Fetch(ctx context.Context, u weburl.URL, etag string) (*fetch.Response, error)
}

// Options are what a Service needs. Tenants and Fetcher are required.
type Options struct {
	Tenants Tenants
	Fetcher Fetcher
	Content *results.Store // nil: neither pages can be fetched nor objects read

	Converter *content.Converter // nil: one of the service's own

	AllowedPorts  []int // of approved origins; nil: 443
	RatePerMinute int   // fetches of a tenant within any minute; 0: not limited
	SingleTenant  bool  // leaves the tenant out of object keys

	Slots     int           // 0: DefaultSlots
	SlotWait  time.Duration // 0: DefaultSlotWait
	FetchTime time.Duration // at least what the Fetcher takes at most; 0: DefaultFetchTime

	NewID  func() (uuid.UUID, error) // nil: UUIDv7
	Logger *slog.Logger              // nil: none
}

// Service is the operations on environments, sources and documents. It is safe for concurrent use. Every error is an
// *Error, or fit for AsError.
type Service struct {
	opts Options
}

// New returns a service.
func New(o Options) (*Service, error) {
	if o.Tenants == nil || o.Fetcher == nil {
		return nil, errors.New("documents: tenants and a fetcher are needed")
	}
	if o.RatePerMinute < 0 || o.Slots < 0 || o.SlotWait < 0 || o.FetchTime < 0 {
		return nil, errors.New("documents: a limit is negative")
	}
	if o.AllowedPorts == nil {
		o.AllowedPorts = []int{443}
	}
	if o.Slots == 0 {
		o.Slots = DefaultSlots
	}
	if o.SlotWait == 0 {
		o.SlotWait = DefaultSlotWait
	}
	if o.FetchTime == 0 {
		o.FetchTime = DefaultFetchTime
	}
	if o.Converter == nil {
		o.Converter = content.New()
	}
	if o.NewID == nil {
		o.NewID = uuid.NewV7
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{opts: o}, nil
}

// Ready returns FeatureUnavailable when there is no content store, which Sync and the operations on objects need, else
// nil. They ask by themselves; a handler asks before it reads the body.
func (s *Service) Ready() error {
	if s.opts.Content == nil {
		return Fault(FeatureUnavailable)
	}
	return nil
}

// Caller is who asks for an operation.
type Caller struct {
	Subject string // who it is: actor of fetches and audit events, and part of the scope of idempotency keys
	Account string // of a person; empty for machines
	Kind    string // auth.Kind
}

// Once makes a mutation take effect once, and renders its answer inside the transaction that makes what it tells of.
type Once[T any] struct {
	Key    *uuid.UUID // the Idempotency-Key; nil: none was sent
	Render func(T) (store.Answer, error)
}

// Reply is the answer to a mutation. The handler sends it as it is.
type Reply struct {
	store.Answer

	// Replayed tells that the answer is that of an earlier request with the same key. The body of one with a status of
	// 400 or more is an error's envelope, whose request id has to be replaced.
	Replayed bool
}

// List asks for one page of a listing.
type List struct {
	Limit  int    // 1 to MaxLimit; 0: DefaultLimit
	Cursor string // NextCursor of the page before; empty: the first page
}

// Bounds of List.Limit.
const (
	DefaultLimit = 50
	MaxLimit     = 100
)

// Page is one page of a listing in the order of creation, ties by id.
type Page[T any] struct {
	Items      []T    // never nil
	NextCursor string // empty: this is the last page
}

// NewSource is what a source is made of.
type NewSource struct {
	Name       string
	Origin     string
	PathPrefix string
}

// Reconnect is a new approval of a source.
type Reconnect struct {
	Origin     string
	PathPrefix string
	Revision   int64 // of the source as the caller knows it
}

// SyncRequest asks for one page.
type SyncRequest struct {
	EnvironmentID uuid.UUID
	SourceID      uuid.UUID
	URL           string    // as it was sent
	ObjectID      uuid.UUID // of the document, if the page has none yet
	Caller        Caller
	Key           uuid.UUID // the Idempotency-Key

	// Render and RenderError make the answer, which is stored with what it tells of. RenderError is called only for
	// errors that are kept; the request id in its body does not matter.
	Render      func(SyncResult) (store.Answer, error)
	RenderError func(*Error) (store.Answer, error)
}

// SyncResult is a page that was fetched.
type SyncResult struct {
	FetchID   uuid.UUID
	URL       string // in canonical form
	Changed   bool   // the version is new
	Version   store.DocumentVersion
	MediaType string // as the origin declared it
	SizeBytes int64  // as fetched
}
