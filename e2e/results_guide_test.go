package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The recipes of docs/results.md work as they stand there, one after the other.
func TestResultsGuide(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "jq", "openssl", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the guide's commands were not run: there is no %s", tool)
		}
	}
	guide, err := os.ReadFile(filepath.Join("..", "docs", "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	d := shared(t)
	dir := tempDir(t)
	python := filepath.Join(dir, "guide.py")
	if err = os.WriteFile(python, []byte(blocks(string(guide), "python")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail")
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(shellBlocks(string(guide)) + "export JOB\npython3 guide.py\n")
	cmd.Env = append(os.Environ(), d.Env(t)...)
	cmd.Env = append(cmd.Env, "DEV="+filepath.Join(d.Dir, "dev.json"), "TOKEN="+d.Tenant("acme").Tokens["admin"], "TENANT=acme",
		"OBJECTS="+resultsDir(d), "PATH="+filepath.Dir(binary.Path)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"order.csv.gz: OK", "signed", "again.csv.gz: SHA-256 and HMAC verified",
		"books.zip: 2 tables are as its manifest says; SHA-256 and HMAC verified", "2 files verified", "order.csv.gz: SHA-256 and HMAC verified; SHA-256 ",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output does not have %q:\n%s", want, out)
		}
	}
}
