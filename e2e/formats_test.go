package e2e

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// resultsDir is the bucket of a `fetcher dev`.
func resultsDir(d *blackbox.Dev) string { return filepath.Join(d.Dir, "results") }

// formatTables are what the jobs here read.
func formatTables(name string) map[string]any {
	return map[string]any{name: map[string]any{"order": []string{"*"}, "reporting.ledger": []string{"*"}}}
}

// extractAs runs a job with an output and returns it.
func extractAs(t *testing.T, c blackbox.Client, name, product, format, compression string) (id string, files []fileFacts) {
	t.Helper()
	id = c.Submit(t, map[string]any{
		"dataRequest": map[string]any{"mappedFields": formatTables(name)}, "metadata": map[string]any{"source": product},
		"output": map[string]any{"format": format, "compression": compression},
	})
	j := c.AwaitCompleted(t, id, time.Minute)
	if j.Result.Format != format {
		t.Errorf("format %s, want %s", j.Result.Format, format)
	}
	var view struct{ Result struct{ Tables []fileFacts } }
	c.Expect(t, http.StatusOK, http.MethodGet, "/v1/fetcher/"+id, nil).Decode(t, &view)
	return id, view.Result.Tables
}

type fileFacts struct {
	Datasource, Table, Path, SHA256, HMAC string
	Rows, SizeBytes                       int64
}

// fetcher runs a command of the binary and returns its output and its exit code.
func fetcher(t *testing.T, env []string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary.Path, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	text, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(text), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text), 0
}

func expectExit(t *testing.T, want int, env []string, args ...string) {
	t.Helper()
	if out, code := fetcher(t, env, args...); code != want {
		t.Errorf("fetcher %s: exit code %d, want %d: %s", strings.Join(args, " "), code, want, out)
	}
}

// consumer is the environment of a tenant's consumer.
func consumer(t *testing.T, d *blackbox.Dev, tenant string) []string {
	t.Helper()
	key := strings.TrimSpace(binary.Command(t, d.Env(t), "keys", "derive", "external", "--tenant", tenant))
	return []string{"FETCHER_API=" + d.Info.API, "FETCHER_TOKEN=" + d.Tenant(tenant).Tokens["viewer"], "FETCHER_HMAC_KEY=" + key}
}

// Every format with every compression is extracted, downloaded and verified by the client.
func TestEveryFormat(t *testing.T) {
	t.Parallel()
	d := shared(t)
	c := d.Client("acme", "operator")
	name, _ := d.Connect(t, c, "formats")
	env, dir := consumer(t, d, "acme"), tempDir(t)
	for _, format := range []string{"json", "ndjson", "csv", "parquet"} {
		for compression, ext := range map[string]string{"none": "", "gzip": ".gz", "zstd": ".zst"} {
			id, files := extractAs(t, c, name, "formats", format, compression)
			out := filepath.Join(dir, format+compression)
			expectExit(t, 0, env, "result", "get", id, "-o", out)
			expectExit(t, 0, env, "result", "verify", out, "--job", id)
			if format == "json" {
				if j := c.Job(t, id); j.ResultPath != "acme/external-data/"+id+".json"+ext || files[0].Path != "" {
					t.Errorf("path %s, tables %+v", j.ResultPath, files)
				}
				continue
			}
			if format == "parquet" {
				ext = ""
			}
			want := fmt.Sprintf("acme/external-data/%s/%s/reporting.ledger.%s%s", id, name, format, ext)
			if files[1].Path != want {
				t.Errorf("path %s, want %s", files[1].Path, want)
			}
			one := filepath.Join(dir, filepath.Base(want))
			expectExit(t, 0, env, "result", "get", id, "-o", one, "--datasource", name, "--table", "reporting.ledger")
			expectExit(t, 0, env, "result", "verify", one, "--job", id)
			expectExit(t, 0, env, "result", "verify", one, "--sha256", files[1].SHA256, "--hmac", files[1].HMAC)
		}
	}
}

// The lines of an NDJSON file are the rows of the document, and those psql prints.
func TestNDJSONEqualsPsql(t *testing.T) {
	t.Parallel()
	d := shared(t)
	c := d.Client("acme", "operator")
	name, _ := d.Connect(t, c, "lines")
	id, files := extractAs(t, c, name, "lines", "ndjson", "gzip")
	for _, f := range files {
		q := url.Values{"datasource": {name}, "table": {f.Table}}.Encode()
		got := c.Expect(t, http.StatusOK, http.MethodGet, "/v1/fetcher/"+id+"/result?"+q, nil)
		if media := got.Header.Get("Content-Type"); media != "application/gzip" {
			t.Errorf("media type %s", media)
		}
		r, err := gzip.NewReader(bytes.NewReader(got.Body))
		if err != nil {
			t.Fatal(err)
		}
		lines, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		rows := strings.Join(strings.Split(strings.TrimSuffix(string(lines), "\n"), "\n"), ",")
		document := fmt.Sprintf(`{%s:{%s:[%s]}}`, quote(name), quote(f.Table), rows)
		checkResult(t, d.Info.Sample, []byte(document), name, f.Table)
	}
}

// flip changes one byte of a file near its end.
func flip(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-20] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A byte flipped in the bucket or in a download is found by everybody who looks, and an object opens with its tenant's
// identity and with no other.
func TestResultTools(t *testing.T) {
	t.Parallel()
	d := shared(t)
	c := d.Client("acme", "operator")
	name, _ := d.Connect(t, c, "tools")
	env, dir := consumer(t, d, "acme"), tempDir(t)
	id, files := extractAs(t, c, name, "tools", "csv", "none")
	object, manifest := filepath.Join(resultsDir(d), files[0].Path), filepath.Join(resultsDir(d), c.Job(t, id).ResultPath)
	identities := map[string]string{}
	for _, tenant := range []string{"acme", "globex"} {
		identities[tenant] = filepath.Join(dir, tenant)
		line := binary.Command(t, d.Env(t), "keys", "identity", "--tenant", tenant)
		if err := os.WriteFile(identities[tenant], []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plain, archive := filepath.Join(dir, "order.csv"), filepath.Join(dir, "all.zip")
	expectExit(t, 0, env, "result", "get", id, "-o", plain, "--datasource", name, "--table", "order")
	expectExit(t, 0, env, "result", "get", id, "-o", archive)

	downloaded, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	decrypted, err := decrypt(t, object, identities["acme"])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(downloaded), string(decrypted)); diff != "" {
		t.Errorf("decrypted with age (-download +decrypted):\n%.500s", diff)
	}
	if _, err := decrypt(t, object, identities["globex"]); err == nil {
		t.Error("another tenant's identity opens it")
	}
	expectExit(t, 0, env, "result", "verify", object, "--identity", identities["acme"], "--manifest", manifest)
	expectExit(t, 0, nil, "result", "verify", object, "--identity", identities["acme"])
	expectExit(t, 1, env, "result", "verify", object, "--identity", identities["globex"], "--manifest", manifest)
	expectExit(t, 1, consumer(t, d, "globex")[2:], "result", "verify", plain, "--sha256", files[0].SHA256, "--hmac", files[0].HMAC)
	expectExit(t, 1, env, "result", "verify", plain, "--sha256", files[1].SHA256)
	expectExit(t, 1, consumer(t, d, "globex"), "result", "get", id, "-o", filepath.Join(dir, "theirs"))

	for _, args := range [][]string{
		{"result", "get"}, {"result", "get", "x"}, {"result", "get", id, "--table", "order"}, {"result", "get", id, "-o", "-"},
		{"result", "verify", filepath.Join(dir, "none")}, {"result", "verify", plain}, {"result", "verify", object},
		{"result", "verify", plain, "--job", id, "--sha256", files[0].SHA256}, {"result", "verify", plain, "--identity", plain},
		{"result", "verify", plain, "--job", id, "--datasource", name, "--table", "none"},
	} {
		expectExit(t, 2, env, args...)
	}
	expectExit(t, 2, env[:1], "result", "get", id)
	expectExit(t, 2, nil, "result", "verify", plain, "--hmac", files[0].HMAC)

	for _, path := range []string{plain, archive, object} {
		flip(t, path)
	}
	expectExit(t, 1, env, "result", "verify", plain, "--job", id)
	expectExit(t, 1, env, "result", "verify", archive, "--job", id)
	expectExit(t, 1, env, "result", "verify", archive)
	expectExit(t, 1, env, "result", "verify", object, "--identity", identities["acme"], "--manifest", manifest)
	expectExit(t, 1, env, "result", "verify", object, "--identity", identities["acme"])
	for _, args := range [][]string{{"--datasource", name, "--table", "order"}, nil} {
		out := filepath.Join(dir, "never")
		expectExit(t, 1, env, append([]string{"result", "get", id, "-o", out}, args...)...)
		if left, _ := filepath.Glob(out + "*"); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
}

// decrypt opens an object as any age tool does.
func decrypt(t *testing.T, object, identity string) ([]byte, error) {
	t.Helper()
	line, err := os.ReadFile(identity)
	if err != nil {
		t.Fatal(err)
	}
	key, err := age.ParseX25519Identity(strings.TrimSpace(string(line)))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := age.Decrypt(f, key)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
