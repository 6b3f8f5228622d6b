package store

import (
	"time"

	"github.com/google/uuid"
)

// Connection is a tenant's description of an external database. Everything sealed is ciphertext here:
// this package never sees a password in clear.
type Connection struct {
	ID           uuid.UUID // UUIDv7, made by the caller
	ConfigName   string    // unique among the tenant's live connections, case-sensitive
	ProductName  *string
	Kind         string
	Host         string
	Port         int
	DatabaseName string
	Schema       *string
	UserName     string

	PasswordSealed []byte
	SSLMode        *string `gorm:"column:ssl_mode"`
	SSLCASealed    []byte  `gorm:"column:ssl_ca_sealed"`
	SSLCertSealed  []byte  `gorm:"column:ssl_cert_sealed"`
	SSLKeySealed   []byte  `gorm:"column:ssl_key_sealed"`
	KeyVersion     int     // of the key that sealed the secrets

	Metadata  []byte // JSON text exactly as sent; nil when there is none
	Revision  int64  // starts at 1 and grows at every change
	CreatedAt time.Time
	UpdatedAt time.Time
	DeletedAt *time.Time // set: deleted, its secrets wiped, its name free again
}

// TableName names the table for GORM.
func (Connection) TableName() string { return "connections" }

// JobStatus is where a job stands. Completed and failed are terminal: such a row never changes its status again.
type JobStatus string

// The states of a job.
const (
	JobPending    JobStatus = "pending"
	JobProcessing JobStatus = "processing"
	JobCompleted  JobStatus = "completed"
	JobFailed     JobStatus = "failed"
)

// Terminal reports whether a job in this state has ended.
func (s JobStatus) Terminal() bool { return s == JobCompleted || s == JobFailed }

// Job is one extraction. Its JSON members hold the texts exactly as the caller sent them.
type Job struct {
	ID     uuid.UUID // UUIDv7, made by the caller
	Status JobStatus
	// Attempt counts claims and fences writers: whoever claimed with a smaller number can't commit any more.
	Attempt int
	// AttemptsReturned counts the claims that were handed back unspent, by a worker that shut down.
	AttemptsReturned int
	RequestHash      string
	Metadata         []byte
	MappedFields     []byte
	Filters          []byte // nil: none were sent; else as FiltersKeyVersion says
	// FiltersKeyVersion is of the key that sealed Filters, which is a JSON string then; nil: they are in clear.
	FiltersKeyVersion *int
	Output            []byte // nil: the default format
	Source            string // metadata.source, trimmed and lower-cased by the caller

	CreatedAt     time.Time
	StartedAt     *time.Time // of the latest attempt
	CompletedAt   *time.Time // when a terminal state was reached
	NextAttemptAt *time.Time
	Progress      []byte // JSON; nil between attempts

	CancelRequestedAt *time.Time // set while processing: the attempt is to end as canceled; never taken back

	ResultPath       *string
	ResultHMAC       *string `gorm:"column:result_hmac"`
	ResultSHA256     *string `gorm:"column:result_sha256"`
	ResultFormat     *string
	ResultSizeBytes  *int64
	ResultRowCount   *int64
	ResultKeyVersion *int
	ResultTables     []byte // JSON
	ResultExpiresAt  *time.Time

	ResultManifestBytes *int64 // size of the object at ResultPath where that is a manifest; ResultSizeBytes is its tables'

	ErrorCode       *string
	ErrorMessage    *string
	ErrorDatasource *string
	ErrorTable      *string
}

// TableName names the table for GORM.
func (Job) TableName() string { return "jobs" }

// CompleteFacts is what a completed job knows of its result.
type CompleteFacts struct {
	Path       string // object key
	HMAC       string // lower-case hex
	SHA256     string // lower-case hex
	Format     string
	SizeBytes  int64 // of the plaintext
	RowCount   int64
	KeyVersion int
	Tables     []byte // JSON; nil when the format has none to tell
	ExpiresAt  *time.Time

	ManifestBytes *int64 // size of the object at Path where that is a manifest, and SizeBytes that of what it lists
}

// Failure is why a job failed. Every member may be shown to the caller; an empty one is stored as absent.
type Failure struct {
	Code       string
	Message    string
	Datasource string
	Table      string
}

// Event is one row of the outbox: what is told to the world about a job's end.
type Event struct {
	ID   string // the same for every delivery, so that consumers can drop repeats
	Type string
	Time time.Time // the instant of the terminal state; also the job's CompletedAt
	Data []byte    // JSON

	Trace string // W3C trace context of what wrote it; may be empty
}

// Window bounds creation dates: Start and End are instants and both inclusive. The zero Window has no bounds.
type Window struct{ Start, End time.Time }

// Page selects one page of a listing ordered by creation date, ties by id.
type Page struct {
	Number int // from 1; less is 1
	Limit  int // rows per page, at least 1
	Desc   bool
}

// MetadataMatch asks for one metadata entry: the scalar at Path, a string by its value, a number or boolean by its
// JSON text. Each element of Path names a member of an object; arrays are never entered.
type MetadataMatch struct {
	Path  []string
	Value string
}

// ConnectionFilter narrows a listing of connections. Its parts combine with AND.
type ConnectionFilter struct {
	Window     Window
	Page       Page
	Product    *string // nil: any, also none
	Kind       *string
	Metadata   []MetadataMatch
	Unassigned bool // only those without a product
}
