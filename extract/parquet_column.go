package extract

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/fetcherhq/fetcher/source"
)

// parquetColumn is one column of the row group being made: finished pages, and the values of the next one.
type parquetColumn struct {
	name   string
	memory *pieces
	typ    parquet.Type

	// How a cell that is not null gets in: fixed appends its value to values; text returns that of a byte array. They
	// say why when the type can't hold it.
	fixed func(c *parquetColumn, cell []byte) (reason string)
	text  func(cell []byte) (value []byte, reason string)

	values []byte
	bits   int    // of a column of booleans, in values
	valid  []byte // a bit per value: it isn't null
	count  int
	nulls  int

	pages        [][]byte
	held         int   // bytes of memory that pages take
	uncompressed int64 // size of pages with their headers
	compressed   int64
	allNulls     int64
}

func newParquetColumn(c *source.Column, memory *pieces) *parquetColumn {
	out := &parquetColumn{name: c.Name, memory: memory}
	out.plan(c)
	return out
}

func (c *parquetColumn) buffered() int { return c.held + len(c.values) + len(c.valid) }

// add counts a value.
func (c *parquetColumn) add(valid bool) {
	if c.count%8 == 0 {
		c.valid = append(c.valid, 0)
	}
	if valid {
		c.valid[len(c.valid)-1] |= 1 << (c.count % 8)
	} else {
		c.nulls++
	}
	c.count++
}

// flush makes a page of the values, if there are any.
func (c *parquetColumn) flush(codec pageCodec) error {
	if c.count == 0 {
		return nil
	}
	return c.writePage(codec, c.values, nil)
}

// writePage makes a page of the counted values, whose bytes are in two parts.
func (c *parquetColumn) writePage(codec pageCodec, first, second []byte) error {
	levels := c.levels()
	body := &blocks{from: c.memory}
	if err := codec.encode(body, levels, first, second); err != nil {
		return err
	}
	size := len(levels) + len(first) + len(second)
	header, err := thrift.Marshal(new(thrift.CompactProtocol), &format.PageHeader{
		Type: format.DataPage, UncompressedPageSize: int32(size), CompressedPageSize: int32(body.size), // #nosec G115 -- checked with the value
		CRC: int32(body.crc), // #nosec G115 -- the format's sign
		DataPageHeader: thrift.New(format.DataPageHeader{
			NumValues: int32(c.count), Encoding: format.Plain, // #nosec G115 -- at most mostRows
			DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
		}),
	})
	if err != nil {
		return err
	}
	c.pages = append(append(c.pages, header), body.list...)
	c.held += len(header) + body.held
	c.uncompressed += int64(len(header) + size)
	c.compressed += int64(len(header) + body.size)
	c.allNulls += int64(c.nulls)
	c.values, c.bits, c.valid, c.count, c.nulls = c.values[:0], 0, c.valid[:0], 0, 0
	return nil
}

// levels tells which values of the page are null, as the format's run length encoding of one bit, with its size.
func (c *parquetColumn) levels() []byte {
	out := make([]byte, 4, 4+binary.MaxVarintLen64+len(c.valid)) //nolint:mnd // the size
	n := uint64(c.count)                                         // #nosec G115 -- a count
	switch c.nulls {
	case 0:
		out = append(binary.AppendUvarint(out, n<<1), 1)
	case c.count:
		out = append(binary.AppendUvarint(out, n<<1), 0)
	default:
		out = binary.AppendUvarint(out, uint64(len(c.valid))<<1|1)
		out = append(out, c.valid...)
	}
	binary.LittleEndian.PutUint32(out, uint32(len(out)-4)) //nolint:mnd,gosec // see above; small
	return out
}

func (c *parquetColumn) metadata(codec format.CompressionCodec, rows, offset int64) format.ColumnMetaData {
	return format.ColumnMetaData{
		Type: *c.typ.PhysicalType(), Encoding: []format.Encoding{format.Plain, format.RLE}, PathInSchema: []string{c.name},
		Codec: codec, NumValues: rows, TotalUncompressedSize: c.uncompressed, TotalCompressedSize: c.compressed,
		DataPageOffset: offset, Statistics: format.Statistics{NullCount: c.allNulls},
	}
}

func (c *parquetColumn) reset() {
	for _, p := range c.pages {
		c.memory.put(p)
	}
	clear(c.pages)
	c.pages, c.held, c.uncompressed, c.compressed, c.allNulls = c.pages[:0], 0, 0, 0, 0
}

// element is the column in the schema.
func (c *parquetColumn) element() format.SchemaElement {
	e := format.SchemaElement{
		Type: thrift.New(*c.typ.PhysicalType()), RepetitionType: thrift.New(format.Optional), Name: c.name,
	}
	if c.typ.Kind() == parquet.FixedLenByteArray {
		e.TypeLength = thrift.New(int32(c.typ.Length())) // #nosec G115 -- 16
	}
	if t := c.typ.ConvertedType(); t != nil {
		e.ConvertedType = thrift.New(*t)
	}
	if t := c.typ.LogicalType(); t != nil {
		e.LogicalType = *t
		if d, ok := t.Value.(*format.DecimalType); ok {
			e.Scale, e.Precision = thrift.New(d.Scale), thrift.New(d.Precision)
		}
	}
	return e
}

// pieces are the memory of pages. They go round: a value of many megabytes would leave as much garbage.
type pieces struct{ free [][]byte }

const pieceBytes = 32 << 10

func (p *pieces) get(size int) []byte {
	if size < pieceBytes/2 { // pages of few values are many
		return make([]byte, 0, max(size, 1<<10))
	}
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b[:0]
	}
	return make([]byte, 0, pieceBytes)
}

func (p *pieces) put(b []byte) {
	if cap(b) == pieceBytes {
		p.free = append(p.free, b)
	}
}

// blocks keeps what is written to it in pieces: a buffer that grows would be copied.
type blocks struct {
	from *pieces
	list [][]byte
	size int
	held int
	crc  uint32
}

// Write never fails.
func (b *blocks) Write(p []byte) (int, error) {
	b.crc = crc32.Update(b.crc, crc32.IEEETable, p)
	b.size += len(p)
	for rest := p; len(rest) > 0; {
		last := len(b.list) - 1
		if last < 0 || len(b.list[last]) == cap(b.list[last]) {
			piece := b.from.get(len(rest))
			b.list, last = append(b.list, piece), last+1
			b.held += cap(piece)
		}
		n := min(len(rest), cap(b.list[last])-len(b.list[last]))
		b.list[last], rest = append(b.list[last], rest[:n]...), rest[n:]
	}
	return len(p), nil
}
