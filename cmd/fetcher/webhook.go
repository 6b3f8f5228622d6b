package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/events"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// newTenantWebhook manages where a tenant's events are posted.
func newTenantWebhook(output *string) *cobra.Command {
	return group("webhook", "Post a tenant's events to a URL of its own",
		newWebhookSet(output),
		newWebhookChange("show", "Show where a tenant's events are posted, and the secret", output, showWebhook),
		newWebhookChange("remove", "Post a tenant's events no longer", output, removeWebhook),
	)
}

type webhookChange func(ctx context.Context, cfg *config.Config, admin tenant.Admin, id string) (*events.Webhook, error)

func newWebhookChange(use, short string, output *string, change webhookChange) *cobra.Command {
	return &cobra.Command{
		Use: use + " ID", Short: short, Args: oneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withRegistry(cmd.Context(), func(ctx context.Context, cfg *config.Config, pool *pgxpool.Pool) error {
				keys, err := newKeyring(cfg)
				if err != nil {
					return err
				}
				tenants, err := directoryOf(cfg, pool)
				if err != nil {
					return err
				}
				admin := tenant.Admin{Control: control.New(pool), Keys: keys}
				t, err := tenants.Get(ctx, args[0])
				var hook *events.Webhook
				if err == nil {
					hook, err = change(ctx, cfg, admin, t.ID)
				}
				if err != nil {
					return fmt.Errorf("webhook of tenant %s: %w", args[0], err)
				}
				return printWebhook(cmd.OutOrStdout(), *output, t.ID, hook)
			})
		},
	}
}

func newWebhookSet(output *string) *cobra.Command {
	var hook events.Webhook
	cmd := newWebhookChange("set", "Post a tenant's events to a URL, signed with a secret", output,
		func(ctx context.Context, cfg *config.Config, admin tenant.Admin, id string) (*events.Webhook, error) {
			if hook.Secret == "" {
				hook.Secret = events.GenerateWebhookSecret()
			}
			if err := checkWebhook(cfg, hook); err != nil {
				return nil, usageError{err}
			}
			sealed, err := events.SealWebhook(admin.Keys, id, hook)
			if err != nil {
				return nil, err
			}
			return &hook, admin.Control.SetWebhook(ctx, id, sealed)
		})
	cmd.Flags().StringVar(&hook.URL, "url", "", "https:// URL (required)")
	cmd.Flags().StringVar(&hook.Secret, "secret", "", "whsec_ and base64 of 24 to 64 bytes (default a new random one)")
	return cmd
}

// checkWebhook refuses what the dispatcher could not post to.
func checkWebhook(cfg *config.Config, hook events.Webhook) error {
	if err := hook.Validate(); err != nil {
		return err
	}
	host, err := hook.Host()
	if err != nil {
		return err
	}
	guard, err := newGuard(cfg)
	if err != nil {
		return err
	}
	if err := guard.CheckHost(host); errors.Is(err, dial.ErrNotAllowed) {
		return errors.New("the webhook's host is not allowed")
	}
	return nil
}

func showWebhook(ctx context.Context, _ *config.Config, admin tenant.Admin, id string) (*events.Webhook, error) {
	sealed, err := admin.Control.Webhook(ctx, id)
	if errors.Is(err, control.ErrNoWebhook) {
		return nil, nil //nolint:nilnil // none is something to show, too
	}
	if err != nil {
		return nil, err
	}
	hook, err := events.OpenWebhook(admin.Keys, id, sealed)
	return &hook, err
}

func removeWebhook(ctx context.Context, _ *config.Config, admin tenant.Admin, id string) (*events.Webhook, error) {
	return nil, admin.Control.RemoveWebhook(ctx, id)
}

func printWebhook(w io.Writer, output, id string, hook *events.Webhook) error {
	view := struct {
		ID     string `json:"id"`
		URL    string `json:"url,omitempty"`
		Secret string `json:"secret,omitempty"`
	}{ID: id}
	if hook != nil {
		view.URL, view.Secret = hook.URL, hook.Secret
	}
	if output == outputJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(view) //nolint:gosec // the secret is what is asked for
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tURL\tSECRET")
	if hook == nil {
		view.URL, view.Secret = "none", "none"
	}
	fmt.Fprintf(table, "%s\t%s\t%s\n", view.ID, view.URL, view.Secret)
	return table.Flush()
}
