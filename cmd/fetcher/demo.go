package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/embedded"
)

// demoTimeout bounds the whole demonstration.
const demoTimeout = 5 * time.Minute

func newDemo() *cobra.Command {
	var (
		dataDir string
		fresh   bool
		binDir  string
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the main job end to end: connect, read the schema, extract, download, verify, fetch a document",
		Long: "Runs against the development gateway of --data-dir if one is running there. Otherwise, or with --fresh,\n" +
			"it starts one in a temporary directory and leaves nothing behind.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), demoTimeout)
			defer cancel()
			if !fresh && devAnswers(ctx, dataDir) {
				fmt.Fprintf(cmd.OutOrStdout(), "Using the development gateway of %s\n", dataDir)
				return runDemo(ctx, cmd.OutOrStdout(), layout(dataDir))
			}
			return freshDemo(ctx, cmd.OutOrStdout(), binDir)
		},
	}
	f := cmd.Flags()
	addDataDir(f, &dataDir)
	f.BoolVar(&fresh, "fresh", false, "start a gateway of its own even if one is running")
	f.StringVar(&binDir, "postgres-bin", "", "directory of initdb and postgres")
	return cmd
}

// devAnswers reports whether the gateway that dev.json tells of is there.
func devAnswers(ctx context.Context, dataDir string) bool {
	info, err := embedded.ReadDevFile(dataDir)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, info.API+"/health", http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// freshDemo starts a gateway in a temporary directory, runs the demonstration, and removes every trace.
func freshDemo(ctx context.Context, out io.Writer, binDir string) (err error) {
	dir, err := os.MkdirTemp("", "fetcher-demo-")
	if err != nil {
		return fmt.Errorf("making a temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// As root, the database server runs as an ordinary user, who must get to its files below.
	if err = os.Chmod(dir, 0o711); err != nil { // #nosec G302
		return fmt.Errorf("opening the temporary directory: %w", err)
	}
	s := newSteps(out)
	var gateway *devGateway
	err = s.do("Starting a gateway with an embedded Postgres, an identity service and two tenants", func() (string, error) {
		started, failure := startDev(ctx, devOptions{
			dataDir: dir, listen: "127.0.0.1:0", binDir: binDir, worker: true, disposable: true,
		})
		if failure != nil {
			return "", failure
		}
		gateway = started
		return started.info.API, nil
	})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.do("Stopping it and removing its files", func() (string, error) {
			return "nothing is left", gateway.stop(ctx)
		}))
	}()
	return runDemo(ctx, out, layout(dir))
}

// demonstration is the main job seen from outside: it knows what dev.json and the environment tell, and the API.
type demonstration struct {
	api    *apiClient
	info   embedded.DevFile
	cfg    *config.Config
	dir    layout
	tenant embedded.DevTenant
	steps  *steps

	connection apiConnection
	job        apiJob
}

const (
	demoProduct = "demo"
	demoTable   = "transactions"
)

func runDemo(ctx context.Context, out io.Writer, dir layout) error {
	info, err := embedded.ReadDevFile(string(dir))
	if err != nil {
		return fmt.Errorf("reading dev.json: %w", err)
	}
	environ, err := readEnvFile(dir.env())
	if err != nil {
		return err
	}
	cfg, err := config.Load(environ, config.RoleKeys)
	if err != nil {
		return fmt.Errorf("reading the environment of %s: %w", dir, err)
	}
	acme := info.Tenants[0]
	d := &demonstration{
		api: &apiClient{info.API, acme.Tokens.Operator, http.DefaultClient}, info: info, cfg: cfg, dir: dir, tenant: acme, steps: newSteps(out),
	}
	for _, step := range []func(context.Context) error{d.connect, d.test, d.schema, d.submit, d.follow, d.download, d.fetchPage} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demonstration) connect(ctx context.Context) error {
	name := "demo-" + uuid.NewString()[:8]
	return d.steps.do("Registering the sample database as a connection of tenant "+d.tenant.ID, func() (string, error) {
		s := d.info.Sample
		err := d.api.call(ctx, http.MethodPost, "/v1/management/connections", http.Header{"X-Product-Name": {demoProduct}}, map[string]any{
			"configName": name, "type": s.Type, "host": s.Host, "port": s.Port, "databaseName": s.DatabaseName,
			"userName": s.UserName, "password": s.Password,
		}, &d.connection)
		return name + ", id " + d.connection.ID, err
	})
}

func (d *demonstration) test(ctx context.Context) error {
	return d.steps.do("Testing the connection", func() (string, error) {
		var result apiTest
		err := d.api.call(ctx, http.MethodPost, "/v1/management/connections/"+d.connection.ID+"/test", nil, nil, &result)
		return fmt.Sprintf("%s in %.0f ms", result.Status, result.LatencyMS), err
	})
}

func (d *demonstration) schema(ctx context.Context) error {
	return d.steps.do("Reading its schema", func() (string, error) {
		var schema apiSchema
		if err := d.api.call(ctx, http.MethodGet, "/v1/management/connections/"+d.connection.ID+"/schema", nil, nil, &schema); err != nil {
			return "", err
		}
		var text strings.Builder
		fmt.Fprintf(&text, "%d tables", len(schema.Tables))
		for _, table := range schema.Tables {
			fmt.Fprintf(&text, "\n        %-26s %d fields", table.Name, len(table.Fields))
		}
		return text.String(), nil
	})
}

func (d *demonstration) submit(ctx context.Context) error {
	return d.steps.do("Creating a job that extracts "+demoTable, func() (string, error) {
		var made struct {
			JobID string `json:"jobId"`
		}
		err := d.api.call(ctx, http.MethodPost, "/v1/fetcher", nil, map[string]any{
			"dataRequest": map[string]any{"mappedFields": map[string]any{d.connection.ConfigName: map[string]any{demoTable: []string{"*"}}}},
			"metadata":    map[string]any{"source": demoProduct},
		}, &made)
		d.job.ID = made.JobID
		return "job " + made.JobID, err
	})
}
