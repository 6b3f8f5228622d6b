package results_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/testkit"
)

func ring(versions ...int) *secret.Keyring {
	keys := make([]secret.Key, 0, len(versions))
	for _, v := range versions {
		keys = append(keys, secret.Key{Version: v, Bytes: bytes.Repeat([]byte{byte(v)}, 32)})
	}
	return must(secret.NewKeyring(keys[0], keys[1:]...))
}

// An object that was encrypted anew opens without the key it was made with, and keeps its digests.
func TestReencrypt(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"file": "file://" + filepath.Join(t.TempDir(), "r"), "s3": testkit.S3(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := func(keys *secret.Keyring) *results.Store {
				s := must(results.Open(t.Context(), url, keys, results.Options{}))
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			before, during, after := store(ring(1)), store(ring(2, 1)), store(ring(2))
			plain := random(6 << 20) // more than one part
			f := put(t, before, before.Key(tenant, "a.json"), plain)
			if _, err := read(t.Context(), after, tenant, f); !errors.Is(err, secret.ErrUnknownKey) {
				t.Errorf("before: %v", err)
			}
			if _, err := after.Reencrypt(t.Context(), tenant, f.Key); !errors.Is(err, results.ErrTampered) {
				t.Errorf("without the key: %v", err)
			}
			for _, want := range []bool{true, false} {
				if changed, err := during.Reencrypt(t.Context(), tenant, f.Key); err != nil || changed != want {
					t.Errorf("changed %t, %v", changed, err)
				}
			}
			for _, s := range []*results.Store{during, after} {
				if got, err := read(t.Context(), s, tenant, f); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("read: %v", err)
				}
				at := must(s.OpenReaderAt(t.Context(), tenant, f))
				part := make([]byte, 10)
				if _, err := at.ReadAt(part, 5<<20); err != nil || !bytes.Equal(part, plain[5<<20:5<<20+10]) {
					t.Errorf("part: %v", err)
				}
				_ = at.Close()
			}
			if _, err := read(t.Context(), before, tenant, f); err == nil {
				t.Error("the old key still opens it")
			}
			if _, err := during.Reencrypt(t.Context(), tenant, during.Key(tenant, "b.json")); !errors.Is(err, results.ErrGone) {
				t.Errorf("no object: %v", err)
			}
		})
	}
}

// A damaged object stays as it is.
func TestReencryptDamaged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "r")
	before := must(results.Open(t.Context(), "file://"+dir, ring(1), results.Options{}))
	during := must(results.Open(t.Context(), "file://"+dir, ring(2, 1), results.Options{}))
	defer before.Close()
	defer during.Close()
	f := put(t, before, before.Key(tenant, "a.json"), random(200_000))
	path := filepath.Join(dir, f.Key)
	damaged := must(os.ReadFile(path))
	damaged[len(damaged)-1] ^= 1
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := during.Reencrypt(t.Context(), tenant, f.Key); !errors.Is(err, results.ErrTampered) {
		t.Errorf("got %v", err)
	}
	if left := must(os.ReadFile(path)); !bytes.Equal(left, damaged) {
		t.Error("it has changed")
	}
	if found := must(filepath.Glob(filepath.Join(filepath.Dir(path), "*"))); len(found) != 1 {
		t.Errorf("files %v", found)
	}
}
