package e2e

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// binary is the fetcher under test, built once.
var binary *blackbox.Binary

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fetcher-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary, err = blackbox.Build(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := testkit.Stop(m.Run())
	if sharedDev == nil {
		return code
	}
	if err := sharedDev.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping fetcher dev:", err)
		return 1
	}
	return code
}

// The suites that only read or make things of their own share one running `fetcher dev`.
var (
	sharedOnce sync.Once
	sharedDev  *blackbox.Dev
	errShared  error
)

func shared(t *testing.T) *blackbox.Dev {
	t.Helper()
	sharedOnce.Do(func() {
		dir, err := os.MkdirTemp(binary.Dir(), "dev-")
		if err != nil {
			errShared = err
			return
		}
		if errShared = os.Chmod(dir, 0o755); errShared == nil {
			sharedDev, errShared = binary.LaunchDev(dir)
		}
	})
	if errShared != nil {
		t.Fatal(errShared)
	}
	return sharedDev
}

// startDev starts a `fetcher dev` of the test's own, stopped at its end.
func startDev(t *testing.T, args ...string) *blackbox.Dev {
	t.Helper()
	d, err := binary.LaunchDev(tempDir(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(binary.Dir(), "dev-")
	if err != nil {
		t.Fatal(err)
	}
	// Servers started by root run as an ordinary user, who must get to their data below this directory.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
