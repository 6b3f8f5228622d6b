package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// tenantRow is what the commands print of a tenant with --output json.
type tenantRow struct {
	ID       string  `json:"id"`
	Status   string  `json:"status"`
	MaxConns int     `json:"maxConns"`
	MaxJobs  int     `json:"maxRunningJobs"`
	Rate     float64 `json:"rateLimit"`
}

func rows[T any](t *testing.T, printed string) []T {
	t.Helper()
	var list []T
	if err := json.Unmarshal([]byte(printed), &list); err != nil {
		t.Fatalf("%v in %q", err, printed)
	}
	return list
}

// fails runs a command that must fail with the exit code and returns what it said.
func fails(t *testing.T, env []string, code int, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary.Path, args...)
	cmd.Env, cmd.Stdin = env, strings.NewReader(input)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("fetcher %s: %v, want exit code %d: %s", strings.Join(args, " "), err, code, said.String())
	}
	return said.String()
}

func TestTenantFromCreationToPurge(t *testing.T) {
	t.Parallel()
	d := shared(t)
	env := d.Env(t)
	run := func(args ...string) string { return binary.Command(t, env, append([]string{"tenant"}, args...)...) }

	made := rows[tenantRow](t, run("create", "purged", "--provision", "--max-conns", "3", "--rate-limit", "50", "--output", "json"))
	if diff := cmp.Diff([]tenantRow{{"purged", "active", 3, 0, 50}}, made); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	limited := rows[tenantRow](t, run("set-limits", "purged", "--max-running-jobs", "2", "--output", "json"))
	if diff := cmp.Diff([]tenantRow{{"purged", "active", 0, 2, 0}}, limited); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	client := blackbox.Client{Base: d.Info.API, Token: d.Token(t, "--tenant", "purged", "--role", "admin")}
	_, id := d.Connect(t, client, "sales")
	path := "/v1/management/connections/" + id
	client.Expect(t, http.StatusOK, http.MethodGet, path, nil)

	checked := rows[struct{ ID, State string }](t, run("check", "purged", "--output", "json"))
	if diff := cmp.Diff([]struct{ ID, State string }{{"purged", "ready"}}, checked); diff != "" {
		t.Errorf("check (-want +got):\n%s", diff)
	}
	if said := run("migrate", "purged"); said != "[1/1] tenant purged: up to date\n" {
		t.Errorf("migrate said %q", said)
	}
	migrated := rows[struct{ ID, Error string }](t, run("migrate", "purged", "--output", "json"))
	if diff := cmp.Diff([]struct{ ID, Error string }{{ID: "purged"}}, migrated); diff != "" {
		t.Errorf("migrate (-want +got):\n%s", diff)
	}

	for _, typed := range []string{"", "purge\n", "yes\n"} {
		said := fails(t, env, 2, typed, "tenant", "delete", "purged", "--purge")
		if !strings.Contains(said, "ALL ITS DATA") || !strings.Contains(said, "nothing was changed") {
			t.Errorf("unconfirmed delete said %q", said)
		}
	}
	client.Expect(t, http.StatusOK, http.MethodGet, path, nil)
	deleted := rows[tenantRow](t, run("delete", "purged", "--yes", "--output", "json"))
	if diff := cmp.Diff([]tenantRow{{"purged", "deleted", 0, 2, 0}}, deleted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	eventually(t, "the tenant is unknown", func() bool {
		return client.Do(t, http.MethodGet, path, nil).Status == http.StatusNotFound
	})
	fails(t, env, 1, "", "tenant", "create", "purged", "--provision") // the id is taken until it is purged
	run("resume", "purged")
	eventually(t, "nothing was lost", func() bool {
		return client.Do(t, http.MethodGet, path, nil).Status == http.StatusOK
	})
	objects := plantObjects(t, env, "purged")
	purged := rows[tenantRow](t, run("delete", "purged", "--purge", "--yes", "--output", "json"))
	if diff := cmp.Diff([]tenantRow{{"purged", "purged", 0, 2, 0}}, purged); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, object := range objects {
		if _, err := os.Stat(object); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s after the purge: %v", object, err)
		}
	}
	for _, row := range rows[tenantRow](t, run("list", "--output", "json")) {
		if row.ID == "purged" {
			t.Error("a purged tenant is listed")
		}
	}
	if said := fails(t, env, 1, "", "tenant", "show", "purged"); !strings.Contains(said, "no such tenant") {
		t.Errorf("show said %q", said)
	}

	run("create", "purged", "--provision")
	eventually(t, "the id is free again, and empty", func() bool {
		return client.Do(t, http.MethodGet, "/v1/management/connections", nil).Status == http.StatusOK
	})
	client.Expect(t, http.StatusNotFound, http.MethodGet, path, nil)
	run("delete", "purged", "--purge", "--yes")
}

// plantObjects puts an object of the tenant into every bucket and returns where.
func plantObjects(t *testing.T, env []string, tenant string) []string {
	t.Helper()
	var planted []string
	for _, variable := range env {
		name, directory, ok := strings.Cut(variable, "=file://")
		if !ok || (name != "RESULTS_URL" && name != "CONTENT_URL") {
			continue
		}
		object := filepath.Join(directory, tenant, "content", "planted")
		if err := os.MkdirAll(filepath.Dir(object), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(object, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		planted = append(planted, object)
	}
	if len(planted) != 2 {
		t.Fatalf("buckets found: %v", planted)
	}
	return planted
}

func TestTenantCommandsWithOneTenant(t *testing.T) {
	t.Parallel()
	env := append(shared(t).Env(t), "MULTI_TENANT_ENABLED=false")
	for _, command := range []string{"list", "show default"} {
		args := append([]string{"tenant", "--output", "json"}, strings.Fields(command)...)
		if diff := cmp.Diff([]tenantRow{{"default", "active", 0, 0, 0}}, rows[tenantRow](t, binary.Command(t, env, args...))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", command, diff)
		}
	}
	// These would change a registry that nobody reads.
	for _, command := range []string{
		"create new --provision", "suspend acme", "resume acme", "set-limits acme", "set-dsn acme --dsn postgres://h/d", "delete acme --yes",
	} {
		said := fails(t, env, 2, "", append([]string{"tenant"}, strings.Fields(command)...)...)
		if !strings.Contains(said, "MULTI_TENANT_ENABLED is false") {
			t.Errorf("%s said %q", command, said)
		}
	}
	fails(t, env, 1, "", "tenant", "show", "acme")
}

func TestTenantCheckNamesWhatIsBroken(t *testing.T) {
	t.Parallel()
	d := shared(t)
	env := d.Env(t)
	said := fails(t, env, 1, "", "tenant", "check", "acme", "nobody")
	if !strings.Contains(said, "1 of 2 tenants are not ready: nobody") || !strings.Contains(said, "FET-1081") {
		t.Errorf("check said %q", said)
	}
	fails(t, env, 2, "", "tenant", "create", "limits", "--provision", "--rate-limit", "-1")
	fails(t, env, 2, "", "tenant", "set-limits", "acme", "--max-conns", "3000000000")
	fails(t, env, 2, "", "tenant", "migrate")
	managed := append([]string{"MULTI_TENANT_URL=http://127.0.0.1:1", "MULTI_TENANT_SERVICE_API_KEY=k"}, env...)
	if said := fails(t, managed, 2, "", "tenant", "suspend", "acme"); !strings.Contains(said, "tenant manager") {
		t.Errorf("suspend said %q", said)
	}
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
