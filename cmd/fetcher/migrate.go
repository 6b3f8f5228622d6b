package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

func newMigrate() *cobra.Command {
	var parallel int
	cmd := &cobra.Command{
		Use: "migrate", Short: "Migrate the control database and every tenant's", Args: noArgs,
		Long: "Migrates the control database, then every tenant's database, several at once. A tenant that fails does not stop\n" +
			"the others; it is named at the end, and running the command again does what is left.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(config.RoleAdmin)
			if err != nil {
				return err
			}
			pool, err := pgxpool.New(cmd.Context(), cfg.Database.URL.Reveal())
			if err != nil {
				return errDatabaseURL
			}
			defer pool.Close()
			if err = migrateControl(cmd.Context(), pool, true); err != nil {
				return err
			}
			keys, err := newKeyring(cfg)
			if err != nil {
				return err
			}
			if err = checkRing(cmd.Context(), pool, keys); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "control database: up to date")
			targets, err := migrationTargets(cmd.Context(), cfg, pool)
			if err != nil {
				return err
			}
			_, err = migrateAll(cmd.Context(), cmd.OutOrStdout(), targets, parallel)
			return err
		},
	}
	cmd.Flags().IntVar(&parallel, "parallel", 8, "databases migrated at once")
	return cmd
}

// migrationTarget is one tenant's database. One without an address can't be migrated, and says why.
type migrationTarget struct {
	id, dsn string
	err     error
}

// migrationTargets is every tenant's database.
func migrationTargets(ctx context.Context, cfg *config.Config, pool *pgxpool.Pool) ([]migrationTarget, error) {
	tenants, err := directoryOf(cfg, pool)
	if err != nil {
		return nil, err
	}
	all, err := tenants.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing tenants: %w", err)
	}
	return targetsOf(tenants, all), nil
}

func targetsOf(tenants directory, all []control.Tenant) []migrationTarget {
	var targets []migrationTarget
	for _, t := range all {
		if t.Status == control.TenantDeleted {
			continue
		}
		dsn, err := tenants.DSN(t)
		targets = append(targets, migrationTarget{t.ID, dsn, err})
	}
	return targets
}

// migrationView is what became of one tenant's database, as the command prints it.
type migrationView struct {
	ID    string `json:"id"`
	Error string `json:"error,omitempty"`
}

// migrateAll migrates every target, telling of its progress, and fails with the names of those that could not be.
func migrateAll(ctx context.Context, progress io.Writer, targets []migrationTarget, parallel int) ([]migrationView, error) {
	var (
		mu     sync.Mutex
		done   int
		failed []string
		group  errgroup.Group
	)
	views := make([]migrationView, len(targets))
	group.SetLimit(max(parallel, 1))
	for i, target := range targets {
		group.Go(func() error {
			err := target.migrate(ctx)
			mu.Lock()
			defer mu.Unlock()
			done++
			outcome := "up to date"
			views[i].ID = target.id
			if err != nil {
				views[i].Error = err.Error()
				outcome = "FAILED: " + err.Error()
				failed = append(failed, target.id)
			}
			fmt.Fprintf(progress, "[%d/%d] tenant %s: %s\n", done, len(targets), target.id, outcome)
			return nil
		})
	}
	_ = group.Wait() // failures are collected by name
	if len(failed) > 0 {
		slices.Sort(failed)
		return views, fmt.Errorf("%d of %d tenants failed: %s", len(failed), len(targets), strings.Join(failed, ", "))
	}
	return views, nil
}

func (t migrationTarget) migrate(ctx context.Context) error {
	if t.err != nil {
		return t.err
	}
	limited, cancel := context.WithTimeout(ctx, migrateLimit)
	defer cancel()
	return tenant.Migrate(limited, t.id, t.dsn)
}
