package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

// TestMigrateManyTenants migrates empty databases of 40 tenants, 500 in `make load`. Two of them are broken: the others
// are migrated, the report names the two, a second run does what is left, and two runs at once don't collide.
func TestMigrateManyTenants(t *testing.T) {
	t.Parallel()
	tenants := 40
	if os.Getenv("FETCHER_LOAD") != "" {
		tenants = 500
	}
	server := testkit.NewServer(t)
	key := secret.GenerateKey()
	env := []string{"DATABASE_URL=" + server.NewDatabase(t), "APP_ENC_KEY=" + key, "MULTI_TENANT_ENABLED=true"}
	binary.Command(t, env, "migrate") // the registry itself
	names, dsns := registerUnmigrated(t, server, env[0][len("DATABASE_URL="):], key, tenants)
	broken := []string{names[3], names[tenants-2]}
	for _, name := range broken { // a table of one of ours is in the way
		execute(t, dsns[name], "CREATE TABLE connections (somebody_elses int)")
	}

	began := time.Now()
	var reports [2]string
	var group errgroup.Group
	for i := range reports {
		group.Go(func() error {
			reports[i] = migrateExpecting(t, env, 1)
			return nil
		})
	}
	must(t, group.Wait())
	for _, report := range reports {
		want := fmt.Sprintf("2 of %d tenants failed: %s, %s", tenants, broken[0], broken[1])
		if !strings.Contains(report, want) || strings.Count(report, ": up to date\n") != tenants-2+1 || strings.Count(report, "FAILED") != 2 {
			t.Errorf("report lacks %q or has other counts:\n%s", want, report)
		}
	}
	t.Logf("%d tenants twice at once in %s", tenants, time.Since(began).Round(time.Millisecond))
	for _, name := range broken {
		execute(t, dsns[name], "DROP TABLE connections")
	}
	if report := migrateExpecting(t, env, 0); strings.Count(report, ": up to date\n") != tenants+1 {
		t.Errorf("the second run:\n%s", report)
	}
	checked := binary.Command(t, append(env, "PLUGIN_AUTH_ENABLED=true", "PLUGIN_AUTH_ADDRESS=http://127.0.0.1:1"), "tenant", "check")
	if strings.Count(checked, " ready ") != tenants {
		t.Errorf("tenant check:\n%s", checked)
	}
}

// registerUnmigrated makes empty databases and rows of the registry that lead to them. It returns the tenants in order,
// and their databases.
func registerUnmigrated(t *testing.T, server *testkit.Server, controlDSN, key string, n int) (names []string, dsns map[string]string) {
	t.Helper()
	parsed, err := secret.ParseKey(1, key)
	must(t, err)
	keys, err := secret.NewKeyring(parsed)
	must(t, err)
	pool, err := pgxpool.New(t.Context(), controlDSN)
	must(t, err)
	defer pool.Close()
	registry := control.New(pool)
	dsns = map[string]string{}
	for i := range n {
		name := fmt.Sprintf("many%03d", i)
		names, dsns[name] = append(names, name), server.NewDatabase(t)
		sealed, err := tenant.SealDSN(keys, name, dsns[name])
		must(t, err)
		must(t, registry.CreateTenant(t.Context(), &control.Tenant{ID: name, Name: name, DSNSealed: sealed}))
	}
	return names, dsns
}

func execute(t *testing.T, dsn, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	_, err = conn.Exec(t.Context(), statement)
	must(t, err)
	must(t, conn.Close(t.Context()))
}

func migrateExpecting(t *testing.T, env []string, code int) string {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary.Path, "migrate")
	cmd.Env = env
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	_ = cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Errorf("exit %v, want %d:\n%s", cmd.ProcessState, code, said.String())
	}
	return said.String()
}
