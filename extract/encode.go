package extract

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fetcherhq/fetcher/source"
)

// encoder turns rows into the bytes of a format. One encoder serves one datasource; tables come one after another.
type encoder interface {
	// table begins a table.
	table(dst []byte, head head) ([]byte, error)
	// row appends one row.
	row(dst []byte, r source.Row) ([]byte, error)
	// end ends the table.
	end(dst []byte) ([]byte, error)
}

// head is what an encoder is told of a table.
type head struct {
	name    string
	columns []*source.Column
	first   bool // of the datasource's tables

	// pass takes over all that dst holds, in the middle of a row or at the end, and returns an empty one.
	pass func(dst []byte) ([]byte, error)
}

// newEncoder returns an encoder of the job's format.
func newEncoder(job Job, memory int) encoder {
	switch job.Output.format() {
	case FormatNDJSON:
		return &ndjsonEncoder{}
	case FormatCSV:
		return &csvEncoder{safe: job.SafeCells}
	case FormatParquet:
		return newParquetEncoder(job.Output.compression(), memory)
	default:
		return &jsonEncoder{}
	}
}

// cellError says that the format can't hold a value.
type cellError struct{ field, reason string }

func (e *cellError) Error() string { return "field " + e.field + ": " + e.reason }

// members writes rows as JSON objects.
type members struct {
	prefixes [][]byte // {"first": and then ,"name": for each column
}

func (m *members) prepare(columns []*source.Column) error {
	m.prefixes = m.prefixes[:0]
	for i, c := range columns {
		open := byte(',')
		if i == 0 {
			open = '{'
		}
		prefix, err := jsontext.AppendQuote([]byte{open}, c.Name)
		if err != nil {
			return err
		}
		m.prefixes = append(m.prefixes, append(prefix, ':'))
	}
	return nil
}

func (m *members) append(dst []byte, r source.Row) []byte {
	if len(m.prefixes) == 0 { // a table without columns has rows all the same
		return append(dst, "{}"...)
	}
	for i, p := range m.prefixes {
		dst = append(dst, p...)
		dst = r.AppendJSON(dst, i)
	}
	if open, ok := r.(source.OpenRow); ok {
		dst = open.AppendRest(dst)
	}
	return append(dst, '}')
}

// jsonEncoder writes the members of a datasource's object: "table":[{…},…].
type jsonEncoder struct {
	members

	more bool // a row of the table is written
}

func (e *jsonEncoder) table(dst []byte, h head) ([]byte, error) {
	e.more = false
	if err := e.prepare(h.columns); err != nil {
		return nil, err
	}
	if !h.first {
		dst = append(dst, ',')
	}
	dst, err := jsontext.AppendQuote(dst, h.name)
	return append(dst, ":["...), err
}

func (e *jsonEncoder) row(dst []byte, r source.Row) ([]byte, error) {
	if e.more {
		dst = append(dst, ',')
	}
	e.more = true
	return e.append(dst, r), nil
}

func (e *jsonEncoder) end(dst []byte) ([]byte, error) { return append(dst, ']'), nil }

// ndjsonEncoder writes an object per line.
type ndjsonEncoder struct{ members }

func (e *ndjsonEncoder) table(dst []byte, h head) ([]byte, error) { return dst, e.prepare(h.columns) }

func (e *ndjsonEncoder) row(dst []byte, r source.Row) ([]byte, error) {
	mark := len(dst)
	dst = e.append(dst, r)
	oneLine(dst[mark:])
	return append(dst, '\n'), nil
}

func (e *ndjsonEncoder) end(dst []byte) ([]byte, error) { return dst, nil }

// oneLine replaces line breaks. In JSON text they are white space: strings have them escaped.
func oneLine(text []byte) {
	for _, c := range []byte("\n\r") {
		for rest := text; ; {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}

// document frames the objects of the datasources.
type document struct{}

func (document) open(dst []byte, datasource string, first bool) ([]byte, error) {
	if first {
		dst = append(dst, '{')
	} else {
		dst = append(dst, ',')
	}
	dst, err := jsontext.AppendQuote(dst, datasource)
	return append(dst, ":{"...), err
}

func (document) close(dst []byte, last bool) []byte {
	dst = append(dst, '}')
	if last {
		dst = append(dst, '}')
	}
	return dst
}
