package extract

import (
	"encoding/binary"
	"math"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/fetcherhq/fetcher/source"
)

const (
	parquetMagic = "PAR1"

	largestPage = 256 << 10
	leastPage   = 8 << 10
	leastGroup  = 2 << 20
	mostRows    = 1 << 20 // of a row group
)

// parquetEncoder writes Parquet files: optional columns in the order requested, plain encoded pages of version 1, row
// groups that are written as soon as they have taken the memory there is for them. Values go from their JSON form
// straight into the page; one that is large becomes a page by itself, so that there is never more than one copy of it
// here.
type parquetEncoder struct {
	codec  pageCodec
	memory int // for a row group, about
	pieces pieces

	head    head
	columns []*parquetColumn
	page    int // bytes at which a page is full
	limit   int // bytes at which a row group is
	cell    []byte

	rows   int64 // of the row group
	offset int64 // in the file
	groups []byte
	count  int
	total  int64 // rows of the file
}

func newParquetEncoder(compression string, memory int) *parquetEncoder {
	return &parquetEncoder{codec: newPageCodec(compression), memory: memory}
}

func (e *parquetEncoder) table(dst []byte, h head) ([]byte, error) {
	if len(h.columns) == 0 {
		return nil, &cellError{reason: "parquet needs a field"}
	}
	e.head, e.columns = h, e.columns[:0]
	for _, c := range h.columns {
		e.columns = append(e.columns, newParquetColumn(c, &e.pieces))
	}
	e.limit = max(e.memory, leastGroup)
	e.page = min(max(e.limit/len(e.columns), leastPage), largestPage)
	e.rows, e.offset, e.groups, e.count, e.total = 0, 0, nil, 0, 0
	return e.emit(dst, []byte(parquetMagic))
}

func (e *parquetEncoder) row(dst []byte, r source.Row) ([]byte, error) {
	buffered := 0
	for i, c := range e.columns {
		e.cell = r.AppendJSON(e.cell[:0], i)
		if err := e.value(c); err != nil {
			return nil, err
		}
		buffered += c.buffered()
	}
	if cap(e.cell) > wideBytes { // from now on that much is taken
		e.limit = leastGroup
	}
	e.rows++
	if buffered < e.limit && e.rows < mostRows {
		return dst, nil
	}
	return e.group(dst)
}

// value adds the cell to a column.
func (e *parquetEncoder) value(c *parquetColumn) error {
	switch {
	case isNull(e.cell):
		c.add(false)
	case c.text == nil:
		if reason := c.fixed(c, e.cell); reason != "" {
			return &cellError{c.name, reason}
		}
		c.add(true)
	default:
		text, reason := c.text(e.cell)
		if reason != "" {
			return &cellError{c.name, reason}
		}
		if len(text) > math.MaxInt32/2 {
			return &cellError{c.name, "the value is too large for a page"}
		}
		if len(text) > e.page/2 {
			return e.large(c, text)
		}
		c.values = append(binary.LittleEndian.AppendUint32(c.values, uint32(len(text))), text...) // #nosec G115 -- checked
		c.add(true)
	}
	if len(c.values) >= e.page || c.count >= mostRows {
		return c.flush(e.codec)
	}
	return nil
}

// large makes a page of one text.
func (e *parquetEncoder) large(c *parquetColumn, text []byte) error {
	if err := c.flush(e.codec); err != nil {
		return err
	}
	c.add(true)
	c.values = binary.LittleEndian.AppendUint32(c.values, uint32(len(text))) // #nosec G115 -- checked by the caller
	return c.writePage(e.codec, c.values, text)
}

// group writes the row group.
func (e *parquetEncoder) group(dst []byte) ([]byte, error) {
	if e.rows == 0 {
		return dst, nil
	}
	g := format.RowGroup{NumRows: e.rows, FileOffset: e.offset, Ordinal: int16(min(e.count, math.MaxInt16))} // #nosec G115 -- bounded
	for _, c := range e.columns {
		if err := c.flush(e.codec); err != nil {
			return nil, err
		}
		g.Columns = append(g.Columns, format.ColumnChunk{MetaData: c.metadata(e.codec.id(), e.rows, e.offset)})
		g.TotalByteSize += c.uncompressed
		g.TotalCompressedSize += c.compressed
		var err error
		for _, b := range c.pages {
			if dst, err = e.emit(dst, b); err != nil {
				return nil, err
			}
		}
		c.reset()
	}
	text, err := thrift.Marshal(new(thrift.CompactProtocol), &g)
	if err != nil {
		return nil, err
	}
	e.groups = append(e.groups, text...)
	e.count++
	e.total += e.rows
	e.rows = 0
	return dst, nil
}

func (e *parquetEncoder) end(dst []byte) ([]byte, error) {
	dst, err := e.group(dst)
	if err != nil {
		return nil, err
	}
	footer, err := e.footer()
	if err != nil {
		return nil, err
	}
	e.columns, e.cell, e.groups, e.pieces.free = nil, nil, nil, nil
	return e.emit(dst, footer)
}

// emit appends a part of the file to dst, passing dst on whenever a block is full.
func (e *parquetEncoder) emit(dst, part []byte) ([]byte, error) {
	e.offset += int64(len(part))
	for len(part) > 0 {
		n := min(len(part), max(blockBytes-len(dst), 1))
		dst, part = append(dst, part[:n]...), part[n:]
		if len(dst) >= blockBytes {
			var err error
			if dst, err = e.head.pass(dst); err != nil {
				return nil, err
			}
		}
	}
	return dst, nil
}

// footer is the file's metadata. They are put together from row groups that are in their final form already: those of a
// long file would take up memory as values.
func (e *parquetEncoder) footer() ([]byte, error) {
	const (
		fieldVersion, fieldSchema, fieldRows, fieldGroups, fieldCreator = 0x15, 0x19, 0x16, 0x19, 0x28 // i32, list, i64, list, and a string two ids on

		structs = 0xfc // a list of structs whose length follows
		version = 2
		creator = "fetcher"
	)
	out := []byte{fieldVersion, version << 1, fieldSchema, structs}
	out = binary.AppendUvarint(out, uint64(len(e.columns)+1))
	root := format.SchemaElement{Name: "table", NumChildren: thrift.New(int32(len(e.columns)))} // #nosec G115 -- no table has that many
	elements := append(make([]format.SchemaElement, 0, len(e.columns)+1), root)
	for _, c := range e.columns {
		elements = append(elements, c.element())
	}
	for i := range elements {
		text, err := thrift.Marshal(new(thrift.CompactProtocol), &elements[i])
		if err != nil {
			return nil, err
		}
		out = append(out, text...)
	}
	out = binary.AppendVarint(append(out, fieldRows), e.total)
	out = binary.AppendUvarint(append(out, fieldGroups, structs), uint64(e.count)) // #nosec G115 -- a count
	out = append(out, e.groups...)
	out = binary.AppendUvarint(append(out, fieldCreator), uint64(len(creator)))
	out = append(append(out, creator...), 0)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(out))) // #nosec G115 -- row groups of megabytes have little metadata
	return append(out, parquetMagic...), nil
}
