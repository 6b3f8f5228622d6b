package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// directory reads tenants, wherever they are kept.
type directory interface {
	List(ctx context.Context) ([]control.Tenant, error)
	Get(ctx context.Context, tenantID string) (control.Tenant, error)
	DSN(t control.Tenant) (string, error)
}

var (
	// errManaged refuses to change what an external tenant manager owns.
	errManaged = usageError{errors.New("tenants are kept by the tenant manager of MULTI_TENANT_URL; change them there")}
	// errSingle refuses to change a registry that no process reads.
	errSingle = usageError{errors.New("there is one tenant, " + singleTenant + ", which can't be changed: MULTI_TENANT_ENABLED is false")}
)

// single is the directory of a deployment with one tenant.
type single struct{ dsn string }

// List returns the tenant.
func (s single) List(context.Context) ([]control.Tenant, error) {
	return []control.Tenant{{ID: singleTenant, Name: singleTenant, Status: control.TenantActive, Revision: 1}}, nil
}

// Get returns the tenant, or control.ErrNoTenant.
func (s single) Get(ctx context.Context, tenantID string) (control.Tenant, error) {
	if tenantID != singleTenant {
		return control.Tenant{}, control.ErrNoTenant
	}
	list, err := s.List(ctx)
	return list[0], err
}

// DSN returns the address of its database.
func (s single) DSN(control.Tenant) (string, error) { return s.dsn, nil }

func managerOf(cfg *config.Config) tenant.Manager {
	t := cfg.Tenants
	return tenant.Manager{
		URL: t.ManagerURL, APIKey: t.ManagerKey.Reveal(), Service: t.ManagerService, Module: t.ManagerModule,
		TLSOnly: cfg.Server.DeploymentMode == config.ModeSaaS,
	}
}

// withAdmin runs f with the registry of DATABASE_URL.
func withAdmin(ctx context.Context, f func(context.Context, *config.Config, tenant.Admin) error) error {
	return withRegistry(ctx, func(ctx context.Context, cfg *config.Config, pool *pgxpool.Pool) error {
		switch {
		case cfg.Tenants.ManagerURL != "":
			return errManaged
		case !cfg.Tenants.Multi:
			return errSingle
		}
		keys, err := newKeyring(cfg)
		if err != nil {
			return err
		}
		return f(ctx, cfg, tenant.Admin{Control: control.New(pool), Keys: keys})
	})
}

// withDirectory runs f with the tenants, read only.
func withDirectory(ctx context.Context, f func(context.Context, *config.Config, directory) error) error {
	return withRegistry(ctx, func(ctx context.Context, cfg *config.Config, pool *pgxpool.Pool) error {
		tenants, err := directoryOf(cfg, pool)
		if err != nil {
			return err
		}
		return f(ctx, cfg, tenants)
	})
}

func directoryOf(cfg *config.Config, pool *pgxpool.Pool) (directory, error) {
	if !cfg.Tenants.Multi {
		return single{singleDSN(cfg)}, nil
	}
	keys, err := newKeyring(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Tenants.ManagerURL == "" {
		return tenant.Admin{Control: control.New(pool), Keys: keys}, nil
	}
	managed, err := tenant.NewManaged(managerOf(cfg), keys)
	if err != nil {
		return nil, fmt.Errorf("reading the tenant manager: %w", err)
	}
	return managed, nil
}

// withRegistry runs f with the control database of DATABASE_URL, migrated.
func withRegistry(ctx context.Context, f func(context.Context, *config.Config, *pgxpool.Pool) error) error {
	cfg, err := loadConfig(config.RoleAdmin)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, cfg.Database.URL.Reveal())
	if err != nil {
		return errDatabaseURL
	}
	defer pool.Close()
	if err = migrateControl(ctx, pool, cfg.Tenants.AutoMigrate); err != nil {
		return err
	}
	keys, err := newKeyring(cfg)
	if err != nil {
		return err
	}
	if err = checkRing(ctx, pool, keys); err != nil {
		return err
	}
	return f(ctx, cfg, pool)
}
