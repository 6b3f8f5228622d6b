package extract_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fetcherhq/fetcher/source"
)

// script is a database at the driver's boundary, for what a real server can't be made to do at will.
type script struct {
	tables map[string]table

	openErr, beginErr error
	openPanic         any
	opened, running   atomic.Int32
	peak              atomic.Int32
	closed            atomic.Int32
	begun             chan struct{} // when set: Begin waits until as many have begun as there are places
}

// table has rows of the columns id and text.
type table struct {
	rows  int
	text  func(i int) string // nil: "x"
	err   error              // what the cursor ends with
	block chan struct{}      // when set: reading waits at the last row until it closes or the context ends

	columns []source.Column // instead, with the cells of their rows in JSON
	cells   [][]string
}

func (s *script) Open(context.Context, source.Params, source.Dialer) (source.Session, error) {
	if s.openPanic != nil {
		panic(s.openPanic)
	}
	if s.openErr != nil {
		return nil, s.openErr
	}
	s.opened.Add(1)
	n := s.running.Add(1)
	for p := s.peak.Load(); n > p && !s.peak.CompareAndSwap(p, n); p = s.peak.Load() {
	}
	return &session{script: s}, nil
}

type session struct {
	*script

	over bool
}

func (s *session) Ping(context.Context) error { return nil }

func (s *session) Catalog(_ context.Context, scope source.Scope) (*source.Catalog, error) {
	var tables []source.Table
	for name := range s.tables {
		if !slices.Contains(scope.Tables, name) {
			continue
		}
		if t := s.tables[name]; t.columns != nil {
			tables = append(tables, source.Table{Schema: "public", Base: name, Columns: t.columns})
		} else {
			tables = append(tables, source.Table{Schema: "public", Base: name, Columns: []source.Column{
				{Name: "id", Family: source.FamilyInt, Position: 1}, {Name: "text", Family: source.FamilyText, Position: 2},
			}})
		}
	}
	return source.NewCatalog("public", tables), nil
}

func (s *session) Begin(ctx context.Context, _ time.Time) (string, error) {
	if s.begun != nil {
		select {
		case s.begun <- struct{}{}:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "snapshot", s.beginErr
}

func (s *session) Stream(ctx context.Context, q source.Query, visit func(source.Row) error) error {
	t := s.tables[q.Table.Base]
	for _, cells := range t.cells {
		if err := visit(cellRow(cells)); err != nil {
			return err
		}
	}
	r := &row{columns: q.Columns, text: t.text}
	for r.i = range t.rows {
		if t.block != nil && r.i == t.rows-1 {
			select {
			case <-t.block:
			case <-ctx.Done():
				return &source.Error{Category: source.CategoryTimeout, Transient: true, Err: ctx.Err()}
			}
		}
		if err := visit(r); err != nil {
			return err
		}
	}
	return t.err
}

func (s *session) Close() error {
	if s.over {
		return errors.New("closed twice")
	}
	s.over = true
	s.running.Add(-1)
	s.closed.Add(1)
	return nil
}

type row struct {
	columns []*source.Column
	i       int
	text    func(int) string
}

func (r *row) AppendJSON(dst []byte, i int) []byte {
	if r.columns[i].Name == "id" {
		return strconv.AppendInt(dst, int64(r.i), 10)
	}
	if r.text == nil {
		return append(dst, `"x"`...)
	}
	return append(append(append(dst, '"'), r.text(r.i)...), '"')
}

// cellRow is a row of JSON texts.
type cellRow []string

func (r cellRow) AppendJSON(dst []byte, i int) []byte { return append(dst, r[i]...) }
