package store

import (
	"time"

	"github.com/google/uuid"
)

// Environment is a part of a tenant that sources and documents belong to.
type Environment struct {
	ID        uuid.UUID // UUIDv7, made by the caller
	Name      string
	CreatedAt time.Time
}

// TableName names the table for GORM.
func (Environment) TableName() string { return "environments" }

// SourceStatus tells whether a source may be fetched from.
type SourceStatus string

// The states of a source.
const (
	SourceConnected    SourceStatus = "connected"
	SourceDisconnected SourceStatus = "disconnected"
)

// Approval is what somebody has approved: one origin and one path prefix. It never changes; the database sees to that.
type Approval struct {
	ID         uuid.UUID // UUIDv7, made by the caller
	SourceID   uuid.UUID
	Origin     string
	PathPrefix string
	ApprovedBy string
	ApprovedAt time.Time
}

// TableName names the table for GORM.
func (Approval) TableName() string { return "approvals" }

// LastFetch is the newest of a source's fetches that has ended.
type LastFetch struct {
	ID      uuid.UUID
	At      time.Time // when it ended
	Outcome FetchStatus
}

// Source is an approved web source as it stands.
type Source struct {
	ID            uuid.UUID // UUIDv7, made by the caller
	EnvironmentID uuid.UUID
	Name          string
	Status        SourceStatus
	Approval      Approval
	Revision      int64 // starts at 1 and grows at every change
	CreatedAt     time.Time
	UpdatedAt     time.Time
	LastFetch     *LastFetch // nil: none has ended
}

// FetchStatus is where a fetch stands. All but running are terminal.
type FetchStatus string

// The states of a fetch.
const (
	FetchRunning   FetchStatus = "running"
	FetchSucceeded FetchStatus = "succeeded"
	FetchRefused   FetchStatus = "refused" // by our rules or by the origin: the same again would end the same
	FetchFailed    FetchStatus = "failed"
)

// Fetch is one attempt to get one page. A running one holds a slot of its tenant and its URL until it ends or its lease
// does.
type Fetch struct {
	ID             uuid.UUID // UUIDv7, made by the caller
	EnvironmentID  uuid.UUID
	SourceID       uuid.UUID
	URL            string    `gorm:"column:url"`
	ObjectID       uuid.UUID // as asked for; once succeeded, the document's
	Attempt        int       // of the request's idempotency key
	Status         FetchStatus
	Changed        *bool
	Version        *int64
	MediaType      *string // as the origin declared it
	SizeBytes      *int64  // as fetched
	ErrorCode      *string
	UpstreamStatus *int
	ApprovalID     uuid.UUID
	Actor          string
	StartedAt      time.Time
	FinishedAt     *time.Time
}

// TableName names the table for GORM.
func (Fetch) TableName() string { return "fetches" }

// Object is one document: the versions of one page under one source. A deleted one keeps its id and its versions and
// has no page any more.
type Object struct {
	EnvironmentID uuid.UUID `gorm:"primaryKey"`
	ID            uuid.UUID `gorm:"primaryKey"` // made by the caller of the gateway; unique in its environment
	SourceID      uuid.UUID
	URL           string `gorm:"column:url"`
	Bound         bool   // false: deleted
	Version       int64  // the newest
	CreatedAt     time.Time
	LastFetchID   uuid.UUID // the newest that succeeded
	LastFetchedAt time.Time

	ETag          string    `gorm:"column:etag"` // strong, of the newest full fetch; empty: it had none
	FullFetchedAt time.Time // when the bytes were last seen, rather than a 304
	DeclaredType  string    // as the newest full fetch declared it
	FetchedBytes  int64     // as the newest full fetch had them
}

// TableName names the table for GORM.
func (Object) TableName() string { return "objects" }

// Blob is content that is stored once for the tenant, however many versions have it.
type Blob struct {
	SHA256     []byte `gorm:"column:sha256;primaryKey"`
	ObjectKey  string // in the content store
	SizeBytes  int64
	HMAC       string `gorm:"column:hmac"` // lower-case hex
	KeyVersion int
}

// TableName names the table for GORM.
func (Blob) TableName() string { return "content_blobs" }

// DocumentVersion is one state of a document. It never changes; the database sees to that.
type DocumentVersion struct {
	EnvironmentID uuid.UUID
	ObjectID      uuid.UUID
	Version       int64  // from 1, without gaps
	SHA256        []byte `gorm:"column:sha256"` // of the content
	MediaType     string // of the content
	SizeBytes     int64  // of the content
	CreatedAt     time.Time
	CreatedBy     string
	FetchID       uuid.UUID
}

// TableName names the table for GORM.
func (DocumentVersion) TableName() string { return "versions" }

// AuditEvent tells who did what. It never changes; the database sees to that.
type AuditEvent struct {
	ID            uuid.UUID // UUIDv7, made by the caller
	At            time.Time // the database's
	EnvironmentID uuid.UUID
	Actor         string
	ActorKind     string
	Action        string
	SourceID      *uuid.UUID
	ObjectID      *uuid.UUID
	FetchID       *uuid.UUID
	ApprovalID    *uuid.UUID
	Version       *int64
}

// TableName names the table for GORM.
func (AuditEvent) TableName() string { return "audit_events" }
