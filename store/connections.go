package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

// Connections are the queries on a tenant's connections. Deleted ones are invisible to all of them.
type Connections struct {
	db   *gorm.DB
	then func(Idempotency, *Connection) error
}

// NewConnections returns the queries on db, which belongs to exactly one tenant.
func NewConnections(db *gorm.DB) Connections { return Connections{db: db} }

// connectionRow adds what is stored for searching only.
type connectionRow struct {
	Connection

	MetadataEntries textArray
}

// Create stores c. Zero CreatedAt and UpdatedAt become the present, a zero Revision 1, and show in c.
// A live connection of the same name makes it fail with FET-1002.
func (s Connections) Create(ctx context.Context, c *Connection) error {
	entries, err := metadataEntries(c.Metadata)
	if err != nil {
		return err
	}
	row := connectionRow{Connection: *c, MetadataEntries: entries}
	if row.CreatedAt.IsZero() {
		row.CreatedAt = now()
	}
	if row.UpdatedAt.IsZero() {
		row.UpdatedAt = row.CreatedAt
	}
	if row.Revision == 0 {
		row.Revision = 1
	}
	if err = s.insert(ctx, &row); err != nil {
		return mapped("create connection", err)
	}
	*c = row.Connection
	return nil
}

func (s Connections) insert(ctx context.Context, row *connectionRow) error {
	if s.then == nil {
		return nameTaken(s.db.WithContext(ctx).Create(row).Error)
	}
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := nameTaken(tx.Create(row).Error); err != nil {
			return err
		}
		return s.then(Idempotency{db: tx}, &row.Connection)
	})
}

// nameTaken turns the violation of a live connection's name into FET-1002; other errors pass.
func nameTaken(err error) error {
	if pgerr.State(err) == uniqueViolation && pgerr.Constraint(err) == "connections_live_config_name" {
		return problem.New(problem.NameTaken, "the configName is already used")
	}
	return err
}

func connectionNotFound() error { return problem.New(problem.NotFoundInTenant, "connection not found") }

// getConnection is written out because every request for one connection runs it: GORM would build the same text anew.
const getConnection = `SELECT config_name, product_name, kind, host, port, database_name, schema, user_name, password_sealed,
	ssl_mode, ssl_ca_sealed, ssl_cert_sealed, ssl_key_sealed, key_version, metadata, revision, created_at, updated_at, deleted_at
	FROM connections WHERE deleted_at IS NULL AND id = $1`

// Get returns the connection, or FET-1001 when there is no live one with that id.
func (s Connections) Get(ctx context.Context, id uuid.UUID) (*Connection, error) {
	c := Connection{ID: id}
	err := readRow(ctx, s.db, getConnection, id, &c.ConfigName, &c.ProductName, &c.Kind, &c.Host, &c.Port,
		&c.DatabaseName, &c.Schema, &c.UserName, &c.PasswordSealed, &c.SSLMode, &c.SSLCASealed, &c.SSLCertSealed, &c.SSLKeySealed,
		&c.KeyVersion, &c.Metadata, &c.Revision, &c.CreatedAt, &c.UpdatedAt, &c.DeletedAt)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, connectionNotFound()
	}
	if err != nil {
		return nil, mapped("get connection", err)
	}
	return &c, nil
}

// ByNames returns the connections with the given names in name order; names without one are left out.
func (s Connections) ByNames(ctx context.Context, names []string) ([]Connection, error) {
	found := []Connection{}
	if len(names) == 0 {
		return found, nil
	}
	err := s.live(ctx).Where("config_name = ANY(?)", textArray(names)).
		Order(`config_name COLLATE "C"`).Find(&found).Error
	if err != nil {
		return nil, mapped("find connections by name", err)
	}
	return found, nil
}

// List returns one page of the connections f describes, and how many there are on all pages together.
// Page and count are not taken at the same instant.
func (s Connections) List(ctx context.Context, f ConnectionFilter) ([]Connection, int64, error) {
	matching := func() *gorm.DB { return f.apply(s.live(ctx)) }
	var total int64
	if err := matching().Model(&Connection{}).Count(&total).Error; err != nil {
		return nil, 0, mapped("count connections", err)
	}
	page := []Connection{}
	if err := f.Page.apply(matching()).Find(&page).Error; err != nil {
		return nil, 0, mapped("list connections", err)
	}
	return page, total, nil
}

func (s Connections) live(ctx context.Context) *gorm.DB {
	return s.db.WithContext(ctx).Where("deleted_at IS NULL")
}

func (f ConnectionFilter) apply(q *gorm.DB) *gorm.DB {
	q = f.Window.apply(q)
	if f.Product != nil {
		q = q.Where("product_name = ?", *f.Product)
	}
	if f.Kind != nil {
		q = q.Where("kind = ?", *f.Kind)
	}
	if f.Unassigned {
		q = q.Where("product_name IS NULL")
	}
	if len(f.Metadata) > 0 {
		wanted := make(textArray, 0, len(f.Metadata))
		for _, m := range f.Metadata {
			wanted = append(wanted, metadataEntry(m.Path, m.Value))
		}
		q = q.Where("metadata_entries @> ?", wanted)
	}
	return q
}

func (w Window) apply(q *gorm.DB) *gorm.DB {
	if w == (Window{}) {
		return q
	}
	return q.Where("created_at BETWEEN ? AND ?", w.Start, w.End)
}

func (p Page) apply(q *gorm.DB) *gorm.DB {
	order := "created_at, id"
	if p.Desc {
		order = "created_at DESC, id DESC"
	}
	limit := max(p.Limit, 1)
	return q.Order(order).Limit(limit).Offset((max(p.Number, 1) - 1) * limit)
}

// elapsed is window before now; rows created later than that are inside the window.
func elapsed(window time.Duration) time.Time { return now().Add(-window) }
