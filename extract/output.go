package extract

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"
)

// The formats of a result.
const (
	// FormatJSON is one document: {"<datasource>": {"<table>": [{…}, …]}}.
	FormatJSON = "json"
	// FormatNDJSON is an object per table, a row of JSON per line.
	FormatNDJSON = "ndjson"
	// FormatCSV is an object per table as RFC 4180 has it, with a header row.
	FormatCSV = "csv"
	// FormatParquet is an object per table.
	FormatParquet = "parquet"
)

// The compressions of a result.
const (
	CompressionNone = "none"
	CompressionGzip = "gzip"
	CompressionZstd = "zstd"
)

// Formats lists the formats an Output may name.
func Formats() []string { return []string{FormatJSON, FormatNDJSON, FormatCSV, FormatParquet} }

// Compressions lists the compressions an Output may name; each goes with every format.
func Compressions() []string { return []string{CompressionNone, CompressionGzip, CompressionZstd} }

// Output says how a result is written. The zero value is uncompressed JSON.
type Output struct {
	Format      string
	Compression string
}

func (o Output) format() string      { return cmp.Or(o.Format, FormatJSON) }
func (o Output) compression() string { return cmp.Or(o.Compression, CompressionNone) }

func (o Output) valid() bool {
	return slices.Contains(Formats(), o.format()) && slices.Contains(Compressions(), o.compression())
}

// PerTable reports whether the result is an object per table and a manifest, instead of one document.
func (o Output) PerTable() bool { return o.format() != FormatJSON }

// ObjectName is that of the object which stands for the result of the job with the id: the document, or the manifest.
func (o Output) ObjectName(id string) string {
	if o.PerTable() {
		return id + "/" + ManifestName
	}
	return id + o.extension()
}

// extension is that of objects with rows. Parquet compresses inside.
func (o Output) extension() string {
	ext := "." + o.format()
	if o.format() == FormatParquet {
		return ext
	}
	switch o.compression() {
	case CompressionGzip:
		return ext + ".gz"
	case CompressionZstd:
		return ext + ".zst"
	}
	return ext
}

// ManifestName is the last segment of a manifest's key. No table's object has that name: theirs lie deeper.
const ManifestName = "manifest.json"

// directory is what the keys of all objects of a result per table begin with, made from the manifest's.
func directory(manifest string) string { return path.Dir(manifest) + "/" }

// tableFile is the key of a table's object below the directory of the result.
func (o Output) tableFile(datasource, table string) string {
	return segment(datasource) + "/" + segment(table) + o.extension()
}

const (
	longestSegment = 180 // bytes: file systems allow 255, and a file that is being written has a longer name
	keptOfLong     = 120
)

// segment makes a name a segment of a key, and of an entry's name in an archive: letters, digits and -_.$ of ASCII stay,
// every other byte of its UTF-8 form becomes %XX, and so does what file systems or storages give a meaning: a leading dot
// and the first character of "__0x". Names stay apart and can be read back by decoding. One that would be longer than
// file systems take is cut and ends in ~ and a digest of the whole; the manifest tells it in full.
func segment(name string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if isPlain(c) && (c != '.' || i > 0) && !strings.HasPrefix(name[i:], "__0x") {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&0xf]})
	}
	if b.Len() <= longestSegment {
		return b.String()
	}
	cut := b.String()[:keptOfLong]
	if i := strings.LastIndexByte(cut, '%'); i > len(cut)-3 { // not in the middle of an escape
		cut = cut[:i]
	}
	sum := sha256.Sum256([]byte(name))
	return cut + "~" + hex.EncodeToString(sum[:16])
}

func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.$", c) >= 0
}
