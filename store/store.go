// Package store owns one tenant's database: its models, its queries and its migrations.
//
// It touches nothing but the *gorm.DB it was given, and knows no tenant: whoever holds a lease hands over the
// database that belongs to it, so a query can't reach any other. No other package writes SQL for these tables.
// Known outcomes are *problem.Error or the sentinel errors below; no error's text carries an address, a value or
// the server's own words.
package store

import (
	"database/sql"
	"fmt"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Open returns a GORM database over db, configured as this package's queries expect it.
// It sends nothing to the server; db stays the caller's to close.
func Open(db *sql.DB) (*gorm.DB, error) { return open(db) }

// OpenWith is Open with a second way to the same database, for the reads that requests make most.
func OpenWith(db *sql.DB, rows RowReader) (*gorm.DB, error) { return open(&readPool{db, rows}) }

func open(db gorm.ConnPool) (*gorm.DB, error) {
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{
		// GORM's logger prints statements with their arguments.
		Logger: logger.Discard,
		// Single statements are atomic by themselves; what needs a transaction opens one.
		SkipDefaultTransaction: true,
		// Columns are named in every SELECT, so that a migration which adds one does not break the running release.
		QueryFields: true,
		// Named prepared statements do not survive a pooler in transaction mode.
		PrepareStmt:          false,
		DisableAutomaticPing: true,
		NowFunc:              now,
	})
	if err != nil {
		return nil, fmt.Errorf("open gorm: %w", err)
	}
	return g, nil
}

// now has the precision Postgres keeps, so that a row reads back as it was written.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
