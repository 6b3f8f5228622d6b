package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/fetcherhq/fetcher/embedded"
)

func newDev() *cobra.Command {
	opts := devOptions{logs: os.Stderr}
	var reset, noWorker bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process on an embedded Postgres, with two demo tenants and sample data",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.worker = !noWorker
			if reset {
				if err := resetDev(cmd.Context(), layout(opts.dataDir)); err != nil {
					return err
				}
			}
			gateway, err := startDev(cmd.Context(), opts)
			if err != nil {
				return err
			}
			if err := announce(cmd.OutOrStdout(), opts.dataDir, gateway); err != nil {
				return errors.Join(err, gateway.stop(cmd.Context()))
			}
			return gateway.wait(cmd.Context())
		},
	}
	f := cmd.Flags()
	addDataDir(f, &opts.dataDir)
	f.StringVar(&opts.listen, "listen", "127.0.0.1:4006", "address of the API; port 0 picks a free one")
	f.StringVar(&opts.binDir, "postgres-bin", "", "directory of initdb and postgres")
	f.BoolVar(&noWorker, "no-worker", false, "serve the API only")
	f.BoolVar(&reset, "reset", false, "start over: delete the data first")
	cmd.AddCommand(newDevToken(), newDevEnv())
	return cmd
}

// resetDev deletes what earlier runs left in the data directory, and nothing else that may be in there.
func resetDev(ctx context.Context, dir layout) error {
	entries, err := os.ReadDir(string(dir))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	// The key is the first thing that a gateway writes; without it the directory is somebody else's.
	if _, err = os.Stat(dir.key()); err != nil {
		return usageError{fmt.Errorf("%s is not the data directory of a development gateway; nothing was deleted", dir)}
	}
	err = embedded.RemovePostgres(ctx, dir.postgres())
	if errors.Is(err, embedded.ErrInUse) {
		return fmt.Errorf("a development gateway is running on %s; nothing was deleted", dir)
	}
	if err != nil {
		return fmt.Errorf("deleting the databases: %w", err)
	}
	for _, path := range []string{dir.identity(), dir.results(), dir.content(), dir.site(), dir.env(), dir.key()} {
		if err = os.RemoveAll(path); err != nil {
			return fmt.Errorf("deleting the data: %w", err)
		}
	}
	return embedded.RemoveDevFile(string(dir))
}

var banner = template.Must(template.New("banner").Parse(`
Fetcher is ready.

  API            {{.Info.API}}
  Documentation  {{.Info.API}}/swagger/docs
  Identity       {{.Info.Issuer}}
  Tenants        {{range $i, $t := .Info.Tenants}}{{if $i}}, {{end}}{{$t.ID}}{{end}}, each with a database of its own
  Sample pages   {{.Site}}, below /docs
  Sample source  {{.Info.Sample.Type}} {{.Info.Sample.Host}}:{{.Info.Sample.Port}}/{{.Info.Sample.DatabaseName}} (credentials in {{.Dir}}/dev.json)

Try it in another terminal:

  TOKEN=$({{.Program}} dev token --tenant acme --role operator{{.Flag}})
  curl -s -H "Authorization: Bearer $TOKEN" {{.Info.API}}/v1/management/connections
  {{.Program}} demo{{.Flag}}

Other commands beside it:  eval "$({{.Program}} dev env{{.Flag}})"
Ready-made tokens for every role are in {{.Dir}}/dev.json. Ctrl-C stops everything; the data stay.

`))

func announce(out io.Writer, dir string, gateway *devGateway) error {
	flag := ""
	if dir != defaultDataDir {
		flag = " --data-dir " + shellQuote(dir)
	}
	return banner.Execute(out, map[string]any{"Info": gateway.info, "Site": gateway.site.Origin(), "Dir": dir, "Flag": flag, "Program": os.Args[0]})
}

func shellQuote(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
