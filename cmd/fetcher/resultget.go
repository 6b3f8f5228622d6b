package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
)

func newResultGet() *cobra.Command {
	var (
		flags resultFlags
		out   string
	)
	cmd := &cobra.Command{
		Use: "get JOB", Short: "Download the result of a job and verify it",
		Long: "Downloads the result of a completed job: the document, one table with --datasource and --table, or a ZIP of all\n" +
			"tables. Size and SHA-256 are verified against what the job says and, with the tenant's HMAC key, the HMAC. The\n" +
			"file appears under its name only if everything holds.\n\nExit codes: 0 downloaded and verified, 1 not, 2 called wrongly.",
		Args: oneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(flags.check(), jobID(args[0])); err != nil {
				return usageError{err}
			}
			return getResult(cmd, &flags, args[0], out)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write; - is standard output, where the exit code alone tells whether it was right (default: a name made from the job's or table's)")
	return cmd
}

func getResult(cmd *cobra.Command, flags *resultFlags, id, out string) error {
	api, err := flags.client()
	if err != nil {
		return err
	}
	key, err := flags.key()
	if err != nil {
		return err
	}
	job, err := fetchJob(cmd, api, id)
	if err != nil {
		return err
	}
	d := resultDownload{path: "/v1/fetcher/" + id + "/result", name: path.Base(job.ResultPath), want: job.whole()}
	switch {
	case flags.table != "":
		i := slices.IndexFunc(job.Result.Tables, func(t apiTable) bool {
			return t.Datasource == flags.datasource && t.Table == flags.table && t.Path != ""
		})
		if i < 0 {
			return fmt.Errorf("the result of job %s has no file of that table", id)
		}
		t := job.Result.Tables[i]
		d.path += "?" + url.Values{"datasource": {t.Datasource}, "table": {t.Table}}.Encode()
		d.name, d.want = path.Base(t.Path), t.expectation()
	case job.perTable():
		d.name, d.archive = id+".zip", true
	}
	if out == "-" {
		if d.archive {
			return usageError{errors.New("an archive can't be verified on standard output: name a file or a table")}
		}
		return d.fetch(cmd, api, cmd.OutOrStdout(), key)
	}
	if out != "" {
		d.name = out
	}
	return d.save(cmd, api, key)
}

// resultDownload is one download and what it must be.
type resultDownload struct {
	path    string // of the request
	name    string // of the file
	want    expectation
	archive bool // want is the manifest's
}

// save downloads beside the file's final name, which it gets once it is verified.
func (d *resultDownload) save(cmd *cobra.Command, api *apiClient, key []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(d.name), filepath.Base(d.name)+".*.part")
	if err != nil {
		return fmt.Errorf("making a file: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err = errors.Join(d.fetch(cmd, api, f, key), f.Close()); err != nil {
		return err
	}
	if d.archive {
		if _, err = checkArchive(f.Name(), d.want, key); err != nil {
			return fmt.Errorf("the result is not what the job says: %w", err)
		}
	}
	if err = os.Rename(f.Name(), d.name); err != nil {
		return fmt.Errorf("naming the file: %w", err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", d.name, verified(key))
	return err
}

func verified(key []byte) string {
	if key == nil {
		return "SHA-256 verified; no key, so no HMAC"
	}
	return "SHA-256 and HMAC verified"
}

// fetch downloads into w. What is no archive is verified.
func (d *resultDownload) fetch(cmd *cobra.Command, api *apiClient, w io.Writer, key []byte) error {
	header := http.Header{"Accept-Encoding": {"identity"}}
	resp, err := api.send(cmd.Context(), http.MethodGet, d.path, header, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	sums := newDigests(key)
	if _, err = io.Copy(io.MultiWriter(w, sums), resp.Body); err != nil {
		return fmt.Errorf("downloading the result: %w", err)
	}
	if d.archive {
		return nil
	}
	if err = sums.compare(d.want, key); err != nil {
		return fmt.Errorf("the result is not what the job says: %w", err)
	}
	return nil
}
