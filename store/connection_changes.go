package store

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/fetcherhq/fetcher/problem"
)

// Then returns the queries with also run in the transaction that creates a connection, after its row is written: when
// it fails nothing is stored.
func (s Connections) Then(also func(Idempotency, *Connection) error) Connections {
	s.then = also
	return s
}

// Assign gives the connection a product if it has none, in one atomic statement, and returns it as it stands then.
// FET-1001 when there is no live one with that id, FET-1015 when it has a product.
func (s Connections) Assign(ctx context.Context, id uuid.UUID, product string) (*Connection, error) {
	var assigned []Connection
	err := s.db.WithContext(ctx).Model(&assigned).Clauses(clause.Returning{}).
		Where("id = ? AND deleted_at IS NULL AND product_name IS NULL", id).
		Updates(map[string]any{"product_name": product, "revision": gorm.Expr("revision + 1"), "updated_at": now()}).Error
	if err != nil {
		return nil, mapped("assign connection", err)
	}
	if len(assigned) == 1 {
		return &assigned[0], nil
	}
	if _, err := s.Get(ctx, id); err != nil {
		return nil, err
	}
	return nil, problem.New(problem.AlreadyAssigned, "the connection already has a product")
}

// Change stores what change makes of a connection, under the next revision, and returns it. In this order: FET-1001
// when there is no live one with that id, FET-1021 while a pending or processing job uses it, the error of change,
// FET-1002 when another live connection has its name. The row is locked meanwhile, so that none of this changes before
// it is stored; change must not take long. Nothing is stored when there is an error.
func (s Connections) Change(ctx context.Context, id uuid.UUID, change func(*Connection) error) (*Connection, error) {
	return s.locked(ctx, "update connection", id, func(tx *gorm.DB, c *Connection) error {
		if err := change(c); err != nil {
			return err
		}
		return saveConnection(tx, c)
	})
}

// Delete makes the connection invisible, wipes its secrets and frees its name. In this order: FET-1001 and FET-1021 as
// in Change, then the error of check, which may be nil for no check.
func (s Connections) Delete(ctx context.Context, id uuid.UUID, check func(*Connection) error) error {
	_, err := s.locked(ctx, "delete connection", id, func(tx *gorm.DB, c *Connection) error {
		if check != nil {
			if err := check(c); err != nil {
				return err
			}
		}
		deleted := now()
		c.DeletedAt, c.UpdatedAt = &deleted, deleted
		c.PasswordSealed, c.SSLCASealed, c.SSLCertSealed, c.SSLKeySealed = nil, nil, nil, nil
		if err := saveConnection(tx, c); err != nil {
			return err
		}
		return tx.Exec("DELETE FROM connection_tests WHERE connection_id = ?", id).Error
	})
	return err
}

// locked runs do in a transaction that holds the connection's row, once no active job uses it.
func (s Connections) locked(
	ctx context.Context, op string, id uuid.UUID, do func(*gorm.DB, *Connection) error,
) (*Connection, error) {
	var c Connection
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec(lockTimeout).Error; err != nil {
			return err
		}
		err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).
			Where("id = ? AND deleted_at IS NULL", id).Take(&c).Error
		if errors.Is(err, gorm.ErrRecordNotFound) {
			return connectionNotFound()
		}
		if err != nil {
			return err
		}
		used, err := inUse(tx, c.ConfigName)
		if err != nil {
			return err
		}
		if used {
			return problem.New(problem.ConnectionInUse, "a job that is not finished uses the connection")
		}
		return do(tx, &c)
	})
	if err != nil {
		return nil, mapped(op, err)
	}
	return &c, nil
}

// inUse reports whether a pending or processing job reads the datasource of that name.
func inUse(tx *gorm.DB, name string) (bool, error) {
	var used bool
	err := tx.Raw(`SELECT EXISTS (SELECT 1 FROM jobs WHERE status IN ('pending', 'processing') AND datasources @> ?)`,
		textArray{name}).Scan(&used).Error
	return used, err
}

// saveConnection writes every column of a row that is locked.
func saveConnection(tx *gorm.DB, c *Connection) error {
	entries, err := metadataEntries(c.Metadata)
	if err != nil {
		return err
	}
	c.Revision++
	row := connectionRow{Connection: *c, MetadataEntries: entries}
	return nameTaken(tx.Model(&row).Select("*").Omit("id", "created_at").UpdateColumns(&row).Error)
}
