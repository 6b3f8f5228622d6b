package mongodb

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// plainField is a field that queries name by its path. They also look into arrays, at the end of the path and on the
// way, so each condition adds that there is none.
type plainField struct{ path []string }

func (f plainField) name() string { return strings.Join(f.path, ".") }

// arrays holds where the field or one that it is in is an array.
func (f plainField) arrays() []bson.D {
	list := make([]bson.D, 0, len(f.path))
	for i := range f.path {
		list = append(list, bson.D{{Key: strings.Join(f.path[:i+1], "."), Value: bson.D{{Key: keyType, Value: kindArray.alias()}}}})
	}
	return list
}

func (f plainField) with(condition any) bson.D {
	return bson.D{{Key: keyAnd, Value: bson.A{bson.D{{Key: f.name(), Value: condition}}, neither(f.arrays()...)}}}
}

func (f plainField) is(values bson.A) bson.D { return f.with(bson.D{{Key: "$in", Value: values}}) }

func (f plainField) matches(pattern bson.Regex) bson.D { return f.with(pattern) }

func (f plainField) within(s span) bson.D {
	condition := bson.D{}
	if s.low != nil {
		condition = append(condition, bson.E{Key: operator("$gte", "$gt", s.lowOpen), Value: s.low})
	}
	if s.high != nil {
		condition = append(condition, bson.E{Key: operator("$lte", "$lt", s.highOpen), Value: s.high})
	}
	if s.kinds != nil {
		condition = append(condition, bson.E{Key: keyType, Value: aliases(s.kinds)})
	}
	return f.with(condition)
}

func (f plainField) null() bson.D {
	return f.with(bson.D{{Key: "$eq", Value: nil}})
}

func operator(closed, open string, isOpen bool) string {
	if isOpen {
		return open
	}
	return closed
}

func aliases(kinds []kind) bson.A {
	list := make(bson.A, len(kinds))
	for i, k := range kinds {
		list[i] = k.alias()
	}
	return list
}

// oddField is a field with a name that is empty, has a dot or begins with a dollar. Only expressions can reach it, in
// which its name is a literal. They compare values of any types, so each condition says which it means.
type oddField struct{ path []string }

// get is the expression of the field's value.
func (f oddField) get() any {
	var value any = "$$ROOT"
	for _, name := range f.path {
		value = bson.D{{Key: "$getField", Value: bson.D{{Key: "field", Value: literal(name)}, {Key: "input", Value: value}}}}
	}
	return value
}

func literal(v any) bson.D { return bson.D{{Key: "$literal", Value: v}} }

func (f oddField) expr(operator string, arguments ...any) bson.D {
	return bson.D{{Key: "$expr", Value: bson.D{{Key: operator, Value: bson.A(arguments)}}}}
}

// typed holds for values of these types.
func (f oddField) typed(kinds []kind) bson.D {
	return f.expr("$in", bson.D{{Key: keyType, Value: f.get()}}, literal(aliases(kinds)))
}

func (f oddField) is(values bson.A) bson.D { return f.expr("$in", f.get(), literal(values)) }

func (f oddField) matches(pattern bson.Regex) bson.D {
	// Anything but text would be an error, in whatever order the server checks conditions.
	text := bson.D{{Key: "$cond", Value: bson.A{
		bson.D{{Key: "$eq", Value: bson.A{bson.D{{Key: keyType, Value: f.get()}}, kindString.alias()}}}, f.get(), nil,
	}}}
	return bson.D{{Key: "$expr", Value: bson.D{{Key: "$regexMatch", Value: bson.D{
		{Key: "input", Value: text}, {Key: "regex", Value: literal(pattern.Pattern)}, {Key: "options", Value: pattern.Options},
	}}}}}
}

func (f oddField) within(s span) bson.D {
	kinds := s.kinds
	if kinds == nil {
		kinds = comparableKinds(s)
	}
	all := bson.A{f.typed(kinds)}
	if s.low != nil {
		all = append(all, f.expr(operator("$gte", "$gt", s.lowOpen), f.get(), literal(s.low)))
	}
	if s.high != nil {
		all = append(all, f.expr(operator("$lte", "$lt", s.highOpen), f.get(), literal(s.high)))
	}
	return bson.D{{Key: keyAnd, Value: all}}
}

func (f oddField) null() bson.D {
	return f.expr("$in", bson.D{{Key: keyType, Value: f.get()}}, literal(bson.A{"missing", "null", "undefined"}))
}
