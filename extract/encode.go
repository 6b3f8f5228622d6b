package extract

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fetcherhq/fetcher/source"
)

// encoder turns rows into the bytes of a format. One encoder serves one datasource; tables come one after another.
type encoder interface {
	// table begins a table, which has the columns; first says that it is the datasource's first.
	table(dst []byte, name string, columns []*source.Column, first bool) ([]byte, error)
	// row appends one row.
	row(dst []byte, r source.Row) ([]byte, error)
	// end ends the table.
	end(dst []byte) ([]byte, error)
}

// jsonEncoder writes the members of a datasource's object: "table":[{…},…].
type jsonEncoder struct {
	prefixes [][]byte // {"first": and then ,"name": for each column
	more     bool     // a row of the table is written
}

func (e *jsonEncoder) table(dst []byte, name string, columns []*source.Column, first bool) ([]byte, error) {
	e.prefixes, e.more = e.prefixes[:0], false
	for i, c := range columns {
		open := byte(',')
		if i == 0 {
			open = '{'
		}
		prefix, err := jsontext.AppendQuote([]byte{open}, c.Name)
		if err != nil {
			return nil, err
		}
		e.prefixes = append(e.prefixes, append(prefix, ':'))
	}
	if !first {
		dst = append(dst, ',')
	}
	dst, err := jsontext.AppendQuote(dst, name)
	return append(dst, ":["...), err
}

func (e *jsonEncoder) row(dst []byte, r source.Row) ([]byte, error) {
	if e.more {
		dst = append(dst, ',')
	}
	e.more = true
	if len(e.prefixes) == 0 { // a table without columns has rows all the same
		return append(dst, "{}"...), nil
	}
	for i, p := range e.prefixes {
		dst = append(dst, p...)
		dst = r.AppendJSON(dst, i)
	}
	if open, ok := r.(source.OpenRow); ok {
		dst = open.AppendRest(dst)
	}
	return append(dst, '}'), nil
}

func (e *jsonEncoder) end(dst []byte) ([]byte, error) { return append(dst, ']'), nil }

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
