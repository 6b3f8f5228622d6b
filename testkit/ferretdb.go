package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const ferretModule = "github.com/FerretDB/FerretDB"

// ferretBinary returns the path of FerretDB in the version that ferretdb/go.mod pins, built when there is none yet.
// Its command wants a file that only its own releases have, so it is built from a copy of the module that has one. The
// library that it also is does not know users.
func ferretBinary(ctx context.Context) (string, error) {
	module, err := nestedModule(ctx, "ferretdb")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	path, err := buildOnce(filepath.Join(cache, "fetcher", "ferretdb"), module, func(target string, lock *os.File) error {
		return buildFerret(ctx, module, target, lock)
	})
	if err != nil {
		return "", fmt.Errorf("build FerretDB (or set %s): %w", MongoDSN, err)
	}
	return path, nil
}

func buildFerret(ctx context.Context, module, target string, lock *os.File) error {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-C", module, "-json", ferretModule)
	download.Env = append(os.Environ(), "GOWORK=off")
	out, err := download.Output()
	var found struct {
		Dir     string `json:"Dir"`
		Version string `json:"Version"`
		Error   string `json:"Error"`
	}
	if parsed := json.Unmarshal(out, &found); err != nil || parsed != nil || found.Dir == "" {
		return errors.Join(err, parsed, errors.New(found.Error))
	}
	source := target + ".source" // one name for all, as the target
	if err = errors.Join(os.RemoveAll(source), os.CopyFS(source, os.DirFS(found.Dir))); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(source) }()
	version := filepath.Join(source, "build", "version", "version.txt")
	if err = os.WriteFile(version, []byte(found.Version), 0o600); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", source, "-mod=readonly", "-buildvcs=false", "-o", target, "./cmd/ferretdb")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	build.ExtraFiles = []*os.File{lock} // held until the last compiler has ended, even if this process is killed
	if out, err = build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// ferretCommand is the command line of a server that keeps its databases in dir and speaks to nobody but its clients.
func ferretCommand(binary, dir string, listen ...string) ([]string, error) {
	data := filepath.Join(dir, "ferretdb")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	return append([]string{
		binary, "--handler=sqlite", "--sqlite-url=file:" + strings.TrimSuffix(data, "/") + "/?_pragma=synchronous(off)",
		"--state-dir=-", "--telemetry=disable", "--debug-addr=-", "--log-level=ERROR",
		"--test-enable-new-auth", "--setup-database=" + mongoAuth, "--setup-username=" + mongoUser,
	}, listen...), nil
}
