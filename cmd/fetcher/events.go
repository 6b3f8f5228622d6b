package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/tenantid"
)

func newEvents() *cobra.Command {
	return group("events", "Look after the events of jobs", newEventsReplay())
}

// replay says which parked events are meant.
type replay struct {
	tenant, job string
	dryRun      bool
	output      string

	jobID *uuid.UUID
}

func newEventsReplay() *cobra.Command {
	var r replay
	cmd := &cobra.Command{
		Use: "replay", Short: "List the events that were given up, and send them again", Args: noArgs,
		Long: "Events that a broker or webhook did not take within 24 hours are parked. This lists them and makes them due again,\n" +
			"through the transports that did not take them; workers send them within moments.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.validate(); err != nil {
				return usageError{err}
			}
			return withTenants(cmd.Context(), func(ctx context.Context, db *control.DB, router *tenant.Router) error {
				return r.run(ctx, cmd.OutOrStdout(), db, router)
			})
		},
	}
	cmd.Flags().StringVar(&r.tenant, "tenant", "", "only this tenant's")
	cmd.Flags().StringVar(&r.job, "job", "", "only this job's")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "only list them")
	cmd.Flags().StringVar(&r.output, "output", outputTable, "table or json")
	return cmd
}

func (r *replay) validate() error {
	if r.output != outputTable && r.output != outputJSON {
		return errors.New("--output must be table or json")
	}
	if r.tenant != "" {
		canonical, ok := tenantid.Canonical(r.tenant)
		if !ok {
			return errors.New("--tenant must be a tenant id")
		}
		r.tenant = canonical
	}
	if r.job != "" {
		id, err := uuid.Parse(r.job)
		if err != nil {
			return errors.New("--job must be a job id")
		}
		r.jobID = &id
	}
	return nil
}

// parkedView is a parked event as the command prints it.
type parkedView struct {
	TenantID  string    `json:"tenantId"`
	JobID     uuid.UUID `json:"jobId"`
	EventID   string    `json:"eventId"`
	Transport string    `json:"transport"`
	Attempts  int       `json:"attempts"`
	ParkedAt  time.Time `json:"parkedAt"`
	Reason    string    `json:"reason"`
	Replayed  bool      `json:"replayed"`
}

func (r *replay) run(ctx context.Context, out io.Writer, db *control.DB, router *tenant.Router) error {
	ids := []string{r.tenant}
	if r.tenant == "" {
		var err error
		if ids, err = db.TenantsWithParkedEvents(ctx); err != nil {
			return fmt.Errorf("finding parked events: %w", err)
		}
	}
	views := []parkedView{}
	var errs []error
	for _, id := range ids {
		parked, err := r.one(ctx, db, router, id)
		if err != nil { // the others' are still worth sending
			errs = append(errs, fmt.Errorf("events of tenant %s: %w", id, err))
			continue
		}
		for _, p := range parked {
			views = append(views, parkedView{id, p.JobID, p.ID, p.Transport, p.Attempts, p.ParkedAt.UTC(), p.Reason, !r.dryRun})
		}
	}
	return errors.Join(append(errs, printParked(out, r.output, views))...)
}

// one lists a tenant's parked events and makes them due.
func (r *replay) one(ctx context.Context, db *control.DB, router *tenant.Router, id string) ([]store.ParkedEvent, error) {
	lease, err := router.AcquireSuspended(ctx, id)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	outbox := store.NewOutbox(lease.DB(ctx))
	parked, err := outbox.Parked(ctx, r.jobID)
	if err != nil || r.dryRun {
		return parked, err
	}
	if _, err = outbox.Replay(ctx, r.jobID); err != nil {
		return nil, err
	}
	return parked, db.MarkEvents(ctx, id)
}

func printParked(w io.Writer, output string, views []parkedView) error {
	if output == outputJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(views)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TENANT\tEVENT\tTRANSPORT\tATTEMPTS\tPARKED\tREASON\tREPLAYED")
	for _, v := range views {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%t\n", v.TenantID, v.EventID, v.Transport, v.Attempts, v.ParkedAt.Format(time.RFC3339), v.Reason, v.Replayed)
	}
	return table.Flush()
}

// withTenants runs f with the control database and the tenants of the configuration.
func withTenants(ctx context.Context, f func(context.Context, *control.DB, *tenant.Router) error) error {
	return withRegistry(ctx, func(ctx context.Context, cfg *config.Config, pool *pgxpool.Pool) (err error) {
		keys, err := newKeyring(cfg)
		if err != nil {
			return err
		}
		db := control.New(pool)
		opts := routerOptions(cfg, db, keys)
		opts.AutoMigrate = cfg.Tenants.AutoMigrate
		router, err := tenant.NewRouter(ctx, opts)
		if err != nil {
			return fmt.Errorf("starting the tenant router: %w", err)
		}
		defer func() { err = errors.Join(err, router.Close(context.WithoutCancel(ctx))) }()
		return f(ctx, db, router)
	})
}
