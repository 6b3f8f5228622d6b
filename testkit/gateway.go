package testkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

const gatewayPackage = "github.com/versity/versitygw/cmd/versitygw"

// gatewayBinary returns the path of versitygw in the version that versitygw/go.mod pins. It is built when there is none
// yet for that file and this version of Go, and kept in the user's cache. The module is one of its own so that its
// dependencies stay out of the program's.
func gatewayBinary(ctx context.Context) (string, error) {
	path, err := moduleBinary(ctx, "versitygw", gatewayPackage)
	if err != nil {
		return "", fmt.Errorf("%w (or set %s)", err, S3URL)
	}
	return path, nil
}

// moduleBinary returns the path of a program that is built from the module in the directory testkit/name, when there is
// none yet for what is in there.
func moduleBinary(ctx context.Context, name, pkg string) (string, error) {
	module, err := nestedModule(ctx, name)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	return buildOnce(filepath.Join(cache, "fetcher", name), module, func(target string, lock *os.File) error {
		cmd := exec.CommandContext(ctx, "go", "build", "-C", module, "-mod=readonly", "-buildvcs=false", "-o", target, pkg)
		cmd.Env = append(os.Environ(), "GOWORK=off")
		cmd.ExtraFiles = []*os.File{lock} // held until the last compiler has ended, even if this process is killed
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
		return nil
	})
}

// nestedModule finds a module's directory from that of the package under test.
func nestedModule(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "testkit", name), nil
}

// buildOnce returns the file in dir that belongs to a module's files. When it is missing, one process at a
// time makes it; the others wait.
func buildOnce(dir, module string, build func(target string, lock *os.File) error) (string, error) {
	id, err := buildID(module)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, filepath.Base(dir)+"-"+id)
	if _, err = os.Stat(path); err == nil {
		return path, nil
	}
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := waitForLock(lock); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil // by the one that had the lock before
	}
	unfinished := filepath.Join(dir, "unfinished") // one name for all: what a killed build left is overwritten
	if err := build(unfinished, lock); err != nil {
		return "", err
	}
	return path, os.Rename(unfinished, path)
}

func waitForLock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// buildID changes with everything that the binary is made of.
func buildID(module string) (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	own, err := filepath.Glob(filepath.Join(module, "*.go"))
	if err != nil {
		return "", err
	}
	for _, path := range append(own, filepath.Join(module, "go.mod"), filepath.Join(module, "go.sum")) {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintln(sum, len(data))
		_, _ = sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}
