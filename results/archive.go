package results

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// ArchiveEntry is one object in an archive.
type ArchiveEntry struct {
	Facts

	Name string // in the archive: ASCII, with slashes
}

// Archive streams objects as one ZIP file: stored, with fixed times, so that the same objects make the same bytes, of a
// size that is known before the first is read. Files of any size and number go in, by way of ZIP64 where it is needed.
type Archive struct {
	store   Opener
	tenant  string
	entries []ArchiveEntry
	at      []int64 // where each entry begins
	size    int64
}

// Opener opens objects: a Store.
type Opener interface {
	OpenReader(ctx context.Context, tenant string, f Facts) (*Reader, error)
}

// NewArchive describes an archive of the tenant's objects. Their CRC32 must be known.
func NewArchive(s Opener, tenant string, entries []ArchiveEntry) *Archive {
	a := &Archive{store: s, tenant: tenant, entries: entries}
	for _, e := range entries {
		a.at = append(a.at, a.size)
		a.size += int64(len(localHeader(e))) + e.SizeBytes
	}
	a.size += int64(len(a.directory()))
	return a
}

// Size is the number of bytes the archive has.
func (a *Archive) Size() int64 { return a.size }

// Open opens the archive for reading. As with OpenReader, the first object's beginning was read and checked then; the
// last block of every object is handed out only if the object is right.
func (a *Archive) Open(ctx context.Context) (io.ReadCloser, error) {
	r := &archiveReader{archive: a, ctx: ctx}
	if err := r.advance(); err != nil {
		return nil, err
	}
	return r, nil
}

// archiveReader reads header, object, header, object, and in the end the directory.
type archiveReader struct {
	archive *Archive
	ctx     context.Context //nolint:containedctx // of a reader, whose Read has none
	next    int
	head    *bytes.Reader
	object  *Reader // nil while the directory is read
}

// advance goes to the next part.
func (r *archiveReader) advance() error {
	if err := r.Close(); err != nil {
		return err
	}
	if r.next > len(r.archive.entries) {
		return io.EOF
	}
	if r.next == len(r.archive.entries) {
		r.next++
		r.head = bytes.NewReader(r.archive.directory())
		return nil
	}
	e := r.archive.entries[r.next]
	r.next++
	var err error
	r.head = bytes.NewReader(localHeader(e))
	r.object, err = r.archive.store.OpenReader(r.ctx, r.archive.tenant, e.Facts)
	return err
}

// Read implements io.Reader.
func (r *archiveReader) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if r.head.Len() > 0 {
			return r.head.Read(p)
		}
		if r.object != nil {
			n, err := r.object.Read(p)
			if err != nil && !errors.Is(err, io.EOF) {
				return n, err
			}
			if n > 0 {
				return n, nil
			}
		}
		if err := r.advance(); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// Close releases the object that is being read.
func (r *archiveReader) Close() error {
	if r.object == nil {
		return nil
	}
	err := r.object.Close()
	r.object = nil
	return err
}

// The records of APPNOTE.TXT 4.3, and what is the same in all of them.
const (
	zipLocal       = 0x04034b50
	zipCentral     = 0x02014b50
	zipEnd         = 0x06054b50
	zipEnd64       = 0x06064b50
	zipLocator     = 0x07064b50
	zipExtra64     = 1
	zipVersion     = 20
	zipVersion64   = 45
	zipUnix        = 3 << 8
	zipMode        = 0o100644 << 16
	zipDate        = 0x21 // the first of January of 1980, at midnight
	zipEnd64Length = 44

	zipRecordRoom = 128 // for most
)

// zipRecord appends little-endian numbers.
type zipRecord []byte

func newRecord() zipRecord { return make(zipRecord, 0, zipRecordRoom) }

func (r *zipRecord) u16(values ...uint16) {
	for _, v := range values {
		*r = binary.LittleEndian.AppendUint16(*r, v)
	}
}

func (r *zipRecord) u32(values ...uint32) {
	for _, v := range values {
		*r = binary.LittleEndian.AppendUint32(*r, v)
	}
}

func (r *zipRecord) u64(values ...int64) {
	for _, v := range values {
		*r = binary.LittleEndian.AppendUint64(*r, uint64(v)) // #nosec G115 -- sizes
	}
}

func isLarge(v int64) bool { return v >= math.MaxUint32 }

func version(large bool) uint16 {
	if large {
		return zipVersion64
	}
	return zipVersion
}

func localHeader(e ArchiveEntry) []byte {
	r, extra := newRecord(), newRecord()
	size := uint32(min(e.SizeBytes, math.MaxUint32)) // #nosec G115 -- bounded
	large := isLarge(e.SizeBytes)
	if large {
		extra.u16(zipExtra64, 16) //nolint:mnd // two numbers
		extra.u64(e.SizeBytes, e.SizeBytes)
	}
	r.u32(zipLocal)
	r.u16(version(large), 0, 0, 0, zipDate)
	r.u32(e.CRC32, size, size)
	r.u16(uint16(len(e.Name)), uint16(len(extra))) // #nosec G115 -- names are bounded
	return append(append(r, e.Name...), extra...)
}

func (a *Archive) centralHeader(i int) []byte {
	e, at := a.entries[i], a.at[i]
	r, extra := newRecord(), newRecord()
	if isLarge(e.SizeBytes) {
		extra.u64(e.SizeBytes, e.SizeBytes)
	}
	if isLarge(at) {
		extra.u64(at)
	}
	if len(extra) > 0 {
		head := newRecord()
		head.u16(zipExtra64, uint16(len(extra))) // #nosec G115 -- three numbers
		extra = append(head, extra...)
	}
	size := uint32(min(e.SizeBytes, math.MaxUint32)) // #nosec G115 -- bounded
	needs := version(len(extra) > 0)
	r.u32(zipCentral)
	r.u16(zipUnix|needs, needs, 0, 0, 0, zipDate)
	r.u32(e.CRC32, size, size)
	r.u16(uint16(len(e.Name)), uint16(len(extra)), 0, 0, 0) // #nosec G115 -- see localHeader
	r.u32(zipMode, uint32(min(at, math.MaxUint32)))         // #nosec G115 -- bounded
	return append(append(r, e.Name...), extra...)
}

// directory is what follows the last object.
func (a *Archive) directory() []byte {
	r := newRecord()
	for i := range a.entries {
		r = append(r, a.centralHeader(i)...)
	}
	start, size, count := int64(0), int64(len(r)), int64(len(a.entries))
	if n := len(a.entries); n > 0 {
		start = a.at[n-1] + int64(len(localHeader(a.entries[n-1]))) + a.entries[n-1].SizeBytes
	}
	if count >= math.MaxUint16 || isLarge(start) || isLarge(size) {
		r.u32(zipEnd64)
		r.u64(zipEnd64Length)
		r.u16(zipUnix|zipVersion64, zipVersion64)
		r.u32(0, 0)
		r.u64(count, count, size, start)
		r.u32(zipLocator, 0)
		r.u64(start + size)
		r.u32(1)
	}
	short := uint16(min(count, math.MaxUint16)) // #nosec G115 -- bounded
	r.u32(zipEnd)
	r.u16(0, 0, short, short)
	r.u32(uint32(min(size, math.MaxUint32)), uint32(min(start, math.MaxUint32))) // #nosec G115 -- bounded
	r.u16(0)
	return r
}
