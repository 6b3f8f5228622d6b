package extract

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/fetcherhq/fetcher/source"
)

// Step is the read of one table.
type Step struct {
	Name  string // of the table, as requested
	Query source.Query
}

// FaultKind tells what is wrong with a part of a request.
type FaultKind int

// The faults a plan can have.
const (
	TableNotFound FaultKind = iota + 1
	FieldNotFound
	TableTwice     // two names of the request mean one table
	FieldTwice     // two names of the request mean one field
	FilterUnmapped // the filter is for a table that isn't extracted
	FilterInvalid  // the value does not fit the column; Err tells
)

// Fault is one way in which a request does not fit a catalogue.
type Fault struct {
	Kind   FaultKind
	Table  string // as in the request
	Field  string
	Filter *source.FilterError // set when a filter is at fault: its operator and the value's position, from 0 or -1
	Err    error
}

// Missing reports whether the catalogue lacks what was asked for.
func (f Fault) Missing() bool { return f.Kind == TableNotFound || f.Kind == FieldNotFound }

// Names lists the tables a datasource needs to know of, filters included.
func (d Datasource) Names() []string {
	names := slices.Collect(maps.Keys(d.Where))
	for _, t := range d.Tables {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Scope limits a catalogue to what the datasource is asked for, filters included.
func (d Datasource) Scope(schema string) source.Scope {
	s := source.Scope{Schema: schema, Tables: d.Names(), Fields: map[string][]string{}}
	for _, t := range d.Tables {
		s.Fields[t.Name] = append(s.Fields[t.Name], t.Fields...)
	}
	for table, conditions := range d.Where {
		for _, c := range conditions {
			s.Fields[table] = append(s.Fields[table], c.Field)
		}
	}
	return s
}

// all reports whether every field of the table is asked for.
func (t Table) all() bool { return len(t.Fields) == 1 && t.Fields[0] == source.AllColumns }

// Plan resolves what a datasource is asked for against its catalogue, in the byte order of the requested names. It
// lists every fault; the steps are complete only if there is none.
func Plan(cat *source.Catalog, d Datasource) ([]Step, []Fault) {
	p := plan{cat: cat, step: map[*source.Table]int{}}
	tables := slices.Clone(d.Tables)
	slices.SortFunc(tables, func(a, b Table) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range tables {
		p.table(t)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Where)) {
		p.filters(name, d.Where[name])
	}
	return p.steps, p.faults
}

type plan struct {
	cat    *source.Catalog
	steps  []Step
	step   map[*source.Table]int // index into steps
	faults []Fault
}

func (p *plan) fault(f Fault) { p.faults = append(p.faults, f) }

func (p *plan) table(t Table) {
	table, err := p.cat.Resolve(t.Name)
	if err != nil {
		p.fault(Fault{Kind: TableNotFound, Table: t.Name, Err: err})
		return
	}
	if _, ok := p.step[table]; ok {
		p.fault(Fault{Kind: TableTwice, Table: t.Name})
		return
	}
	p.step[table] = len(p.steps)
	query := source.Query{Table: table, Columns: p.columns(table, t), All: t.all()}
	p.steps = append(p.steps, Step{Name: t.Name, Query: query})
}

func (p *plan) columns(table *source.Table, t Table) []*source.Column {
	if t.all() {
		columns, _ := table.Select(t.Fields) // every table has all of its columns
		return columns
	}
	columns := make([]*source.Column, 0, len(t.Fields))
	for _, field := range t.Fields {
		c, err := table.Column(field)
		switch {
		case err != nil:
			p.fault(Fault{Kind: FieldNotFound, Table: t.Name, Field: field, Err: err})
		case slices.Contains(columns, c):
			p.fault(Fault{Kind: FieldTwice, Table: t.Name, Field: field})
		default:
			columns = append(columns, c)
		}
	}
	return columns
}

func (p *plan) filters(name string, conditions []source.Condition) {
	table, err := p.cat.Resolve(name)
	if err != nil {
		p.fault(Fault{Kind: TableNotFound, Table: name, Filter: &source.FilterError{Position: -1}, Err: err})
		return
	}
	i, ok := p.step[table]
	if !ok {
		p.fault(Fault{Kind: FilterUnmapped, Table: name, Filter: &source.FilterError{Position: -1}})
		return
	}
	for _, c := range conditions {
		where, err := source.Compile(table, []source.Condition{c})
		q := &p.steps[i].Query
		q.Where = append(q.Where, where...)
		for _, e := range source.FilterErrors(err) {
			p.fault(Fault{Kind: FilterInvalid, Table: name, Field: c.Field, Filter: e, Err: e})
		}
		if _, ok := errors.AsType[*source.NameError](err); ok {
			p.fault(Fault{Kind: FieldNotFound, Table: name, Field: c.Field, Filter: &source.FilterError{Op: c.Op, Position: -1}, Err: err})
		}
	}
}

// Reason tells what is wrong, without any value.
func (f Fault) Reason() string {
	switch f.Kind {
	case TableNotFound:
		if errors.Is(f.Err, source.ErrTableAmbiguous) {
			return "several tables have the name"
		}
		return "the table does not exist"
	case FieldNotFound:
		return "the field does not exist"
	case TableTwice:
		return "the table is requested under two names"
	case FieldTwice:
		return "the field is requested under two names"
	case FilterUnmapped:
		return "the filter's table is not among the mapped ones"
	case FilterInvalid:
		return f.Filter.Reason
	default:
		return "unknown fault"
	}
}
