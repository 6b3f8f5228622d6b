package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// outputJSON is the value of --output for programs.
const outputJSON = "json"

func newTenant() *cobra.Command {
	var output string
	cmd := group("tenant", "Manage the tenant registry", newTenantCreate(&output), newTenantList(&output),
		newTenantChange("show", "Show one tenant", &output, plain(tenant.Admin.Get)),
		newTenantChange("suspend", "Refuse every request of a tenant until it is resumed", &output, plain(tenant.Admin.Suspend)),
		newTenantChange("resume", "Undo suspend", &output, plain(tenant.Admin.Resume)),
		newTenantSetDSN(&output), newTenantWebhook(&output),
	)
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error {
		if output != "table" && output != outputJSON {
			return usageError{errors.New("--output must be table or json")}
		}
		return nil
	}
	cmd.PersistentFlags().StringVar(&output, "output", "table", "table or json")
	// No command asks yet: none destroys anything. Scripts that say yes to all of them work already.
	cmd.PersistentFlags().Bool("yes", false, "never ask for confirmation")
	return cmd
}

func newTenantCreate(output *string) *cobra.Command {
	var (
		n         tenant.NewTenant
		provision bool
	)
	cmd := &cobra.Command{
		Use: "create ID", Short: "Register a tenant, and migrate its database", Args: oneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (n.DSN == "") != provision {
				return usageError{errors.New("give either --dsn or --provision")}
			}
			n.ID = args[0]
			return withAdmin(cmd.Context(), func(ctx context.Context, cfg *config.Config, admin tenant.Admin) error {
				if err := checkTenantDSN(cfg, n.DSN); err != nil && !provision {
					return err
				}
				made, err := admin.Create(ctx, n)
				if err != nil {
					return fmt.Errorf("creating tenant %s: %w", n.ID, err)
				}
				return printTenants(cmd.OutOrStdout(), *output, made)
			})
		},
	}
	cmd.Flags().StringVar(&n.Name, "name", "", "name (default the id)")
	cmd.Flags().StringVar(&n.DSN, "dsn", "", "URL of an existing database")
	cmd.Flags().BoolVar(&provision, "provision", false, "create a role and a database on the control server")
	cmd.Flags().IntVar(&n.MaxConns, "max-conns", 0, "connections to its database per process (default TENANT_MAX_OPEN_CONNS)")
	return cmd
}

func newTenantList(output *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List every tenant", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withAdmin(cmd.Context(), func(ctx context.Context, _ *config.Config, admin tenant.Admin) error {
				all, err := admin.List(ctx)
				if err != nil {
					return fmt.Errorf("listing tenants: %w", err)
				}
				return printTenants(cmd.OutOrStdout(), *output, all...)
			})
		},
	}
}

// newTenantChange is a command that does one thing with one tenant and prints it.
func newTenantChange(
	use, short string, output *string, change func(context.Context, *config.Config, tenant.Admin, string) (control.Tenant, error),
) *cobra.Command {
	return &cobra.Command{
		Use: use + " ID", Short: short, Args: oneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withAdmin(cmd.Context(), func(ctx context.Context, cfg *config.Config, admin tenant.Admin) error {
				changed, err := change(ctx, cfg, admin, args[0])
				if err != nil {
					return fmt.Errorf("%s of tenant %s: %w", use, args[0], err)
				}
				return printTenants(cmd.OutOrStdout(), *output, changed)
			})
		},
	}
}

// plain is a change that the configuration does not matter to.
func plain(change func(tenant.Admin, context.Context, string) (control.Tenant, error)) func(context.Context, *config.Config, tenant.Admin, string) (control.Tenant, error) {
	return func(ctx context.Context, _ *config.Config, admin tenant.Admin, id string) (control.Tenant, error) {
		return change(admin, ctx, id)
	}
}

func newTenantSetDSN(output *string) *cobra.Command {
	var dsn string
	cmd := newTenantChange("set-dsn", "Give a tenant's database another address or password", output,
		func(ctx context.Context, cfg *config.Config, admin tenant.Admin, id string) (control.Tenant, error) {
			if dsn == "" {
				return control.Tenant{}, usageError{errors.New("--dsn is required")}
			}
			if err := checkTenantDSN(cfg, dsn); err != nil {
				return control.Tenant{}, err
			}
			return admin.SetDSN(ctx, id, dsn)
		})
	cmd.Flags().StringVar(&dsn, "dsn", "", "URL of the database (required)")
	return cmd
}

// withAdmin runs f with the registry of DATABASE_URL.
func withAdmin(ctx context.Context, f func(context.Context, *config.Config, tenant.Admin) error) error {
	cfg, err := loadConfig(config.RoleAdmin)
	if err != nil {
		return err
	}
	keys, err := newKeyring(cfg)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, cfg.Database.URL.Reveal())
	if err != nil {
		return errDatabaseURL
	}
	defer pool.Close()
	if err := migrateControl(ctx, pool, cfg.Tenants.AutoMigrate); err != nil {
		return err
	}
	return f(ctx, cfg, tenant.Admin{Control: control.New(pool), Keys: keys})
}

// tenantView is a tenant as the commands print it: never its address.
type tenantView struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Status    string    `json:"status"`
	OrgID     string    `json:"orgId"`
	MaxConns  int       `json:"maxConns"`
	Revision  int64     `json:"revision"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

func printTenants(w io.Writer, output string, tenants ...control.Tenant) error {
	views := make([]tenantView, len(tenants))
	for i, t := range tenants {
		views[i] = tenantView{
			t.ID, t.Name, string(t.Status), tenant.OrgID(t.ID).String(), t.MaxConns, t.Revision, t.CreatedAt.UTC(), t.UpdatedAt.UTC(),
		}
	}
	if output == outputJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(views)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tSTATUS\tORG ID\tMAX CONNS\tREVISION\tUPDATED")
	for _, v := range views {
		conns := "default"
		if v.MaxConns > 0 {
			conns = strconv.Itoa(v.MaxConns)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", v.ID, v.Name, v.Status, v.OrgID, conns, v.Revision, v.UpdatedAt.Format(time.RFC3339))
	}
	return table.Flush()
}
