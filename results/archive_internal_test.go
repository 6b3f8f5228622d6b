package results

import (
	"archive/zip"
	"io"
	"slices"
	"testing"
)

// sparse is an archive whose objects are all zeros.
type sparse struct {
	pieces map[int64][]byte
	size   int64
}

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	n := int(min(int64(len(p)), s.size-off))
	clear(p[:n])
	for at, b := range s.pieces {
		for i := range b {
			if k := at + int64(i) - off; k >= 0 && k < int64(n) {
				p[k] = b[i]
			}
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Sizes and offsets beyond 32 bits, and more entries than 16 bits count, are read back.
func TestArchiveZip64(t *testing.T) {
	t.Parallel()
	const large = 5 << 30
	sizes := []int64{large, 10, 1<<32 - 1, 1<<32 - 2, 7}
	var entries []ArchiveEntry
	for i, n := range sizes {
		entries = append(entries, ArchiveEntry{Name: string(rune('a' + i)), Facts: Facts{SizeBytes: n, CRC32: uint32(i)}})
	}
	a := NewArchive(nil, "", entries)
	file := sparse{pieces: map[int64][]byte{a.size - int64(len(a.directory())): a.directory()}, size: a.size}
	for i, e := range entries {
		file.pieces[a.at[i]] = localHeader(e)
	}
	z, err := zip.NewReader(file, a.Size())
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for i, f := range z.File {
		got = append(got, int64(f.UncompressedSize64))
		at, failed := f.DataOffset()
		if want := a.at[i] + int64(len(localHeader(entries[i]))); failed != nil || at != want {
			t.Errorf("%s is at %d, want %d (%v)", f.Name, at, want, failed)
		}
	}
	if !slices.Equal(got, sizes) {
		t.Errorf("sizes %v", got)
	}

	many := NewArchive(nil, "", make([]ArchiveEntry, 70_000))
	file = sparse{pieces: map[int64][]byte{many.size - int64(len(many.directory())): many.directory()}, size: many.size}
	if z, err = zip.NewReader(io.NewSectionReader(file, 0, many.size), many.size); err != nil || len(z.File) != 70_000 {
		t.Errorf("of many: %v", err)
	}
}
