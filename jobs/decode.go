package jobs

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/source"
)

const (
	atMapped  = "body.dataRequest.mappedFields"
	atFilters = "body.dataRequest.filters"
)

// decodeDatasources reads the texts of mappedFields and filters, as sent or as stored. What is wrong with their types
// is FET-0001. Filters of a datasource that isn't mapped make one without tables.
func decodeDatasources(mapped, filters []byte) ([]extract.Datasource, error) {
	byName := map[string]*extract.Datasource{}
	if err := decodeMapped(atMapped, mapped, byName); err != nil {
		return nil, err
	}
	if filters != nil {
		if err := decodeFilters(filters, byName); err != nil {
			return nil, err
		}
	}
	return inOrder(byName), nil
}

// inOrder lists datasources by name.
func inOrder(byName map[string]*extract.Datasource) []extract.Datasource {
	all := make([]extract.Datasource, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, *byName[name])
	}
	return all
}

// decodeMapped reads the text of mappedFields, which is at the given place.
func decodeMapped(at string, text []byte, into map[string]*extract.Datasource) error {
	sources, err := decodeObject(at, text)
	if err != nil {
		return err
	}
	for name, text := range sources {
		tables, err := decodeObject(join(at, name), text)
		if err != nil {
			return err
		}
		d := &extract.Datasource{Name: name}
		for _, table := range slices.Sorted(maps.Keys(tables)) {
			fields, err := decodeStrings(join(at, name, table), tables[table])
			if err != nil {
				return err
			}
			d.Tables = append(d.Tables, extract.Table{Name: table, Fields: fields})
		}
		into[name] = d
	}
	return nil
}

func decodeStrings(at string, text jsontext.Value) ([]string, error) {
	elements, err := decodeArray(at, text)
	if err != nil {
		return nil, err
	}
	texts := make([]string, 0, len(elements))
	for i, e := range elements {
		s, err := decodeString(at+"["+strconv.Itoa(i)+"]", e)
		if err != nil {
			return nil, err
		}
		texts = append(texts, s)
	}
	return texts, nil
}

func decodeFilters(text []byte, into map[string]*extract.Datasource) error {
	sources, err := decodeObject(atFilters, text)
	if err != nil {
		return err
	}
	for name, text := range sources {
		tables, err := decodeObject(join(atFilters, name), text)
		if err != nil {
			return err
		}
		d := into[name]
		if d == nil {
			d = &extract.Datasource{Name: name}
			into[name] = d
		}
		d.Where = map[string][]source.Condition{}
		for table, text := range tables {
			if d.Where[table], err = decodeConditions(join(atFilters, name, table), text); err != nil {
				return err
			}
		}
	}
	return nil
}

// decodeConditions reads the filters of one table, in the order of fields and operators. A field without an operator
// becomes a condition without one.
func decodeConditions(at string, text jsontext.Value) ([]source.Condition, error) {
	fields, err := decodeObject(at, text)
	if err != nil {
		return nil, err
	}
	conditions := []source.Condition{}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		ops, err := decodeObject(join(at, field), fields[field])
		if err != nil {
			return nil, err
		}
		if len(ops) == 0 {
			conditions = append(conditions, source.Condition{Field: field})
		}
		for _, op := range slices.Sorted(maps.Keys(ops)) {
			values, err := decodeArray(join(at, field, op), ops[op])
			if err != nil {
				return nil, err
			}
			conditions = append(conditions, source.Condition{Field: field, Op: source.Op(op), Values: values})
		}
	}
	return conditions, nil
}

// join makes a location of names, each shortened so that an answer doesn't grow with what a caller made up.
func join(at string, names ...string) string {
	const most = 100
	var b strings.Builder
	b.WriteString(at)
	for _, name := range names {
		if utf8.RuneCountInString(name) > most {
			name = string([]rune(name)[:most]) + "…"
		}
		b.WriteString("." + name)
	}
	return b.String()
}
