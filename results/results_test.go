package results_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.MainNoLeaks(m) }

const tenant = "acme"

func keyring(t *testing.T) *secret.Keyring {
	t.Helper()
	k, err := secret.NewKeyring(secret.Key{Version: 2, Bytes: bytes.Repeat([]byte{7}, 32)}, secret.Key{Version: 1, Bytes: bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func open(t *testing.T) (*results.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "results")
	s, err := results.Open(t.Context(), "file://"+dir, keyring(t), results.Options{KeyPrefix: "pre"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, dir
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func put(t *testing.T, s *results.Store, key string, plain []byte) results.Facts {
	t.Helper()
	w, err := s.Create(t.Context(), tenant, key)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if _, err = io.Copy(w, iotest.HalfReader(bytes.NewReader(plain))); err != nil {
		t.Fatal(err)
	}
	f, err := w.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func read(ctx context.Context, s *results.Store, tenant string, f results.Facts) ([]byte, error) {
	r, err := s.OpenReader(ctx, tenant, f)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(iotest.HalfReader(r))
	return b, errors.Join(err, r.Close())
}

// files lists what lies in the bucket's directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			found = append(found, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var sizes = []int{0, 1, 1000, 65535, 65536, 65537, 131072, 300000}

func TestRoundTrip(t *testing.T) { //nolint:tparallel // what the cases leave is counted at the end
	t.Parallel()
	s, dir := open(t)
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			plain := random(n)
			key := s.Key(tenant, "external-data", fmt.Sprint(n)+".json")
			got := put(t, s, key, plain)
			sum, external := sha256.Sum256(plain), must(keyring(t).ExternalHMACKey(2, tenant))
			mac := hmac.New(sha256.New, external)
			mac.Write(plain)
			want := results.Facts{
				Key: "pre/acme/external-data/" + fmt.Sprint(n) + ".json", SizeBytes: int64(n), KeyVersion: 2,
				SHA256: hex.EncodeToString(sum[:]), HMAC: hex.EncodeToString(mac.Sum(nil)), CRC32: crc32.ChecksumIEEE(plain),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			back, err := read(t.Context(), s, tenant, got)
			if err != nil || !bytes.Equal(back, plain) {
				t.Errorf("read %d bytes of %d, %v", len(back), n, err)
			}
			if standalone := decrypt(t, filepath.Join(dir, key), must(keyring(t).ResultIdentity(2, tenant))); !bytes.Equal(standalone, plain) {
				t.Error("a stand-alone age reader gets something else")
			}
		})
	}
	if n := len(files(t, dir)); n != len(sizes) {
		t.Errorf("%d files for %d objects: %v", n, len(sizes), files(t, dir))
	}
	if info := must(os.Stat(dir)); info.Mode().Perm() != 0o700 {
		t.Errorf("directory mode %v", info.Mode())
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func decrypt(t *testing.T, path string, id age.Identity) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := age.Decrypt(f, id)
	if err != nil {
		t.Fatal(err)
	}
	return must(io.ReadAll(r))
}

func TestOnlyTheTenantOpens(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	f := put(t, s, s.Key("a.json"), random(100))
	if _, err := read(t.Context(), s, "globex", f); !errors.Is(err, results.ErrTampered) {
		t.Errorf("another tenant: %v", err)
	}
	f.KeyVersion = 1
	if _, err := read(t.Context(), s, tenant, f); !errors.Is(err, results.ErrTampered) {
		t.Errorf("another key: %v", err)
	}
	f.KeyVersion = 2
	without := must(results.Open(t.Context(), "file://"+dir, must(secret.NewKeyring(secret.Key{Version: 3, Bytes: bytes.Repeat([]byte{9}, 32)})), results.Options{}))
	defer without.Close()
	if _, err := read(t.Context(), without, tenant, f); !errors.Is(err, secret.ErrUnknownKey) {
		t.Errorf("unknown key: %v", err)
	}
}

func TestTampering(t *testing.T) {
	t.Parallel()
	const n = 200_000 // four chunks
	for _, tt := range []struct {
		name   string
		change func(b []byte, other []byte) []byte
		most   int // plaintext bytes that may come out before the error
	}{
		{"header", func(b, _ []byte) []byte { b[30] ^= 1; return b }, 0},
		{"first chunk", func(b, _ []byte) []byte { b[300] ^= 1; return b }, 0},
		{"last byte", func(b, _ []byte) []byte { b[len(b)-1] ^= 1; return b }, n - n%65536},
		{"cut in a chunk", func(b, _ []byte) []byte { return b[:len(b)-10] }, n - n%65536},
		{"cut between chunks", func(b, _ []byte) []byte { return b[:len(b)-16-n%65536] }, n - n%65536},
		{"longer", func(b, _ []byte) []byte { return append(b, 0) }, n - 1},
		{"empty", func([]byte, []byte) []byte { return nil }, 0},
		{"another object of the tenant", func(_, other []byte) []byte { return other }, n - n%65536},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, dir := open(t)
			plain := random(n)
			f, other := put(t, s, s.Key("a.json"), plain), put(t, s, s.Key("b.json"), random(n))
			path := filepath.Join(dir, f.Key)
			b := tt.change(must(os.ReadFile(path)), must(os.ReadFile(filepath.Join(dir, other.Key))))
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := read(t.Context(), s, tenant, f)
			if !errors.Is(err, results.ErrTampered) {
				t.Errorf("error %v", err)
			}
			if len(got) > tt.most {
				t.Errorf("%d bytes came out, want at most %d", len(got), tt.most)
			}
		})
	}
}

func TestFactsThatDoNotFit(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	f := put(t, s, s.Key("a.json"), random(100))
	for name, change := range map[string]func(*results.Facts){
		"size":   func(f *results.Facts) { f.SizeBytes-- },
		"digest": func(f *results.Facts) { f.SHA256 = hex.EncodeToString(random(32)) },
		"hmac":   func(f *results.Facts) { f.HMAC = "" },
	} {
		wrong := f
		change(&wrong)
		if got, err := read(t.Context(), s, tenant, wrong); !errors.Is(err, results.ErrTampered) || len(got) > 0 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

func TestNothingStaysWithoutCommit(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	canceled, cancel := context.WithCancel(t.Context())
	for name, end := range map[string]func(*results.Writer) error{
		"abort": func(w *results.Writer) error { w.Abort(); _, err := w.Commit(t.Context()); return err },
		"create's context": func(w *results.Writer) error {
			cancel()
			_, err := w.Commit(t.Context())
			return err
		},
		"commit's context": func(w *results.Writer) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := w.Commit(ctx)
			return err
		},
	} {
		ctx := t.Context()
		if name == "create's context" {
			ctx = canceled
		}
		w, err := s.Create(ctx, tenant, s.Key("x", "a.json"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(random(200_000)); err != nil {
			t.Fatal(err)
		}
		if err := end(w); err == nil {
			t.Errorf("%s: committed", name)
		}
		if left := files(t, dir); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	f := put(t, s, s.Key("a.json"), random(10))
	if err := s.Delete(t.Context(), f.Key); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), f.Key); !errors.Is(err, results.ErrGone) {
		t.Errorf("second delete: %v", err)
	}
	if _, err := s.OpenReader(t.Context(), tenant, f); !errors.Is(err, results.ErrGone) {
		t.Errorf("reader: %v", err)
	}
	if _, err := s.OpenReaderAt(t.Context(), tenant, f); !errors.Is(err, results.ErrGone) {
		t.Errorf("reader at: %v", err)
	}
}

// The first of two writers wins, and the second can take over only after it made sure that it owns the key.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	key, ctx := s.Key("a.json"), t.Context()
	zombie := must(s.Create(ctx, tenant, key))
	owner := must(s.Create(ctx, tenant, key))
	must(owner.Write([]byte("owner")))
	must(zombie.Write([]byte("zombie")))
	facts := must(owner.Commit(ctx))
	if _, err := zombie.Commit(ctx); !errors.Is(err, results.ErrExists) {
		t.Errorf("the second commit: %v", err)
	}
	lost := errors.New("lost")
	if err := s.Reclaim(ctx, key, func(context.Context) error { return lost }); !errors.Is(err, lost) {
		t.Errorf("reclaim by one who lost the key: %v", err)
	}
	if got, err := read(ctx, s, tenant, facts); err != nil || string(got) != "owner" {
		t.Errorf("the winner's object: %q, %v", got, err)
	}
	if diff := cmp.Diff([]string{"pre/a.json"}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestReclaim(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	key, ctx := s.Key("x", "a.json"), t.Context()
	owned := func(context.Context) error { return nil }
	if err := s.Reclaim(ctx, key, func(context.Context) error { return errors.New("asked") }); err != nil {
		t.Errorf("nothing there: %v", err)
	}
	put(t, s, key, []byte("left by a writer that died before it could refer to it"))
	put(t, s, s.Key("x", "a.jsonl"), []byte("another one's"))
	killed := must(s.Create(ctx, tenant, key)) // has a temporary file, as a killed process would leave it
	defer killed.Abort()
	if err := s.Reclaim(ctx, key, owned); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pre/x/a.jsonl"}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	facts := put(t, s, key, []byte("new"))
	if got, err := read(ctx, s, tenant, facts); err != nil || string(got) != "new" {
		t.Errorf("after: %q, %v", got, err)
	}
}

// A successor that stores its object between the look and the removal keeps it.
func TestReclaimSparesWhatItDidNotSee(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	key, ctx := s.Key("a.json"), t.Context()
	put(t, s, key, []byte("left"))
	var facts results.Facts
	err := s.Reclaim(ctx, key, func(ctx context.Context) error { // the caller stalls here and comes back too late
		if err := s.Delete(ctx, key); err != nil {
			return err
		}
		facts = put(t, s, key, []byte("the successor's"))
		return nil
	})
	if !errors.Is(err, results.ErrExists) {
		t.Errorf("reclaim: %v", err)
	}
	if got, err := read(ctx, s, tenant, facts); err != nil || string(got) != "the successor's" {
		t.Errorf("after: %q, %v", got, err)
	}
}

func TestReaderAt(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	for _, n := range sizes {
		plain := random(n)
		f := put(t, s, s.Key(fmt.Sprint(n)), plain)
		r, err := s.OpenReaderAt(t.Context(), tenant, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range [][2]int{{0, 1}, {n / 2, n}, {n / 3, n / 2}, {65535, 65538}, {0, n}} {
			if at[0] >= at[1] || at[1] > n {
				continue
			}
			got, err := io.ReadAll(io.NewSectionReader(r, int64(at[0]), int64(at[1]-at[0])))
			if err != nil || !bytes.Equal(got, plain[at[0]:at[1]]) {
				t.Errorf("%d bytes, %v: %d bytes, %v", n, at, len(got), err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	f := put(t, s, s.Key("t"), random(200_000))
	path := filepath.Join(dir, f.Key)
	b := must(os.ReadFile(path))
	b[1000] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r := must(s.OpenReaderAt(t.Context(), tenant, f))
	defer r.Close()
	if _, err := r.ReadAt(make([]byte, 10), 0); !errors.Is(err, results.ErrTampered) {
		t.Errorf("tampered: %v", err)
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, results.ErrUnavailable) {
		t.Errorf("without its directory: %v", err)
	}
	_, err := s.Create(t.Context(), tenant, "\xff")
	if diff := cmp.Diff(results.ErrUnavailable, err, cmpopts.EquateErrors()); diff != "" {
		t.Error(diff)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "ftp://h/d", "file:///dev/null", "://user:hunter2@x", "s3://b?nonsense=1"} {
		if _, err := results.Open(t.Context(), url, keyring(t), results.Options{}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	k := must(secret.NewKeyring(secret.Key{Version: 1, Bytes: make([]byte, 32)}))
	s := must(results.Open(b.Context(), "file://"+b.TempDir(), k, results.Options{}))
	block := random(256 << 10)
	w := must(s.Create(b.Context(), tenant, "a"))
	defer w.Abort()
	b.SetBytes(int64(len(block)))
	for b.Loop() {
		must(w.Write(block))
	}
}
