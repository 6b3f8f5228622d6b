package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// propagation is how long a running process may take to learn of a change, and a little more.
const propagation = 6 * time.Second

func newTenantDelete(output *string) *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use: "delete ID", Short: "Make a tenant unknown; with --purge also drop its data", Args: oneArg,
		Long: "Marks the tenant as deleted: every process answers as if it had never been, and nothing is lost, resume brings it back.\n" +
			"With --purge its stored objects are removed too, its database is dropped if --provision made it, and cleared of our\n" +
			"tables otherwise, and the id is free again. That can't be undone; a purge that failed half way can be repeated.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id := args[0]
			return withAdmin(cmd.Context(), func(ctx context.Context, cfg *config.Config, admin tenant.Admin) error {
				if err := confirmDelete(cmd, id, purge); err != nil {
					return err
				}
				deleted, err := admin.Delete(ctx, id)
				if err != nil {
					return fmt.Errorf("delete of tenant %s: %w", id, err)
				}
				if !purge {
					return printTenants(cmd.OutOrStdout(), *output, deleted)
				}
				if err := purgeTenant(ctx, cmd.ErrOrStderr(), cfg, admin, deleted); err != nil {
					return fmt.Errorf("purge of tenant %s: %w", id, err)
				}
				deleted.Status = "purged"
				return printTenants(cmd.OutOrStdout(), *output, deleted)
			})
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "drop its objects and its database")
	return cmd
}

const flagYes = "yes"

// confirmDelete has the operator type the tenant's id, unless --yes says it was thought about.
func confirmDelete(cmd *cobra.Command, id string, purge bool) error {
	if yes, err := cmd.Flags().GetBool(flagYes); err != nil || yes {
		return err
	}
	what := "deletes tenant " + id
	if purge {
		what += " and ALL ITS DATA, for good"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "This %s. Type the tenant's id to go on: ", what)
	typed, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the confirmation: %w", err)
	}
	if strings.TrimSpace(typed) != id {
		return usageError{errors.New("not confirmed; nothing was changed (--" + flagYes + " confirms)")}
	}
	return nil
}

// purgeTenant waits until no process serves the tenant any more, then removes its objects and its data.
func purgeTenant(ctx context.Context, progress io.Writer, cfg *config.Config, admin tenant.Admin, t control.Tenant) error {
	if !cfg.Results.URL.IsSet() {
		return usageError{errors.New("RESULTS_URL is required: it says where the tenant's objects are")}
	}
	fmt.Fprintf(progress, "waiting %s for running processes to let go of tenant %s\n", propagation, t.ID)
	select {
	case <-time.After(propagation):
	case <-ctx.Done():
		return ctx.Err()
	}
	return admin.Purge(ctx, t.ID, func(ctx context.Context) error {
		removed, err := removeObjects(ctx, cfg, admin, t.ID)
		fmt.Fprintf(progress, "%d objects removed\n", removed)
		return err
	})
}

// removeObjects removes the tenant's results and web documents, and returns how many objects they were.
func removeObjects(ctx context.Context, cfg *config.Config, admin tenant.Admin, id string) (removed int, _ error) {
	for _, bucket := range []struct {
		variable, prefix string
		url              config.Secret
	}{
		{"RESULTS_URL", cfg.Results.KeyPrefix, cfg.Results.URL},
		{"CONTENT_URL", "", cfg.Documents.ContentURL},
	} {
		if !bucket.url.IsSet() {
			continue
		}
		objects, failed := results.Open(ctx, bucket.url.Reveal(), admin.Keys, results.Options{KeyPrefix: bucket.prefix})
		if failed != nil {
			return removed, fmt.Errorf("opening %s: %w", bucket.variable, failed)
		}
		n, failed := objects.DeletePrefix(ctx, objects.Key(id)+"/")
		removed += n
		if failed = errors.Join(failed, objects.Close()); failed != nil {
			return removed, fmt.Errorf("removing objects of %s: %w", bucket.variable, failed)
		}
	}
	return removed, nil
}
