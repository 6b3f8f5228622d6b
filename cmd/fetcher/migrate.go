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
			fmt.Fprintln(cmd.OutOrStdout(), "control database: up to date")
			targets, err := migrationTargets(cmd.Context(), cfg, pool)
			if err != nil {
				return err
			}
			return migrateAll(cmd.Context(), cmd.OutOrStdout(), targets, parallel)
		},
	}
	cmd.Flags().IntVar(&parallel, "parallel", 8, "databases migrated at once")
	return cmd
}

// migrationTargets is the address of every tenant's database, by tenant.
func migrationTargets(ctx context.Context, cfg *config.Config, pool *pgxpool.Pool) (map[string]string, error) {
	if !cfg.Tenants.Multi {
		a := &app{cfg: cfg}
		return map[string]string{singleTenant: a.singleDSN()}, nil
	}
	keys, err := newKeyring(cfg)
	if err != nil {
		return nil, err
	}
	admin := tenant.Admin{Control: control.New(pool), Keys: keys}
	all, err := admin.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing tenants: %w", err)
	}
	targets := map[string]string{}
	for _, t := range all {
		if t.Status == control.TenantDeleted {
			continue
		}
		if targets[t.ID], err = admin.DSN(t); err != nil {
			return nil, fmt.Errorf("opening the address of tenant %s: %w", t.ID, err)
		}
	}
	return targets, nil
}

// migrateAll migrates every target and fails with the names of those that could not be.
func migrateAll(ctx context.Context, out io.Writer, targets map[string]string, parallel int) error {
	var (
		mu     sync.Mutex
		done   int
		failed []string
		group  errgroup.Group
	)
	group.SetLimit(max(parallel, 1))
	for id, dsn := range targets {
		group.Go(func() error {
			limited, cancel := context.WithTimeout(ctx, migrateLimit)
			defer cancel()
			err := tenant.Migrate(limited, id, dsn)
			mu.Lock()
			defer mu.Unlock()
			done++
			outcome := "up to date"
			if err != nil {
				outcome = "FAILED: " + err.Error()
				failed = append(failed, id)
			}
			fmt.Fprintf(out, "[%d/%d] tenant %s: %s\n", done, len(targets), id, outcome)
			return nil
		})
	}
	_ = group.Wait() // failures are collected by name
	if len(failed) > 0 {
		slices.Sort(failed)
		return fmt.Errorf("%d of %d tenants failed: %s", len(failed), len(targets), strings.Join(failed, ", "))
	}
	return nil
}
