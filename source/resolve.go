package source

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The reasons why a name does not resolve; a NameError holds one of them.
var (
	ErrTableUnknown    = errors.New("table not found")
	ErrTableAmbiguous  = errors.New("table name is ambiguous")
	ErrColumnUnknown   = errors.New("field not found")
	ErrColumnAmbiguous = errors.New("field name is ambiguous")
	ErrColumnRepeated  = errors.New("field is named twice")
)

// AllColumns stands, alone, for every column of a table.
const AllColumns = "*"

// NameError says which requested name did not resolve. Name is the request's own text.
type NameError struct {
	Name string
	Err  error
}

// Error names the request's spelling and the reason.
func (e *NameError) Error() string { return fmt.Sprintf("%q: %v", e.Name, e.Err) }

// Unwrap returns the reason.
func (e *NameError) Unwrap() error { return e.Err }

// NewCatalog names and sorts the tables, of which Schema, Base and Columns are set. Tables of the default schema have
// bare names, others are schema.table; a bare name that reads like the qualified name of another table is qualified
// too. Where dots in the names of schemas make two qualified names alike, Resolve refuses the name.
func NewCatalog(defaultSchema string, tables []Table) *Catalog {
	taken := make(map[string]bool, len(tables))
	for i := range tables {
		if t := &tables[i]; t.Schema != defaultSchema {
			t.Name = t.qualified()
			taken[t.Name] = true
		}
	}
	for i := range tables {
		if t := &tables[i]; t.Schema == defaultSchema {
			t.Name = t.Base
			if taken[t.Name] {
				t.Name = t.qualified()
			}
		}
	}
	slices.SortFunc(tables, func(a, b Table) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Schema, b.Schema))
	})
	return &Catalog{DefaultSchema: defaultSchema, Tables: tables}
}

func (t *Table) qualified() string { return t.Schema + "." + t.Base }

// Resolve finds the table a request names: as listed, or qualified by its schema; exactly, or else regardless of case.
// A name that several tables answer to in the same way is refused, never settled by their order. The error is a
// *NameError with ErrTableUnknown or ErrTableAmbiguous.
func (c *Catalog) Resolve(name string) (*Table, error) {
	for _, answers := range []func(t *Table) bool{
		func(t *Table) bool { return t.Name == name },
		func(t *Table) bool { return t.qualified() == name },
		func(t *Table) bool { return strings.EqualFold(t.Name, name) || strings.EqualFold(t.qualified(), name) },
	} {
		var found *Table
		for i := range c.Tables {
			if !answers(&c.Tables[i]) {
				continue
			}
			if found != nil {
				return nil, &NameError{Name: name, Err: ErrTableAmbiguous}
			}
			found = &c.Tables[i]
		}
		if found != nil {
			return found, nil
		}
	}
	return nil, &NameError{Name: name, Err: ErrTableUnknown}
}

// Column finds the column a request names: exactly, or else regardless of case if only one column matches so. The
// error is a *NameError with ErrColumnUnknown or ErrColumnAmbiguous.
func (t *Table) Column(name string) (*Column, error) {
	var found *Column
	ambiguous := false
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Name == name {
			return c, nil
		}
		if strings.EqualFold(c.Name, name) {
			ambiguous = ambiguous || found != nil
			found = c
		}
	}
	switch {
	case found == nil:
		return nil, &NameError{Name: name, Err: ErrColumnUnknown}
	case ambiguous:
		return nil, &NameError{Name: name, Err: ErrColumnAmbiguous}
	}
	return found, nil
}

// Select finds the columns of a request, in its order; AllColumns alone is every column in catalogue order. Two
// spellings of one column are ErrColumnRepeated, for an object can't have a member twice.
func (t *Table) Select(fields []string) ([]*Column, error) {
	if len(fields) == 1 && fields[0] == AllColumns {
		all := make([]*Column, 0, len(t.Columns))
		for i := range t.Columns {
			if !t.Columns[i].Nested {
				all = append(all, &t.Columns[i])
			}
		}
		return all, nil
	}
	columns := make([]*Column, 0, len(fields))
	seen := make(map[*Column]bool, len(fields))
	for _, f := range fields {
		c, err := t.Column(f)
		if err != nil {
			return nil, err
		}
		if seen[c] {
			return nil, &NameError{Name: f, Err: ErrColumnRepeated}
		}
		seen[c] = true
		columns = append(columns, c)
	}
	return columns, nil
}
