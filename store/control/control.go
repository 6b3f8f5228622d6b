// Package control owns the control database: the tenant registry, the leases of running jobs and the view of the
// queue that the sweeper needs.
//
// It touches nothing but the pool it was given. Every instant it stores or compares is the database's own, so the
// clocks of managers and workers do not matter. No error's text carries an address, a value or the server's words.
package control

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

// DB is the control database.
type DB struct{ pool *pgxpool.Pool }

// New returns the control database behind pool, which stays the caller's to close.
func New(pool *pgxpool.Pool) *DB { return &DB{pool: pool} }

// Pool returns the pool, for the queue that lives in the same database.
func (d *DB) Pool() *pgxpool.Pool { return d.pool }

// Unavailable reports whether err means that the control database can't be used at the moment.
func Unavailable(err error) bool { return pgerr.Of(err).Down() }
