package mongodb

import (
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source"
)

// filterOf makes the query document of predicates, all of which must hold.
func filterOf(where []source.Predicate) (bson.D, error) {
	all := make(bson.A, 0, len(where))
	for _, p := range where {
		n, ok := p.Column.Native.(*native)
		if !ok {
			return nil, errors.New("column of another kind of source")
		}
		condition, err := conditionOf(p, n)
		if err != nil {
			return nil, err
		}
		all = append(all, condition)
	}
	if len(all) == 0 {
		return bson.D{}, nil
	}
	return bson.D{{Key: keyAnd, Value: all}}, nil
}

// field writes conditions on one field. A value in an array is not the field's value: they hold for the field itself.
type field interface {
	// is holds for values that are equal to one of these.
	is(values bson.A) bson.D
	// within holds for values in a span.
	within(s span) bson.D
	// matches holds for text that matches a pattern.
	matches(pattern bson.Regex) bson.D
	// null holds for null and for what is not there.
	null() bson.D
}

// span is a range of values of one class of types.
type span struct {
	low, high         any // nil: open
	lowOpen, highOpen bool
	kinds             []kind // only values of these types; nil: those that low and high can be compared with
}

func conditionOf(p source.Predicate, n *native) (bson.D, error) {
	var f field = plainField{path: n.path}
	if n.odd() {
		f = oddField{path: n.path}
	}
	if p.Op == source.OpIsNull {
		if p.Values[0].Bool {
			return f.null(), nil
		}
		return neither(f.null()), nil
	}
	positive, err := matching(p, n, f)
	if err != nil {
		return nil, err
	}
	if p.Op == source.OpNe || p.Op == source.OpNin {
		return neither(positive, f.null()), nil
	}
	return positive, nil
}

// matching holds for the values that the operator means; of ne and nin, for those that it excludes.
func matching(p source.Predicate, n *native, f field) (bson.D, error) {
	switch p.Op {
	case source.OpLike:
		return f.matches(likePattern(p.Values[0].Text)), nil
	case source.OpEq, source.OpIn, source.OpNe, source.OpNin:
		return equalTo(p, n, f)
	}
	spans, err := spansOf(p, n)
	if err != nil {
		return nil, err
	}
	some := make([]bson.D, 0, len(spans))
	for _, s := range spans {
		some = append(some, f.within(s))
	}
	return anyOf(some), nil
}

func equalTo(p source.Predicate, n *native, f field) (bson.D, error) {
	var values bson.A
	var some []bson.D
	for _, o := range p.Values {
		if o.DayOnly && p.Column.Family == source.FamilyTimestampTZ {
			from, err := parseDate(o.Text)
			to, errTo := parseDate(o.NextDay())
			if err = errors.Join(err, errTo); err != nil {
				return nil, err
			}
			some = append(some, f.within(span{low: from, high: to, highOpen: true}))
			continue
		}
		equal, err := operands(p.Column.Family, n, o)
		if err != nil {
			return nil, err
		}
		values = append(values, equal...)
	}
	if len(values) > 0 {
		some = append(some, f.is(values))
	}
	return anyOf(some), nil
}

func anyOf(some []bson.D) bson.D {
	if len(some) == 1 {
		return some[0]
	}
	list := make(bson.A, len(some))
	for i, d := range some {
		list[i] = d
	}
	return bson.D{{Key: "$or", Value: list}}
}

func neither(none ...bson.D) bson.D {
	list := make(bson.A, len(none))
	for i, d := range none {
		list[i] = d
	}
	return bson.D{{Key: "$nor", Value: list}}
}
