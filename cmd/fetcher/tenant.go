package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// outputJSON is the --output of programs.
const outputJSON = "json"

// outputTable is the --output of people.
const outputTable = "table"

func newTenant() *cobra.Command {
	var output string
	cmd := group("tenant", "Manage the tenant registry", newTenantCreate(&output), newTenantList(&output), newTenantShow(&output),
		newTenantChange("suspend", "Refuse every request of a tenant until it is resumed", &output, plain(tenant.Admin.Suspend)),
		newTenantChange("resume", "Undo suspend", &output, plain(tenant.Admin.Resume)),
		newTenantSetDSN(&output), newTenantSetLimits(&output), newTenantMigrate(&output), newTenantCheck(&output),
		newTenantDelete(&output), newTenantWebhook(&output),
	)
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error {
		if output != outputTable && output != outputJSON {
			return usageError{errors.New("--output must be table or json")}
		}
		return nil
	}
	cmd.PersistentFlags().StringVar(&output, "output", outputTable, "table or json")
	cmd.PersistentFlags().Bool(flagYes, false, "never ask for confirmation")
	return cmd
}

func newTenantCreate(output *string) *cobra.Command {
	var (
		n         tenant.NewTenant
		limits    control.TenantLimits
		provision bool
	)
	cmd := &cobra.Command{
		Use: "create ID", Short: "Register a tenant, and migrate its database", Args: oneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (n.DSN == "") != provision {
				return usageError{errors.New("give either --dsn or --provision")}
			}
			if err := checkLimits(limits); err != nil {
				return err
			}
			n.ID, n.MaxConns, n.MaxRunningJobs, n.RateLimit = args[0], limits.MaxConns, limits.MaxRunningJobs, limits.RateLimit
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
	addLimits(cmd, &limits)
	return cmd
}

func addLimits(cmd *cobra.Command, l *control.TenantLimits) {
	cmd.Flags().IntVar(&l.MaxConns, "max-conns", 0, "connections to its database per process (0: TENANT_MAX_OPEN_CONNS)")
	cmd.Flags().IntVar(&l.MaxRunningJobs, "max-running-jobs", 0, "jobs that run at once over all workers (0: TENANT_MAX_RUNNING_JOBS)")
	cmd.Flags().Float64Var(&l.RateLimit, "rate-limit", 0, "requests per second to one process (0: TENANT_RATE_LIMIT)")
}

func checkLimits(l control.TenantLimits) error {
	if l.MaxConns < 0 || l.MaxRunningJobs < 0 || !(l.RateLimit >= 0) || math.IsInf(l.RateLimit, 1) {
		return usageError{errors.New("limits must be 0 or positive")}
	}
	if l.MaxConns > math.MaxInt32 || l.MaxRunningJobs > math.MaxInt32 { // what the registry holds
		return usageError{fmt.Errorf("limits must not be above %d", math.MaxInt32)}
	}
	return nil
}

func newTenantList(output *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List every tenant", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDirectory(cmd.Context(), func(ctx context.Context, _ *config.Config, tenants directory) error {
				all, err := tenants.List(ctx)
				if err != nil {
					return fmt.Errorf("listing tenants: %w", err)
				}
				return printTenants(cmd.OutOrStdout(), *output, all...)
			})
		},
	}
}

func newTenantShow(output *string) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one tenant", Args: oneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withDirectory(cmd.Context(), func(ctx context.Context, _ *config.Config, tenants directory) error {
				found, err := tenants.Get(ctx, args[0])
				if err != nil {
					return fmt.Errorf("show of tenant %s: %w", args[0], err)
				}
				return printTenants(cmd.OutOrStdout(), *output, found)
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

func newTenantSetLimits(output *string) *cobra.Command {
	var limits control.TenantLimits
	cmd := newTenantChange("set-limits", "Replace a tenant's limits; one that is not given becomes the default", output,
		func(ctx context.Context, _ *config.Config, admin tenant.Admin, id string) (control.Tenant, error) {
			if err := checkLimits(limits); err != nil {
				return control.Tenant{}, err
			}
			return admin.SetLimits(ctx, id, limits)
		})
	addLimits(cmd, &limits)
	return cmd
}

// tenantView is a tenant as the commands print it: never its address.
type tenantView struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Status    string    `json:"status"`
	OrgID     string    `json:"orgId"`
	MaxConns  int       `json:"maxConns"`
	MaxJobs   int       `json:"maxRunningJobs"`
	RateLimit float64   `json:"rateLimit"`
	Revision  int64     `json:"revision"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
}

func printTenants(w io.Writer, output string, tenants ...control.Tenant) error {
	views := make([]tenantView, len(tenants))
	for i, t := range tenants {
		views[i] = tenantView{
			t.ID, t.Name, string(t.Status), tenant.OrgID(t.ID).String(),
			t.MaxConns, t.MaxRunningJobs, t.RateLimit, t.Revision, t.CreatedAt.UTC(), t.UpdatedAt.UTC(),
		}
	}
	if output == outputJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(views)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tSTATUS\tORG ID\tMAX CONNS\tMAX JOBS\tRATE\tREVISION\tUPDATED")
	for _, v := range views {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", v.ID, v.Name, v.Status, v.OrgID,
			limit(float64(v.MaxConns)), limit(float64(v.MaxJobs)), limit(v.RateLimit), v.Revision, moment(v.UpdatedAt))
	}
	return table.Flush()
}

func limit(n float64) string {
	if n == 0 {
		return "default"
	}
	return strconv.FormatFloat(n, 'g', -1, 64)
}

// moment is when something happened, which a tenant manager does not tell.
func moment(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Format(time.RFC3339)
}
