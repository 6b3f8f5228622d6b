package mongodb

import (
	"slices"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

const (
	// maxNested bounds the columns for fields of embedded documents: where keys are data there is no end of them.
	maxNested = 2000
	// maxLevels bounds how deep they are looked for.
	maxLevels = 20
)

// tree is what documents of one collection have, in the order in which it was met.
type tree struct {
	root   *node
	nested int
}

// node is one field.
type node struct {
	name     string
	kinds    map[kind]bool
	subtypes map[byte]bool // of binaries that are not UUIDs
	uuids    bool          // some binaries are
	viaArray bool          // some values are in elements of an array
	children []*node
	byName   map[string]*node
}

func newTree() *tree {
	t := &tree{root: &node{}}
	t.root.child(idField) // first in every document, and there before any is
	return t
}

func (n *node) child(name string) *node {
	if c, ok := n.byName[name]; ok {
		return c
	}
	c := &node{name: name, kinds: map[kind]bool{}, subtypes: map[byte]bool{}}
	if n.byName == nil {
		n.byName = map[string]*node{}
	}
	n.byName[name] = c
	n.children = append(n.children, c)
	return c
}

// add takes the fields of a document in.
func (t *tree) add(doc []byte) error { return t.addTo(t.root, doc, 0, false) }

func (t *tree) addTo(parent *node, doc []byte, level int, viaArray bool) error {
	in, err := members(doc)
	for err == nil && len(in) > 0 {
		var e element
		if e, in, err = next(in); err != nil {
			break
		}
		_, known := parent.byName[string(e.name)]
		if level > 0 && !known {
			if t.nested >= maxNested {
				continue
			}
			t.nested++
		}
		c := parent.child(string(e.name))
		c.viaArray = c.viaArray || viaArray
		c.note(e)
		err = t.below(c, e, level, viaArray)
	}
	return err
}

// below takes in what an embedded document has, or those in an array.
func (t *tree) below(c *node, e element, level int, viaArray bool) error {
	if level >= maxLevels {
		return nil
	}
	switch e.kind {
	case kindDocument:
		return t.addTo(c, e.value, level+1, viaArray)
	case kindArray:
		in, err := members(e.value)
		for err == nil && len(in) > 0 {
			var member element
			if member, in, err = next(in); err == nil && member.kind == kindDocument {
				err = t.addTo(c, member.value, level+1, true)
			}
		}
		return err
	}
	return nil
}

func (n *node) note(e element) {
	if e.null() {
		return
	}
	n.kinds[e.kind] = true
	if e.kind == kindBinary {
		subtype, data := binaryOf(e.value)
		if isUUID(subtype, data) {
			n.uuids = true
		} else {
			n.subtypes[subtype] = true
		}
	}
}

// has reports whether a column of the name would be listed.
func (t *tree) has(name string) bool {
	for _, c := range t.columns() {
		if strings.EqualFold(c.Name, name) {
			return true
		}
	}
	return false
}

// columns lists the top-level fields and, behind each, those of embedded documents. A dotted name that two fields have
// means the one that is not nested, or the first.
func (t *tree) columns() []source.Column {
	taken := map[string]bool{}
	for _, c := range t.root.children {
		taken[c.name] = true
	}
	var columns []source.Column
	for _, c := range t.root.children {
		columns = append(columns, c.column([]string{c.name}))
		columns = c.appendNested(columns, []string{c.name}, taken)
	}
	for i := range columns {
		columns[i].Position = i + 1
	}
	return columns
}

func (n *node) appendNested(columns []source.Column, path []string, taken map[string]bool) []source.Column {
	for _, c := range n.children {
		p := slices.Concat(path, []string{c.name})
		column := c.column(p)
		if !taken[column.Name] {
			taken[column.Name] = true
			columns = append(columns, column)
		}
		columns = c.appendNested(columns, p, taken)
	}
	return columns
}
