package mongodb

import (
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source"
)

// native is what the package knows of a column.
type native struct {
	path     []string
	kinds    map[kind]bool
	subtypes []byte // of binaries that are not UUIDs
}

// dateFraction is how many digits of a second's fraction a date has.
const dateFraction = 3

// alias is the server's name of a type.
func (k kind) alias() string {
	names := map[kind]string{
		kindDouble: "double", kindString: "string", kindDocument: "object", kindArray: "array", kindBinary: "binData",
		kindUndefined: "undefined", kindObjectID: "objectId", kindBool: "bool", kindDate: "date", kindNull: "null", kindRegex: "regex",
		kindPointer: "dbPointer", kindCode: "javascript", kindSymbol: "symbol", kindScoped: "javascriptWithScope", kindInt32: "int",
		kindTimestamp: "timestamp", kindInt64: "long", kindDecimal: "decimal", kindMinKey: "minKey", kindMaxKey: "maxKey",
	}
	return names[k]
}

// column makes the column of a field at a path. Its type names all types that the sample has.
func (n *node) column(path []string) source.Column {
	c := source.Column{
		Name: strings.Join(path, "."), Nested: len(path) > 1, Nullable: true,
		Native: &native{path: path, kinds: n.kinds, subtypes: slices.Sorted(maps.Keys(n.subtypes))},
	}
	if len(path) == 1 && path[0] == idField {
		c.Nullable, c.PrimaryKey = false, true
	}
	names := make([]string, 0, len(n.kinds))
	for k := range n.kinds {
		names = append(names, k.alias())
	}
	slices.Sort(names)
	c.Type = strings.Join(names, "|")
	if c.Type == "" {
		c.Type = kindNull.alias()
	}
	c.Family = n.family()
	switch c.Family {
	case source.FamilyTimestampTZ:
		c.Fraction, c.Wide = dateFraction, true
	case source.FamilyDecimal, source.FamilyFloat:
		c.Wide = true
	}
	if n.viaArray { // the values of all elements, as an array
		c.Family, c.Type = source.FamilyArray, kindArray.alias()
	}
	return c
}

// family is what all values of the sample have in common. Numbers are compared with numbers of any type; else a mixture
// has no comparison that holds for all of it.
func (n *node) family() source.Family {
	only := func(kinds ...kind) bool {
		for k := range n.kinds {
			if !slices.Contains(kinds, k) {
				return false
			}
		}
		return len(n.kinds) > 0
	}
	switch {
	case only(kindInt32, kindInt64):
		return source.FamilyInt
	case only(kindInt32, kindInt64, kindDouble):
		return source.FamilyFloat
	case only(kindInt32, kindInt64, kindDouble, kindDecimal):
		return source.FamilyDecimal
	case only(kindString):
		return source.FamilyText
	case only(kindBool):
		return source.FamilyBool
	case only(kindObjectID):
		return source.FamilyObjectID
	case only(kindDate):
		return source.FamilyTimestampTZ
	case only(kindBinary) && n.uuids && len(n.subtypes) == 0:
		return source.FamilyUUID
	case only(kindBinary) && !n.uuids:
		return source.FamilyBinary
	case only(kindDocument):
		return source.FamilyJSON
	case only(kindArray):
		return source.FamilyArray
	}
	return source.FamilyOther
}

// CheckOperand implements source.OperandChecker: dates have no infinity and decimals have 34 digits.
func (n *native) CheckOperand(o source.Operand) bool {
	switch {
	case n.kinds[kindDate]:
		_, err := parseDate(o.Text)
		if err == nil && o.DayOnly {
			_, err = parseDate(o.NextDay())
		}
		return err == nil
	case n.kinds[kindDecimal]:
		_, err := bson.ParseDecimal128(o.Text)
		return err == nil
	}
	return true
}

// odd reports whether queries can't name the field by its path.
func (n *native) odd() bool { return odd(n.path) }

// odd reports whether a path has a name that the server would take apart, or for an operator.
func odd(path []string) bool {
	return slices.ContainsFunc(path, func(name string) bool {
		return name == "" || name[0] == '$' || strings.ContainsRune(name, '.')
	})
}
