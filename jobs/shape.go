package jobs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
)

// maxFaults bounds an answer that would list more.
const maxFaults = 50

// shape collects what is wrong with a data request.
type shape struct {
	limits Limits
	mapped string // where the mapped fields are
	fields []problem.Field
}

// checkShape applies the rules of a data request that need no catalogue. All violations are one FET-0401.
func checkShape(datasources []extract.Datasource, limits Limits) error {
	return checkShapeAt(atMapped, datasources, limits)
}

// checkShapeAt is checkShape for mapped fields that are at the given place.
func checkShapeAt(at string, datasources []extract.Datasource, limits Limits) error {
	s := shape{limits: limits, mapped: at}
	mapped := 0
	for _, d := range datasources {
		if d.Tables == nil && d.Where != nil {
			s.fault(join(atFilters, d.Name), "the datasource is not mapped")
			continue
		}
		mapped++
		s.datasource(d)
	}
	switch {
	case mapped == 0 && len(s.fields) == 0:
		s.fault(at, "must not be empty")
	case mapped > limits.Datasources:
		s.fault(at, fmt.Sprintf("has more than %d datasources", limits.Datasources))
	}
	return s.err()
}

func (s *shape) err() error {
	if len(s.fields) == 0 {
		return nil
	}
	return problem.New(problem.DataRequestInvalid, "the data request is not valid").With(s.fields...)
}

func (s *shape) fault(at, message string) {
	if len(s.fields) < maxFaults {
		s.fields = append(s.fields, problem.Field{Location: at, Message: message})
	}
}

func (s *shape) datasource(d extract.Datasource) {
	at := join(s.mapped, d.Name)
	s.name(at, d.Name)
	switch {
	case len(d.Tables) == 0:
		s.fault(at, "must have a table")
	case len(d.Tables) > s.limits.Tables:
		s.fault(at, fmt.Sprintf("has more than %d tables", s.limits.Tables))
	}
	for _, t := range d.Tables {
		s.table(join(at, t.Name), t)
	}
	for _, table := range slices.Sorted(maps.Keys(d.Where)) {
		s.filters(join(atFilters, d.Name, table), d, table)
	}
}

// name refuses blank names, and NUL, which no database can have in one.
func (s *shape) name(at, name string) {
	if strings.TrimSpace(name) == "" || strings.Contains(name, "\x00") {
		s.fault(at, "has a blank or impossible name")
	}
}

func (s *shape) table(at string, t extract.Table) {
	s.name(at, t.Name)
	all := slices.Contains(t.Fields, source.AllColumns)
	switch {
	case len(t.Fields) == 0:
		s.fault(at, "must have a field")
	case all && len(t.Fields) > 1:
		s.fault(at, `"*" must stand alone`)
	case len(t.Fields) > s.limits.Fields:
		s.fault(at, fmt.Sprintf("has more than %d fields", s.limits.Fields))
	}
	seen := map[string]bool{}
	for i, f := range t.Fields {
		here := at + "[" + strconv.Itoa(i) + "]"
		s.name(here, f)
		if seen[f] {
			s.fault(here, "is there twice")
		}
		seen[f] = true
	}
}

func (s *shape) filters(at string, d extract.Datasource, table string) {
	if !slices.ContainsFunc(d.Tables, func(t extract.Table) bool { return mayMean(table, t.Name) }) {
		s.fault(at, "the table is not mapped")
		return
	}
	conditions := d.Where[table]
	switch {
	case len(conditions) == 0:
		s.fault(at, "must have a condition")
	case len(conditions) > s.limits.Conditions:
		s.fault(at, fmt.Sprintf("has more than %d conditions", s.limits.Conditions))
	}
	for _, c := range conditions {
		here := join(at, c.Field)
		s.name(here, c.Field)
		if c.Op == "" && c.Values == nil {
			s.fault(here, "must have an operator")
			continue
		}
		for _, e := range source.FilterErrors(source.ValidateShape([]source.Condition{c})) {
			s.fault(valueLocation(here, e), e.Reason)
		}
	}
}

// valueLocation is where in a request the value of a filter is, or its operator.
func valueLocation(field string, e *source.FilterError) string {
	at := join(field, string(e.Op))
	if e.Position >= 0 {
		at += "[" + strconv.Itoa(e.Position) + "]"
	}
	return at
}

// mayMean reports whether two names can be spellings of one table; only the catalogue knows whether they are.
func mayMean(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return a == b || strings.HasSuffix(a, "."+b) || strings.HasSuffix(b, "."+a)
}
