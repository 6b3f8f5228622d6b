package tenant

import (
	"context"

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store/control"
)

// registry is where tenants are known. Unknown tenants are control.ErrNoTenant.
type registry interface {
	get(ctx context.Context, id string) (control.Tenant, error)
	// changed compares known revisions and returns the newer records and the ids that are gone. Beside an error they
	// are right, but may not be all.
	changed(ctx context.Context, known map[string]int64) ([]control.Tenant, []string, error)
	// listen reports changed ids until ctx ends or it can't any more; the empty id when it begins.
	listen(ctx context.Context, fn func(id string)) error
	dsn(t control.Tenant) (string, error)
	// list returns the ids of the active tenants.
	list(ctx context.Context) ([]string, error)
}

// controlRegistry is the registry in the control database.
type controlRegistry struct {
	db   *control.DB
	keys *secret.Keyring
}

func (c controlRegistry) get(ctx context.Context, id string) (control.Tenant, error) {
	return c.db.GetTenant(ctx, id)
}

func (c controlRegistry) changed(ctx context.Context, known map[string]int64) ([]control.Tenant, []string, error) {
	return c.db.ChangedTenants(ctx, known)
}

func (c controlRegistry) listen(ctx context.Context, fn func(string)) error {
	return c.db.ListenTenants(ctx, fn)
}

func (c controlRegistry) dsn(t control.Tenant) (string, error) {
	return openDSN(c.keys, t.ID, t.DSNSealed)
}

func (c controlRegistry) list(ctx context.Context) ([]string, error) {
	all, err := c.db.ListTenants(ctx)
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(all))
	for _, t := range all {
		if t.Status == control.TenantActive {
			ids = append(ids, t.ID)
		}
	}
	return ids, nil
}

// singleRegistry has one entry that never changes.
type singleRegistry struct {
	id, address string
}

func (s singleRegistry) get(_ context.Context, id string) (control.Tenant, error) {
	if id != s.id {
		return control.Tenant{}, control.ErrNoTenant
	}
	return control.Tenant{ID: id, Name: id, Status: control.TenantActive, Revision: 1}, nil
}

func (s singleRegistry) changed(context.Context, map[string]int64) ([]control.Tenant, []string, error) {
	return nil, nil, nil
}

func (s singleRegistry) listen(ctx context.Context, fn func(string)) error {
	fn("")
	<-ctx.Done()
	return ctx.Err()
}

func (s singleRegistry) list(context.Context) ([]string, error) { return []string{s.id}, nil }

func (s singleRegistry) dsn(control.Tenant) (string, error) { return s.address, nil }
