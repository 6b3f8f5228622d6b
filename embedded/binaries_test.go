package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeInstallation makes a directory with programs that answer --version.
func fakeInstallation(t *testing.T, dir, initdb, postgres string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, version := range map[string]string{"initdb": initdb, "postgres": postgres} {
		if version == "" {
			continue
		}
		script := fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %s'\n", name, version)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFinderTakesTheFirstThatWorks(t *testing.T) {
	t.Parallel()
	root := publicDir(t)
	install := func(name, initdb, postgres string) string {
		return fakeInstallation(t, filepath.Join(root, name), initdb, postgres)
	}
	given := install("given", "16.2", "16.2")
	onPath := install("path", "14.9", "14.9")
	half := install("half", "15.1", "")
	mixed := install("mixed", "15.1", "14.1")
	nine := install("system/9/bin", "9.6", "9.6")
	ten := install("system/10/bin", "10.1", "10.1")
	fetched := install("fetched", "18.0", "18.0")
	broken := filepath.Join(root, "missing")

	path := func(dir string) func(string) (string, error) {
		return func(name string) (string, error) {
			if dir == "" {
				return "", exec.ErrNotFound
			}
			return filepath.Join(dir, name), nil
		}
	}
	fetch := func(context.Context) (string, error) { return fetched, nil }
	failing := func(context.Context) (string, error) { return "", errors.New("offline") }
	system := filepath.Join(root, "system", "*", "bin")

	tests := map[string]struct {
		finder finder
		want   binaries
		err    error
	}{
		"given":            {finder{explicit: given, lookup: path(onPath), system: system}, binaries{given, 16}, nil},
		"given is missing": {finder{explicit: broken, lookup: path(onPath), system: system}, binaries{onPath, 14}, nil},
		"given is half":    {finder{explicit: half, lookup: path(onPath), system: system}, binaries{onPath, 14}, nil},
		"given is mixed":   {finder{explicit: mixed, lookup: path(onPath), system: system}, binaries{onPath, 14}, nil},
		"newest by number": {finder{lookup: path(""), system: system}, binaries{ten, 10}, nil},
		"fits the data":    {finder{explicit: given, lookup: path(onPath), system: system, major: 9}, binaries{nine, 9}, nil},
		"download":         {finder{lookup: path(""), fetch: fetch}, binaries{fetched, 18}, nil},
		"download fails":   {finder{lookup: path(""), fetch: failing}, binaries{}, ErrNoBinaries},
		"nothing":          {finder{lookup: path("")}, binaries{}, ErrNoBinaries},
		"nothing fits":     {finder{lookup: path(onPath), system: system, fetch: fetch, major: 12}, binaries{}, ErrNoBinaries},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.finder.account = serverAccount()
			tt.finder.report = func(string, ...any) {}
			got, err := tt.finder.find(t.Context())
			if !errors.Is(err, tt.err) {
				t.Fatalf("error = %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(binaries{})); err == nil && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func listenOn(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
