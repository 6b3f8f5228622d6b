package main

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

// Variables of a consumer's tools. They are no configuration of the service.
const (
	envAPI   = "FETCHER_API"
	envToken = "FETCHER_TOKEN" // #nosec G101 -- the name of a variable
	envKey   = "FETCHER_HMAC_KEY"

	defaultAPI = "http://127.0.0.1:4006"
)

func newResult() *cobra.Command {
	return group("result", "Download a job's result, or verify one: the consumer's side", newResultGet(), newResultVerify())
}

// resultFlags are what both commands take.
type resultFlags struct {
	api, tokenFile, keyFile string
	datasource, table       string
}

func (f *resultFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.api, "api", "", "base URL of the gateway (default $"+envAPI+", else "+defaultAPI+")")
	flags.StringVar(&f.tokenFile, "token-file", "", "file with the token (default: the token in $"+envToken+")")
	flags.StringVar(&f.keyFile, "key-file", "", "file with the tenant's HMAC key in hex, as fetcher keys derive external prints it (default: the key in $"+envKey+"); without one no HMAC is verified")
	flags.StringVar(&f.datasource, "datasource", "", "datasource of the one table that is meant; needs --table")
	flags.StringVar(&f.table, "table", "", "the one table that is meant, as the job requested it; needs --datasource")
}

func (f *resultFlags) check() error {
	if (f.datasource == "") != (f.table == "") {
		return usageError{errors.New("--datasource and --table come together")}
	}
	return nil
}

// client returns the API as the flags say.
func (f *resultFlags) client() (*apiClient, error) {
	token, err := secretOf(f.tokenFile, envToken)
	if err != nil {
		return nil, err
	}
	if token == "" {
		return nil, usageError{errors.New("a token is needed, in " + envToken + " or --token-file")}
	}
	base := cmp.Or(f.api, os.Getenv(envAPI), defaultAPI)
	return &apiClient{strings.TrimSuffix(base, "/"), token, http.DefaultClient}, nil
}

// key returns the HMAC key; nil: there is none.
func (f *resultFlags) key() ([]byte, error) {
	text, err := secretOf(f.keyFile, envKey)
	if err != nil || text == "" {
		return nil, err
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) == 0 {
		return nil, usageError{errors.New("the HMAC key must be one line of hex")}
	}
	return key, nil
}

// secretOf reads a secret from a file or, without one, from a variable. Neither shows in a list of processes.
func secretOf(path, variable string) (string, error) {
	if path == "" {
		return strings.TrimSpace(os.Getenv(variable)), nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // the caller's own file
	if err != nil {
		return "", usageError{err}
	}
	return strings.TrimSpace(string(text)), nil
}

// jobID checks the form of a job's id.
func jobID(text string) error {
	if _, err := uuid.Parse(text); err != nil || len(text) != len(uuid.Nil.String()) {
		return usageError{fmt.Errorf("%q is not the id of a job", text)}
	}
	return nil
}

// fetchJob reads a job that has a result.
func fetchJob(cmd *cobra.Command, api *apiClient, id string) (*apiJob, error) {
	var job apiJob
	if err := api.call(cmd.Context(), http.MethodGet, "/v1/fetcher/"+id, nil, nil, &job); err != nil {
		return nil, err
	}
	if job.Status != "completed" || job.Result == nil {
		return nil, fmt.Errorf("job %s is %s and has no result", id, job.Status)
	}
	return &job, nil
}

// perTable reports whether the job's result is a file per table.
func (j *apiJob) perTable() bool { return strings.HasSuffix(j.ResultPath, "/"+manifestFile) }

// whole is what the document, or the manifest, must be.
func (j *apiJob) whole() expectation {
	e := expectation{size: unknownSize, sha256: j.Result.SHA256, hmac: j.ResultHMAC}
	if !j.perTable() {
		e.size = j.Result.SizeBytes
	}
	return e
}

func (t apiTable) expectation() expectation {
	return expectation{size: t.SizeBytes, sha256: t.SHA256, hmac: t.HMAC}
}
