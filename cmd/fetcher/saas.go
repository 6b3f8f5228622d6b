package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// errPlainDSN refuses a tenant database that would be talked to in clear.
var errPlainDSN = usageError{errors.New("--dsn must be TLS with DEPLOYMENT_MODE=saas: sslmode=require, verify-ca or verify-full")}

// checkTenantDSN refuses an address that the deployment mode does not allow.
func checkTenantDSN(cfg *config.Config, dsn string) error {
	if cfg.Server.DeploymentMode == config.ModeSaaS && !config.EncryptedDSN(dsn) {
		return errPlainDSN
	}
	return nil
}

// checkRegistry refuses to start while a tenant in the registry has an address that the deployment mode does not allow.
func checkRegistry(ctx context.Context, cfg *config.Config, admin tenant.Admin) error {
	if cfg.Server.DeploymentMode != config.ModeSaaS || !cfg.Tenants.Multi || cfg.Tenants.ManagerURL != "" {
		return nil
	}
	all, err := admin.List(ctx)
	if err != nil {
		return fmt.Errorf("listing tenants: %w", err)
	}
	var plain []string
	for _, t := range all {
		dsn, err := admin.DSN(t)
		if err != nil {
			return fmt.Errorf("opening the address of tenant %s: %w", t.ID, err)
		}
		if t.Status != control.TenantDeleted && !config.EncryptedDSN(dsn) {
			plain = append(plain, t.ID)
		}
	}
	if len(plain) > 0 {
		return fmt.Errorf("DEPLOYMENT_MODE=saas: the databases of these tenants are not TLS: %s", strings.Join(plain, ", "))
	}
	return nil
}
