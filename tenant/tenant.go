// Package tenant owns the way from a verified tenant id to that tenant's database: the registry's records, the
// connection pools and the leases on them, and whether all of that is in order.
//
// It is the only package that opens a tenant's database. It promises that a lease reaches the database of its tenant
// and no other, that a pool is never closed under a lease, that a lease on an open pool costs no I/O, and that every
// wait is bounded, so that one tenant's trouble stays that tenant's.
// Eviction, rotation, suspension and shutdown are one mechanism: the pool is unlinked, no new lease gets it, and it
// closes when the last one returns.
package tenant

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenantid"
)

// ErrReleased is what a database answers that was asked of a lease after its release.
var ErrReleased = errors.New("tenant: the lease was released")

// orgNamespace makes organisation ids out of tenant ids. It must never change.
var orgNamespace = uuid.MustParse("6f4bd0a6-2f5c-4b0b-9d0e-3f2c5a2e8b1d")

// OrgID returns the tenant's id as a UUID: itself when it is one, else a UUIDv5 of it.
func OrgID(tenantID string) uuid.UUID {
	if tenantid.IsUUID(tenantID) {
		return uuid.MustParse(tenantID)
	}
	return uuid.NewSHA1(orgNamespace, []byte(tenantID))
}

// Lease is the right to use one tenant's database until it is released. It is safe for concurrent use.
type Lease struct {
	router   *Router
	entry    *entry
	released atomic.Bool
}

// TenantID names the tenant, in canonical form.
func (l *Lease) TenantID() string { return l.entry.id }

// Generation numbers the pool behind the lease; no two pools of a process share a number.
func (l *Lease) Generation() uint64 { return l.entry.generation }

// DB returns the tenant's database for statements under ctx. What DB returns after Release fails every statement with
// ErrReleased; what it returned before must not be used any more, and nothing checks that.
func (l *Lease) DB(ctx context.Context) *gorm.DB {
	db := l.entry.pool.gorm.Session(&gorm.Session{NewDB: true, Context: ctx})
	if l.released.Load() {
		_ = db.AddError(ErrReleased) // keeps the error in db
	}
	return db
}

// Connections returns the queries on the tenant's connections: those of DB, but without a session for the statements of
// one context, which they don't need: each is told its own.
func (l *Lease) Connections(ctx context.Context) store.Connections {
	if l.released.Load() {
		return store.NewConnections(l.DB(ctx))
	}
	return store.NewConnections(l.entry.pool.gorm)
}

// Release gives the lease back. Only the first call does anything.
func (l *Lease) Release() {
	if l.released.CompareAndSwap(false, true) {
		l.router.giveBack(l.entry)
	}
}

type contextKey struct{}

// NewContext returns ctx with the lease of the request.
func NewContext(ctx context.Context, l *Lease) context.Context {
	return context.WithValue(ctx, contextKey{}, l)
}

// FromContext returns the lease of the request, or nil.
func FromContext(ctx context.Context) *Lease {
	l, _ := ctx.Value(contextKey{}).(*Lease)
	return l
}
