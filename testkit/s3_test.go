package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"
)

func newGateway(t *testing.T) string {
	t.Helper()
	binary, err := gatewayBinary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func openBucket(t *testing.T, raw string) *blob.Bucket {
	t.Helper()
	u, err := url.Parse(raw + "&use_path_style=true")
	if err != nil {
		t.Fatal(err)
	}
	b, err := new(s3blob.URLOpener).OpenBucketURL(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// Not parallel, and none of its own: it changes the environment, from which other tests must not get a bucket.
func TestBucketAtAddress(t *testing.T) {
	t.Setenv(S3URL, "s3://given?region=here")
	if got := S3(t); got != "s3://given?region=here" {
		t.Errorf("got %s", got)
	}
}

func TestBucketsAreApart(t *testing.T) {
	t.Parallel()
	if os.Getenv(S3URL) != "" {
		t.Skip(S3URL + " is one bucket for all")
	}
	ctx := t.Context()
	a, b := openBucket(t, S3(t)), openBucket(t, S3(t))
	if err := a.WriteAll(ctx, "k", []byte("v"), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := a.ReadAll(ctx, "k"); err != nil || string(got) != "v" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := b.ReadAll(ctx, "k"); gcerrors.Code(err) != gcerrors.NotFound {
		t.Errorf("another bucket: %v", err)
	}
}

func TestS3AsksForCredentials(t *testing.T) {
	t.Parallel()
	if os.Getenv(S3URL) != "" {
		t.Skip(S3URL + " is somebody else's")
	}
	q := strings.Replace(S3(t), "profile="+s3Profile, "anonymous=true", 1)
	if _, err := openBucket(t, q).ReadAll(t.Context(), "k"); gcerrors.Code(err) != gcerrors.PermissionDenied {
		t.Errorf("error = %v, want a denial", err)
	}
	other := *sharedBuckets.server
	other.secret = "guessed"
	if _, err := other.client().ListBuckets(t.Context(), nil); err == nil {
		t.Error("a guessed secret was taken")
	}
}

func TestS3StartAfterStop(t *testing.T) {
	t.Parallel()
	var s sharedS3
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.start(); err == nil {
		t.Error("a server was started that nobody will stop")
	}
}

// A port may be taken between its choice and its use.
func TestS3TriesAnotherPort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n[ -e %[1]s/tried ] && exec %[2]s \"$@\"\n: >%[1]s/tried\nexit 1\n", dir, newGateway(t))
	fussy := filepath.Join(dir, "fussy")
	if err := os.WriteFile(fussy, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := startS3(dir, fussy)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, keptFile)); !os.IsNotExist(err) {
		t.Errorf("the keeper left its file (%v)", err)
	}
}

func TestS3EndsByItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho no disk >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := startS3(dir, broken); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("error = %v, want what the server said", err)
	}
	s, err := startS3(t.TempDir(), newGateway(t))
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(-s.keeper.Process.Pid, syscall.SIGKILL)
	<-s.done
	if err := s.stop(); err == nil {
		t.Error("nobody hears of a server that crashed")
	}
}

// builds counts what it makes; the first one fails.
type builds struct{ n atomic.Int32 }

func (b *builds) build(target string, _ *os.File) error {
	if err := os.WriteFile(target, []byte("half"), 0o700); err != nil {
		return err
	}
	if b.n.Add(1) == 1 {
		return errors.New("no network")
	}
	return os.WriteFile(target, []byte("whole"), 0o700)
}

func TestBuildOnce(t *testing.T) {
	t.Parallel()
	module, dir := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	sums := func(text string) {
		if err := errors.Join(os.WriteFile(filepath.Join(module, "go.mod"), nil, 0o600), os.WriteFile(filepath.Join(module, "go.sum"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	sums("v1")
	var b builds
	if path, err := buildOnce(dir, module, b.build); err == nil {
		t.Errorf("a failed build gave %s", path)
	}
	first := buildAtOnce(t, 8, func() (string, error) { return buildOnce(dir, module, b.build) })
	sums("v2")
	second := buildAtOnce(t, 2, func() (string, error) { return buildOnce(dir, module, b.build) })
	if n := b.n.Load(); n != 3 || first == second {
		t.Errorf("%d builds, want 3: failed, %s, %s", n, first, second)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 3 {
		t.Errorf("%v, want two binaries and a lock", entries)
	}
}

func buildAtOnce(t *testing.T, n int, build func() (string, error)) string {
	t.Helper()
	var all sync.WaitGroup
	paths := make([]string, n)
	for i := range paths {
		all.Go(func() {
			path, err := build()
			if err != nil {
				t.Error(err)
				return
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != "whole" {
				t.Errorf("%q, %v", data, err)
			}
			paths[i] = path
		})
	}
	all.Wait()
	for _, path := range paths {
		if diff := cmp.Diff(paths[0], path); diff != "" {
			t.Error(diff)
		}
	}
	return paths[0]
}

// The module is found from any package's directory.
func TestGatewayModule(t *testing.T) {
	t.Parallel()
	module, err := nestedModule(context.WithoutCancel(t.Context()), "versitygw")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil || !strings.Contains(string(data), "tool "+gatewayPackage) {
		t.Errorf("%s: %v", data, err)
	}
}
