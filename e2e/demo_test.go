package e2e

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// TestDemoLeavesNothing runs while other tests' `fetcher dev` are running, twice at once.
func TestDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	shared(t)
	for _, run := range []string{"one", "two"} {
		t.Run(run, func(t *testing.T) {
			t.Parallel()
			dir := tempDir(t)
			p, err := binary.Launch([]string{"TMPDIR=" + dir}, "demo", "--fresh")
			if err != nil {
				t.Fatal(err)
			}
			if err = p.Wait(blackbox.StartTimeout); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"200000", "HMAC", "SHA-256", "100%", "| Europe | 2–4 |"} {
				if !strings.Contains(p.Output.String(), want) {
					t.Errorf("the output does not show %q:\n%s", want, p.Output)
				}
			}
			left, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(left) != 0 {
				t.Errorf("files are left: %v", left)
			}
			if pids := processesNaming(t, dir); len(pids) != 0 {
				t.Errorf("processes are left: %v", pids)
			}
		})
	}
}

// processesNaming lists the processes whose command line holds text.
func processesNaming(t *testing.T, text string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		content, err := os.ReadFile(path)
		return err != nil || !strings.Contains(string(content), text)
	})
}

func TestDevStopsCleanly(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	d, err := binary.LaunchDev(dir)
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(d.Info.API, "http://")
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		conn.Close()
		t.Error("the API's port is still open")
	}
	if pids := processesNaming(t, dir); len(pids) != 0 {
		t.Errorf("processes are left: %v", pids)
	}
	if st, err := os.Stat(filepath.Join(dir, "dev.json")); err == nil && st.Mode().Perm() != 0o600 {
		t.Errorf("dev.json has mode %o", st.Mode().Perm())
	}
}

func TestDevAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("this user is the ordinary one; every other test of the package runs as it")
	}
	const nobody = 65534
	dir := tempDir(t)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	d, err := binary.LaunchDevAs(&syscall.Credential{Uid: nobody, Gid: nobody}, dir)
	if err != nil {
		t.Fatal(err)
	}
	c := d.Client("globex", "admin")
	name, _ := d.Connect(t, c, "ledger")
	c.AwaitCompleted(t, c.Extract(t, "ledger", name, "order", "*"), blackbox.StartTimeout)
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
}
