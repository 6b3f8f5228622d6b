package mongodb

import (
	"errors"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/form"
)

// errUnlisted says that a document has a field that nobody took.
var errUnlisted = errors.New("a document has a field that the catalogue does not list, and it was not taken")

// row is the document being visited. It implements source.OpenRow.
type row struct {
	writer

	columns []column
	slots   map[string]int // top-level fields that columns need or, in an open row, that the table has columns for
	all     bool           // every field was asked for

	values   []element // by slot; kind 0: not there
	rest     []element // in an open row, what has no slot
	restDone bool
}

// column is one column of the query: a top-level field, and the way into it.
type column struct {
	slot int
	path []string // below the field
}

// newRow plans the columns of q.
func newRow(q source.Query) (*row, error) {
	r := &row{writer: writer{spill: q.Spill}, slots: map[string]int{}, all: q.All}
	slot := func(name string) int {
		if _, ok := r.slots[name]; !ok {
			r.slots[name] = len(r.slots)
		}
		return r.slots[name]
	}
	for _, c := range q.Columns {
		n, ok := c.Native.(*native)
		if !ok {
			return nil, errors.New("column of another kind of source")
		}
		r.columns = append(r.columns, column{slot: slot(n.path[0]), path: n.path[1:]})
	}
	r.values = make([]element, len(r.slots))
	return r, nil
}

// begin takes a document apart.
func (r *row) begin(doc []byte) error {
	in, err := members(doc)
	if err != nil {
		return err
	}
	r.rest, r.restDone = r.rest[:0], false
	for len(in) > 0 {
		var e element
		if e, in, err = next(in); err != nil {
			return err
		}
		slot, known := r.slots[string(e.name)]
		switch {
		case known && r.values[slot].kind == 0: // of two fields with one name the first is what queries see
			r.values[slot] = e
		case !known && r.all:
			r.rest = append(r.rest, e)
		}
	}
	return nil
}

// end returns what went wrong while the document was visited. It keeps no reference to the document: a large one would
// be held while the next one comes.
func (r *row) end() error {
	clear(r.values)
	clear(r.rest)
	if r.err == nil && len(r.rest) > 0 && !r.restDone {
		return &source.Error{Category: source.CategoryUnlisted, Err: errUnlisted}
	}
	return r.err
}

// AppendJSON implements source.Row.
func (r *row) AppendJSON(dst []byte, i int) []byte {
	c := r.columns[i]
	return r.flush(r.walk(dst, r.values[c.slot], c.path, 0))
}

// AppendRest implements source.OpenRow.
func (r *row) AppendRest(dst []byte) []byte {
	r.restDone = true
	for _, e := range r.rest {
		dst = append(form.AppendString(append(dst, ','), e.name), ':')
		dst = r.flush(r.value(dst, e, 0))
	}
	return dst
}

// walk appends the value at a path into e. On the way it meets documents; an array stands for the values in each of its
// elements; anything else has no members.
func (r *row) walk(dst []byte, e element, path []string, depth int) []byte {
	switch {
	case e.kind == 0:
		return append(dst, "null"...)
	case len(path) == 0:
		return r.value(dst, e, depth)
	case e.kind == kindArray:
		return r.walkArray(dst, e, path, depth)
	case e.kind != kindDocument:
		return append(dst, "null"...)
	}
	member, err := lookup(e.value, path[0])
	if err != nil {
		return r.fail(dst, err)
	}
	return r.walk(dst, member, path[1:], depth+1)
}

func (r *row) walkArray(dst []byte, e element, path []string, depth int) []byte {
	in, err := members(e.value)
	if err != nil || depth > maxDepth {
		return r.fail(dst, errors.Join(err, errDepth))
	}
	dst = append(dst, '[')
	for first := true; len(in) > 0; first = false {
		if !first {
			dst = append(dst, ',')
		}
		var member element
		if member, in, err = next(in); err != nil {
			return append(r.fail(dst, err), ']')
		}
		dst = r.flush(r.walk(dst, member, path, depth+1))
	}
	return append(dst, ']')
}

// lookup returns the member of a document; kind 0 if there is none.
func lookup(doc []byte, name string) (element, error) {
	in, err := members(doc)
	for err == nil && len(in) > 0 {
		var e element
		if e, in, err = next(in); err == nil && string(e.name) == name {
			return e, nil
		}
	}
	return element{}, err
}
