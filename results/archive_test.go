package results_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"github.com/fetcherhq/fetcher/results"
)

func archiveOf(t *testing.T, s *results.Store, contents ...[]byte) *results.Archive {
	t.Helper()
	var entries []results.ArchiveEntry
	for i, c := range contents {
		f := put(t, s, s.Key(tenant, "x", fmt.Sprint(i)), c)
		entries = append(entries, results.ArchiveEntry{Name: fmt.Sprintf("d/%d", i), Facts: f})
	}
	return results.NewArchive(s, tenant, entries)
}

func readArchive(t *testing.T, a *results.Archive) ([]byte, error) {
	t.Helper()
	r, err := a.Open(t.Context())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(iotest.OneByteReader(r))
}

func TestArchive(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	contents := [][]byte{random(1000), {}, random(200_000), random(65536)}
	a := archiveOf(t, s, contents...)
	file, err := readArchive(t, a)
	if err != nil || int64(len(file)) != a.Size() {
		t.Fatalf("%d bytes, said to be %d: %v", len(file), a.Size(), err)
	}
	if again, failed := readArchive(t, a); failed != nil || !bytes.Equal(again, file) {
		t.Error("another archive the second time", failed)
	}
	z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range contents {
		f := z.File[i]
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r) // compares the CRC
		if err != nil || !bytes.Equal(got, c) || f.Name != fmt.Sprintf("d/%d", i) || f.Method != zip.Store || f.Mode() != 0o644 {
			t.Errorf("entry %d: %d bytes, %+v, %v", i, len(got), f.FileHeader, err)
		}
		if want := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); !f.Modified.Equal(want) {
			t.Errorf("modified %s", f.Modified)
		}
	}
	empty := results.NewArchive(s, tenant, nil)
	if file, err := readArchive(t, empty); err != nil || len(file) != 22 || empty.Size() != 22 {
		t.Errorf("empty archive: %d bytes, %v", len(file), err)
	}
}

// An object that was changed ends the archive before its last block.
func TestTamperedArchive(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	a := archiveOf(t, s, random(10), random(200_000), random(10))
	path := filepath.Join(dir, s.Key(tenant, "x", "1"))
	file := must(os.ReadFile(path))
	file[len(file)-5] ^= 1
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readArchive(t, a); !errors.Is(err, results.ErrTampered) || len(got) > 200_000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	// The directory's order is what the caller said: a wrong object under a key is found too.
	if err := os.Rename(filepath.Join(dir, s.Key(tenant, "x", "2")), filepath.Join(dir, s.Key(tenant, "x", "0"))); err != nil {
		t.Fatal(err)
	}
	if _, err := readArchive(t, a); !errors.Is(err, results.ErrTampered) {
		t.Errorf("swapped: %v", err)
	}
}

// ReclaimAll removes what it saw below a directory, finished or not, and nothing beside it.
func TestReclaimAll(t *testing.T) { //nolint:tparallel // few and short
	t.Parallel()
	files, dir := open(t)
	objects, uploads := openS3(t)
	for name, s := range map[string]*results.Store{"file": files, "s3": objects} {
		t.Run(name, func(t *testing.T) {
			key := func(name string) string { return s.Key(tenant, "external-data", name) }
			inside := []results.Facts{put(t, s, key("job/a/1.csv"), random(10)), put(t, s, key("job/manifest.json"), random(10))}
			beside := []results.Facts{put(t, s, key("job.json"), random(10)), put(t, s, key("jobs/x"), random(10))}
			dead, err := s.Create(context.WithoutCancel(t.Context()), tenant, key("job/a/2.csv"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := dead.Write(random(11 << 20)); err != nil {
				t.Fatal(err)
			}
			defer dead.Abort()
			lost := errors.New("lost")
			if err := s.ReclaimAll(t.Context(), key("job")+"/", func(context.Context) error { return lost }); !errors.Is(err, lost) {
				t.Errorf("by another: %v", err)
			}
			if err := s.ReclaimAll(t.Context(), key("job")+"/", func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
			for _, f := range inside {
				if _, err := s.OpenReader(t.Context(), tenant, f); !errors.Is(err, results.ErrGone) {
					t.Errorf("%s: %v", f.Key, err)
				}
			}
			for _, f := range beside {
				if _, err := read(t.Context(), s, tenant, f); err != nil {
					t.Errorf("%s: %v", f.Key, err)
				}
			}
			if name == "s3" && uploads() != 0 {
				t.Errorf("%d uploads are open", uploads())
			}
			if name == "file" {
				if left, err := os.ReadDir(filepath.Join(dir, filepath.Dir(key("job.json")))); err != nil || len(left) != 2 {
					t.Errorf("left is %v, %v", left, err)
				}
			}
			asked := false
			if err := s.ReclaimAll(t.Context(), key("job")+"/", func(context.Context) error { asked = true; return nil }); err != nil || asked {
				t.Errorf("of nothing: %v, asked %v", err, asked)
			}
			if err := s.ReclaimAll(t.Context(), key("job"), nil); err == nil {
				t.Error("took a key for a directory")
			}
		})
	}
}
