package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/rotation"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

func newKeysRotate() *cobra.Command {
	var only, output string
	cmd := &cobra.Command{
		Use: "rotate", Short: "Seal everything that is stored anew, under the current master key", Args: noArgs,
		Long: "Give every process the new key as APP_ENC_KEY with a higher APP_ENC_KEY_VERSION, and the old one in\n" +
			"APP_ENC_KEYS_RETIRED, before this runs. It may be stopped at any moment and run again. When it has ended well,\n" +
			"without --tenant, the old key can be removed.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != outputTable && output != outputJSON {
				return usageError{errors.New("--output must be table or json")}
			}
			cfg, err := loadConfig(config.RoleAdmin)
			if err != nil {
				return err
			}
			if !cfg.Results.URL.IsSet() {
				return usageError{errors.New("RESULTS_URL is required: results are encrypted anew, too")}
			}
			return withTenants(cmd.Context(), func(ctx context.Context, db *control.DB, router *tenant.Router) error {
				return rotate(ctx, cfg, db, router, rotateOptions{only, output, cmd.OutOrStdout(), cmd.ErrOrStderr()})
			})
		},
	}
	cmd.Flags().StringVar(&only, "tenant", "", "only this tenant's database and results")
	cmd.Flags().StringVar(&output, "output", outputTable, "table or json")
	return cmd
}

type rotateOptions struct {
	only, output  string
	out, progress io.Writer
}

// rotatedView is what was sealed anew of one tenant, or of the registry.
type rotatedView struct {
	rotation.Counts

	TenantID string `json:"tenantId,omitempty"`
	Error    string `json:"error,omitempty"`
}

func rotate(ctx context.Context, cfg *config.Config, db *control.DB, router *tenant.Router, o rotateOptions) (err error) {
	keys, err := newKeyring(cfg)
	if err != nil {
		return err
	}
	objects, err := results.Open(ctx, cfg.Results.URL.Reveal(), keys, results.Options{KeyPrefix: cfg.Results.KeyPrefix})
	if err != nil {
		return fmt.Errorf("opening RESULTS_URL: %w", err)
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	r := &rotation.Rotator{Control: db, Tenants: router, Keys: keys, Store: objects, SingleTenant: !cfg.Tenants.Multi}
	if cfg.Documents.ContentURL.IsSet() {
		if r.Content, err = results.Open(ctx, cfg.Documents.ContentURL.Reveal(), keys, results.Options{}); err != nil {
			return fmt.Errorf("opening CONTENT_URL: %w", err)
		}
		defer func() { err = errors.Join(err, r.Content.Close()) }()
	}
	ids := []string{o.only}
	var views []rotatedView
	if o.only == "" {
		counts, failed := r.Registry(ctx)
		views = append(views, rotatedView{Counts: counts, Error: text(failed)})
		var deleted []string
		if ids, deleted, err = storedTenants(ctx, cfg, db); err != nil {
			return err
		}
		for _, id := range deleted { // after a resume it would need the old key
			views = append(views, rotatedView{TenantID: id, Error: "the tenant is deleted: purge it, or resume it first"})
		}
	}
	var faulty []string
	for i, id := range ids {
		fmt.Fprintf(o.progress, "[%d/%d] tenant %s\n", i+1, len(ids), id) // its results may take long
		counts, failed := r.Tenant(ctx, id)
		views = append(views, rotatedView{Counts: counts, TenantID: id, Error: text(failed)})
	}
	for _, v := range views {
		if v.Error != "" {
			faulty = append(faulty, v.name())
		}
	}
	if err := printRotated(o, views); err != nil {
		return err
	}
	if len(faulty) > 0 {
		return fmt.Errorf("not everything could be sealed anew, of: %s", strings.Join(faulty, ", "))
	}
	if o.only != "" {
		return nil
	}
	return r.Finish(ctx)
}

func (v rotatedView) name() string {
	if v.TenantID == "" {
		return "(registry)"
	}
	return v.TenantID
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// storedTenants lists the tenants whose database can be opened, and those that are deleted and not purged yet.
func storedTenants(ctx context.Context, cfg *config.Config, db *control.DB) (ids, deleted []string, err error) {
	tenants, err := directoryOf(cfg, db.Pool())
	if err != nil {
		return nil, nil, err
	}
	all, err := tenants.List(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("listing tenants: %w", err)
	}
	for _, t := range all {
		if t.Status == control.TenantDeleted {
			deleted = append(deleted, t.ID)
		} else {
			ids = append(ids, t.ID)
		}
	}
	return ids, deleted, nil
}

func printRotated(o rotateOptions, views []rotatedView) error {
	if o.output == outputJSON {
		enc := json.NewEncoder(o.out)
		enc.SetIndent("", "  ")
		return enc.Encode(views)
	}
	table := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OF\tREGISTRY\tCONNECTIONS\tFINGERPRINTS\tFILTERS\tRESULTS\tCONTENTS\tERROR")
	for _, v := range views {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n",
			v.name(), v.Registry, v.Connections, v.Fingerprints, v.Filters, v.Results, v.Contents, v.Error)
	}
	return table.Flush()
}

// missingLimit bounds the look for what can't be read at the start.
const missingLimit = 30 * time.Second

// checkKeys says what can't be read because a version of the master key is missing. The process starts all the same.
func (a *app) checkKeys(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, missingLimit)
	defer cancel()
	r := &rotation.Rotator{Control: a.control, Tenants: a.router, Keys: a.keys}
	missing, err := r.Missing(ctx, func(ctx context.Context) ([]string, error) {
		ids, _, err := storedTenants(ctx, a.cfg, a.control)
		return ids, err
	})
	if err != nil {
		a.log.LogAttrs(ctx, slog.LevelWarn, "looking for missing keys failed", slog.Any("error", err))
	}
	for _, m := range missing {
		a.log.LogAttrs(ctx, slog.LevelError, "a version of the master key is in use but not given: what is sealed under it can't be read",
			slog.Int("version", m.Version), slog.Int("tenant_addresses", m.Addresses), slog.Int("webhooks", m.Webhooks),
			slog.Int("connections", m.Connections), slog.Int("filters", m.Filters), slog.Int("results", m.Results), slog.Int("contents", m.Contents), slog.Int("tenants_unknown", m.Unknown))
	}
}
