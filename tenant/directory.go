package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenantid"
)

// Managed reads the tenants of an external manager, as Admin does those of the registry.
type Managed struct {
	registry *managedRegistry
}

// NewManaged returns the tenants that m knows. It asks nothing yet.
func NewManaged(m Manager, keys *secret.Keyring) (*Managed, error) {
	reg, err := newManagedRegistry(m, keys, Options{MaxRecords: 1, CacheTTL: time.Minute, Now: time.Now})
	if err != nil {
		return nil, err
	}
	return &Managed{reg}, nil
}

// List returns the active tenants in id order. One whose settings can't be had, or are not usable, has no address.
func (m *Managed) List(ctx context.Context) ([]control.Tenant, error) {
	ids, err := m.registry.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	slices.Sort(ids)
	list := make([]control.Tenant, 0, len(ids))
	for _, id := range ids {
		t, err := m.registry.get(ctx, id)
		switch {
		case errors.Is(err, control.ErrNoTenant): // gone meanwhile
		case ctx.Err() != nil:
			return nil, fmt.Errorf("look up tenant %s: %w", id, ctx.Err())
		case err != nil:
			list = append(list, control.Tenant{ID: id, Name: id, Status: control.TenantActive})
		default:
			list = append(list, t)
		}
	}
	return list, nil
}

// Get returns one tenant, or control.ErrNoTenant.
func (m *Managed) Get(ctx context.Context, tenantID string) (control.Tenant, error) {
	id, ok := tenantid.Canonical(tenantID)
	if !ok {
		return control.Tenant{}, control.ErrNoTenant
	}
	return m.registry.get(ctx, id)
}

// DSN returns the address of the tenant's database, with its password.
func (m *Managed) DSN(t control.Tenant) (string, error) {
	if t.DSNSealed == nil {
		return "", errManagerBroken
	}
	return m.registry.dsn(t)
}
