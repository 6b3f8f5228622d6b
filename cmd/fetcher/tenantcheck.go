package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

func newTenantMigrate(output *string) *cobra.Command {
	var parallel int
	cmd := &cobra.Command{
		Use: "migrate ID...", Short: "Migrate the databases of some tenants; fetcher migrate does all", Args: someArgs,
		RunE: func(cmd *cobra.Command, ids []string) error {
			return withDirectory(cmd.Context(), func(ctx context.Context, _ *config.Config, tenants directory) error {
				var chosen []control.Tenant
				for _, id := range ids {
					t, err := tenants.Get(ctx, id)
					if err != nil {
						return fmt.Errorf("migrate of tenant %s: %w", id, err)
					}
					chosen = append(chosen, t)
				}
				targets := targetsOf(tenants, chosen)
				if *output != outputJSON {
					_, err := migrateAll(ctx, cmd.OutOrStdout(), targets, parallel)
					return err
				}
				views, failed := migrateAll(ctx, cmd.ErrOrStderr(), targets, parallel)
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return errors.Join(failed, enc.Encode(views))
			})
		},
	}
	cmd.Flags().IntVar(&parallel, "parallel", 8, "databases migrated at once")
	return cmd
}

// someArgs demands at least one argument.
func someArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.MinimumNArgs(1)(cmd, args); err != nil {
		return usageError{err}
	}
	return nil
}

const checkParallel = 8 // databases looked at once

func newTenantCheck(output *string) *cobra.Command {
	return &cobra.Command{
		Use: "check [ID...]", Short: "Look at tenants' databases: reachable, migrated; all tenants by default", Args: cobra.ArbitraryArgs,
		Long: "Opens one connection to each tenant's database and reports whether it answers and which schema version it has.\n" +
			"Exits with 1 if an active tenant could not be served.",
		RunE: func(cmd *cobra.Command, ids []string) error {
			return withRegistry(cmd.Context(), func(ctx context.Context, cfg *config.Config, pool *pgxpool.Pool) error {
				views, err := checkTenants(ctx, cfg, pool, ids)
				if err != nil {
					return err
				}
				if err := printChecks(cmd.OutOrStdout(), *output, views); err != nil {
					return err
				}
				return unready(views)
			})
		},
	}
}

// checkView is the state of a tenant's database as the command prints it.
type checkView struct {
	ID        string `json:"id"`
	State     string `json:"state"` // ready, suspended, migrate, down or unknown
	Code      string `json:"code,omitempty"`
	LatencyMS int64  `json:"latencyMs"`
	Version   int64  `json:"version"`
	Latest    int64  `json:"latest"`
}

func checkTenants(ctx context.Context, cfg *config.Config, pool *pgxpool.Pool, ids []string) (views []checkView, err error) {
	keys, err := newKeyring(cfg)
	if err != nil {
		return nil, err
	}
	router, err := tenant.NewRouter(ctx, routerOptions(cfg, control.New(pool), keys))
	if err != nil {
		return nil, fmt.Errorf("starting the tenant router: %w", err)
	}
	defer func() { err = errors.Join(err, router.Close(context.WithoutCancel(ctx))) }()
	if len(ids) == 0 {
		if ids, err = router.Tenants(ctx); err != nil {
			return nil, fmt.Errorf("checking tenants: %w", err)
		}
	}
	views = make([]checkView, len(ids))
	var group errgroup.Group
	group.SetLimit(checkParallel)
	for i, id := range ids {
		group.Go(func() error {
			ready, err := router.Readiness(ctx, id)
			views[i] = viewCheck(id, ready, err)
			return nil
		})
	}
	return views, group.Wait()
}

func viewCheck(id string, r tenant.Readiness, err error) checkView {
	v := checkView{ID: id, State: "ready", LatencyMS: r.Latency.Milliseconds(), Version: r.Current, Latest: r.Latest}
	switch {
	case err != nil:
		v.State, v.Code = "down", string(problem.CodeOf(err))
		if problem.CodeOf(err) == problem.TenantUnknown {
			v.State = "unknown"
		}
	case r.Suspended:
		v.State = "suspended"
	case r.Err != nil:
		v.State, v.Code = "down", string(problem.CodeOf(r.Err))
	case r.Current < r.Latest:
		v.State = "migrate"
	}
	return v
}

func unready(views []checkView) error {
	var ids []string
	for _, v := range views {
		if v.State != "ready" && v.State != "suspended" {
			ids = append(ids, v.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return fmt.Errorf("%d of %d tenants are not ready: %s", len(ids), len(views), strings.Join(ids, ", "))
}

func printChecks(w io.Writer, output string, views []checkView) error {
	if output == outputJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(views)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATE\tLATENCY\tSCHEMA\tCODE")
	for _, v := range views {
		schema := "-"
		if v.Latest > 0 {
			schema = fmt.Sprintf("%d/%d", v.Version, v.Latest)
		}
		fmt.Fprintf(table, "%s\t%s\t%d ms\t%s\t%s\n", v.ID, v.State, v.LatencyMS, schema, v.Code)
	}
	return table.Flush()
}
