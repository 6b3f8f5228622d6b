package mongodb

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
)

// tableOf infers a table from values of the field v, or whatever the documents are.
func tableOf(t testing.TB, documents ...any) *source.Table {
	t.Helper()
	tr := newTree()
	for _, doc := range documents {
		if _, isDocument := doc.(bson.D); !isDocument {
			doc = bson.D{{Key: "v", Value: doc}}
		}
		if err := tr.add(marshal(t, doc)); err != nil {
			t.Fatal(err)
		}
	}
	return &source.Table{Columns: tr.columns()}
}

// filterText is the query of one condition as canonical Extended JSON.
func filterText(t *testing.T, table *source.Table, field string, op source.Op, values string) (string, error) {
	t.Helper()
	where, err := source.Compile(table, []source.Condition{{Field: field, Op: op, Values: sourcetest.Values(values)}})
	if err != nil {
		return "", err
	}
	filter, err := filterOf(where)
	if err != nil {
		t.Fatal(err)
	}
	text, err := bson.MarshalExtJSON(filter[0].Value.(bson.A)[0], true, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), nil
}

// TestFilterDocuments shows the queries of what FerretDB does not have, and that no name becomes an operator.
func TestFilterDocuments(t *testing.T) {
	t.Parallel()
	const noArray = `{"$nor":[{"v":{"$type":"array"}}]}`
	plain := func(condition string) string { return `{"$and":[{"v":` + condition + `},` + noArray + `]}` }
	get := func(name string) string {
		return `{"$getField":{"field":{"$literal":"` + name + `"},"input":"$$ROOT"}}`
	}
	const int1 = `{"$numberLong":"1"}`
	decimals, mixed := tableOf(t, decimal("1.5")), tableOf(t, decimal("1.5"), 0.5, int32(1))
	oddNames := tableOf(t, bson.D{{Key: "$where", Value: int32(1)}, {Key: "a.b", Value: "x"}, {Key: "c", Value: bson.D{{Key: "$gt", Value: true}}}})
	nested := tableOf(t, bson.D{{Key: "a", Value: bson.D{{Key: "b", Value: int32(1)}}}})
	for name, c := range map[string]struct {
		table         *source.Table
		field         string
		op            source.Op
		values, wants string
	}{
		"decimal":             {decimals, "v", "eq", `10.50`, plain(`{"$in":[{"$numberDecimal":"10.5"}]}`)},
		"decimal of an int":   {decimals, "v", "gt", `9007199254740993`, plain(`{"$gt":{"$numberLong":"9007199254740993"}}`)},
		"decimal beyond long": {decimals, "v", "lte", `"12345678901234567890.25"`, plain(`{"$lte":{"$numberDecimal":"12345678901234567890.25"}}`)},
		"decimal NaN":         {decimals, "v", "eq", `"NaN"`, plain(`{"$in":[{"$numberDecimal":"NaN"}]}`)},
		"mixed numbers":       {mixed, "v", "eq", `0.1`, plain(`{"$in":[{"$numberDecimal":"0.1"},{"$numberDouble":"0.1"}]}`)},
		"mixed, exact double": {mixed, "v", "gte", `0.5`, plain(`{"$gte":{"$numberDecimal":"0.5"}}`)},
		"mixed comparison": {mixed, "v", "between", `0.1, 1`, `{"$or":[` +
			plain(`{"$gte":{"$numberDecimal":"0.1"},"$lte":`+int1+`,"$type":["int","long","decimal"]}`) + `,` +
			plain(`{"$gte":{"$numberDouble":"0.1"},"$lte":`+int1+`,"$type":["double"]}`) + `]}`},
		"dollar":     {oddNames, "$where", "eq", `1`, `{"$expr":{"$in":[` + get("$where") + `,{"$literal":[` + int1 + `]}]}}`},
		"dollar gt":  {oddNames, "$where", "gt", `1`, `{"$and":[{"$expr":{"$in":[{"$type":` + get("$where") + `},{"$literal":["double","int","long","decimal"]}]}},{"$expr":{"$gt":[` + get("$where") + `,{"$literal":` + int1 + `}]}}]}`},
		"dot null":   {oddNames, "a.b", "isNull", `true`, `{"$expr":{"$in":[{"$type":` + get("a.b") + `},{"$literal":["missing","null","undefined"]}]}}`},
		"dot like":   {oddNames, "a.b", "like", `"$x"`, `{"$expr":{"$regexMatch":{"input":{"$cond":[{"$eq":[{"$type":` + get("a.b") + `},"string"]},` + get("a.b") + `,null]},"regex":{"$literal":"^\\$x\\z"},"options":"s"}}}`},
		"inner name": {oddNames, "c.$gt", "ne", `true`, `{"$nor":[{"$expr":{"$in":[{"$getField":{"field":{"$literal":"$gt"},"input":` + get("c") + `}},{"$literal":[true]}]}},{"$expr":{"$in":[{"$type":{"$getField":{"field":{"$literal":"$gt"},"input":` + get("c") + `}}},{"$literal":["missing","null","undefined"]}]}}]}`},
		"nested":     {nested, "a.b", "eq", `1`, `{"$and":[{"a.b":{"$in":[` + int1 + `]}},{"$nor":[{"a":{"$type":"array"}},{"a.b":{"$type":"array"}}]}]}`},
		"value":      {tableOf(t, "x"), "v", "eq", `"$where"`, plain(`{"$in":["$where"]}`)},
		"day":        {tableOf(t, bson.DateTime(0)), "v", "lte", `"2024-02-29"`, plain(`{"$lt":{"$date":{"$numberLong":"1709251200000"}}}`)},
	} {
		got, err := filterText(t, c.table, c.field, c.op, c.values)
		if diff := cmp.Diff(c.wants, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestRefusedOperands gives values that no such field has.
func TestRefusedOperands(t *testing.T) {
	t.Parallel()
	long := "1234567890123456789012345678901234567"
	for name, c := range map[string]struct {
		value  any
		op     source.Op
		values string
	}{
		"37 digits": {decimal("1"), "eq", long}, "infinite date": {bson.DateTime(0), "eq", `"infinity"`}, "microseconds": {bson.DateTime(0), "eq", `"2024-01-01T00:00:00.0001Z"`},
		"half an int": {int32(1), "eq", "1.5"}, "beyond long": {int64(1), "eq", "9223372036854775808"}, "23 digits": {bson.ObjectID{}, "eq", `"65f1a2b3c4d5e6f708192a3"`},
		"text for a number": {0.5, "eq", `"x"`}, "number for a text": {"x", "eq", "1"}, "like on a number": {int32(1), "like", `"1%"`},
		"object": {bson.D{{Key: "a", Value: int32(1)}}, "eq", "1"}, "array": {bson.A{"x"}, "eq", `"x"`}, "regex": {bson.Regex{Pattern: "x"}, "eq", `"x"`}, "null": {nil, "eq", `"x"`},
	} {
		values := []any{bson.D{{Key: "v", Value: c.value}}}
		if _, err := filterText(t, tableOf(t, values...), "v", c.op, c.values); len(source.FilterErrors(err)) == 0 {
			t.Errorf("%s: taken, %v", name, err)
		}
	}
	if _, err := filterText(t, tableOf(t, "x", int32(1)), "v", "eq", `"x"`); len(source.FilterErrors(err)) == 0 {
		t.Error("a mixture is compared")
	}
	if _, err := filterText(t, tableOf(t, "x", int32(1)), "v", "isNull", `true`); err != nil {
		t.Error(err)
	}
}

// TestFilters runs what the conformance suite does not have.
func TestFilters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	uuid := bson.Binary{Subtype: 3, Data: make([]byte, 16)}
	same := bson.Binary{Subtype: 4, Data: make([]byte, 16)}
	high := bson.Binary{Subtype: 4, Data: []byte("\xffbcdefghijklmnop")}
	for collection, values := range map[string][]any{
		"floats":   {0.1, 0.30000000000000004, int32(1), int64(9007199254740993), 9007199254740992.0, nil, 1e300},
		"nulls":    {"x", nil, missing{}, ""},
		"uuids":    {uuid, same, high, nil},
		"binaries": {bson.Binary{Data: []byte("a")}, bson.Binary{Subtype: 5, Data: []byte("a")}, bson.Binary{Data: []byte{}}, nil},
		"lines":    {"a\nb", "ab\n", "a.b", "a+b", "(a)[b]{2}^$|?*", `a\b`, "A", "é", "🦊"},
		"nested":   {bson.D{{Key: "n", Value: int32(5)}}, bson.D{{Key: "n", Value: nil}}, bson.D{}, missing{}, bson.D{{Key: "n", Value: int32(6)}}},
	} {
		for i, v := range values {
			doc := bson.D{{Key: "id", Value: int32(i + 1)}}
			if _, lacks := v.(missing); !lacks {
				doc = append(doc, bson.E{Key: "v", Value: v})
			}
			f.insert(collection, doc)
		}
	}
	s, catalog := f.begun()
	for _, c := range []struct {
		table, field string
		op           source.Op
		values, want string
	}{
		{"floats", "v", "eq", "0.1", "1"}, {"floats", "v", "eq", "0.30000000000000004", "2"}, {"floats", "v", "eq", "0.3", ""},
		{"floats", "v", "gt", "0.1", "2 3 4 5 7"}, {"floats", "v", "lte", "1.0", "1 2 3"}, {"floats", "v", "ne", "1", "1 2 4 5 7"}, {"floats", "v", "eq", "1e300", "7"},
		{"floats", "v", "isNull", "true", "6"}, {"floats", "v", "between", `"0.2", 1e0`, "2 3"}, {"floats", "v", "lt", `"Infinity"`, "1 2 3 4 5 7"},
		{"nulls", "v", "isNull", "true", "2 3"}, {"nulls", "v", "isNull", "false", "1 4"}, {"nulls", "v", "ne", `"x"`, "4"}, {"nulls", "v", "nin", `"y"`, "1 4"},
		{"uuids", "v", "eq", `"00000000-0000-0000-0000-000000000000"`, "1 2"}, {"uuids", "v", "gt", `"00000000-0000-0000-0000-000000000000"`, "3"},
		{"uuids", "v", "lte", `"00000000-0000-0000-0000-000000000000"`, "1 2"}, {"uuids", "v", "ne", `"00000000-0000-0000-0000-000000000000"`, "3"},
		{"uuids", "v", "between", `"00000000-0000-0000-0000-000000000000","ff000000-0000-0000-0000-000000000000"`, "1 2"},
		{"binaries", "v", "eq", `"YQ=="`, "1 2"}, {"binaries", "v", "eq", `""`, "3"}, {"binaries", "v", "ne", `"YQ=="`, "3"}, {"binaries", "v", "gt", `""`, "1 2"},
		{"lines", "v", "like", `"a_b"`, "1 3 4 6"}, {"lines", "v", "like", `"ab"`, ""}, {"lines", "v", "like", `"ab_"`, "2"}, {"lines", "v", "like", `"a.b"`, "3"}, {"lines", "v", "like", `"a+b"`, "4"},
		{"lines", "v", "like", `"(a)[b]{2}^$|?*"`, "5"}, {"lines", "v", "like", `"a\\\\b"`, "6"}, {"lines", "v", "like", `"a"`, ""}, {"lines", "v", "like", `"_"`, "7 8 9"}, {"lines", "v", "like", `"%b%"`, "1 2 3 4 5 6"},
		{"nested", "v.n", "eq", "5", "1"}, {"nested", "v.n", "gte", "5", "1 5"}, {"nested", "v.n", "isNull", "true", "2 3 4"}, {"nested", "v.n", "ne", "5", "5"}, {"nested", "v", "isNull", "true", "4"},
	} {
		got := sourcetest.IDs(t, s, catalog, c.table, source.Condition{Field: c.field, Op: c.op, Values: sourcetest.Values(c.values)})
		if got != c.want {
			t.Errorf("%s.%s %s [%s]: got %q, want %q", c.table, c.field, c.op, c.values, got, c.want)
		}
	}
}

// missing stands for a field that a document does not have.
type missing struct{}

// TestArrays finds no array by a value in it: its field is not that value.
func TestArrays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i, v := range []any{"x", bson.A{"x", "y"}, bson.A{}, bson.A{nil}} {
		f.insert("c", bson.D{{Key: "id", Value: int32(i + 1)}, {Key: "v", Value: v}})
	}
	s, _ := f.begun()
	// As if the sample had not shown them.
	texts := tableOf(t, bson.D{{Key: "id", Value: int32(1)}, {Key: "v", Value: "x"}})
	catalog := source.NewCatalog(f.Name, []source.Table{{Schema: f.Name, Base: "c", Columns: texts.Columns}})
	const arrays = "2 3 4"
	for _, c := range []struct {
		op           source.Op
		values, want string
	}{
		{"ne", `"x"`, arrays}, {"eq", `"y"`, ""}, {"like", `"y"`, ""}, {"gt", `"w"`, "1"}, {"nin", `"x", "z"`, arrays}, {"isNull", "true", ""},
	} {
		got := sourcetest.IDs(t, s, catalog, "c", source.Condition{Field: "v", Op: c.op, Values: sourcetest.Values(c.values)})
		if got != c.want {
			t.Errorf("%s [%s]: got %q, want %q", c.op, c.values, got, c.want)
		}
	}
}

// TestLikePatterns compares the expression with the meaning of LIKE, letter by letter.
func TestLikePatterns(t *testing.T) {
	t.Parallel()
	alphabet := []string{"a", "%", "_", `\%`, `\_`, `\\`, ".", "\n", "é", "$"}
	texts := []string{"", "a", "%", "_", `\`, ".", "\n", "é", "$", "aa", "a\n", "\na", "a.", "é$", "%_", `\a`, "a%a"}
	var patterns []string
	for _, a := range alphabet {
		patterns = append(patterns, a)
		for _, b := range alphabet {
			patterns = append(patterns, a+b, a+"%"+b)
		}
	}
	for _, pattern := range append(patterns, "") {
		re := regexp.MustCompile("(?s)" + likePattern(pattern).Pattern)
		for _, text := range texts {
			if want, got := like([]rune(pattern), []rune(text)), re.MatchString(text); got != want {
				t.Errorf("%q like %q: got %v", text, pattern, got)
			}
		}
	}
}

// like is the standard's definition.
func like(pattern, text []rune) bool {
	switch {
	case len(pattern) == 0:
		return len(text) == 0
	case pattern[0] == '%':
		return likeAny(pattern[1:], text)
	case len(text) == 0:
		return false
	case pattern[0] == '\\' && len(pattern) > 1:
		return pattern[1] == text[0] && like(pattern[2:], text[1:])
	}
	return (pattern[0] == '_' || pattern[0] == text[0]) && like(pattern[1:], text[1:])
}

func likeAny(pattern, text []rune) bool {
	for i := range len(text) + 1 {
		if like(pattern, text[i:]) {
			return true
		}
	}
	return false
}
