package mongodb

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
	"github.com/fetcherhq/fetcher/testkit"
)

// valueCase is a value and its exact JSON.
type valueCase struct {
	name  string
	value any
	want  string
	lacks bool // FerretDB can't store it
}

func decimal(s string) bson.Decimal128 {
	d, err := bson.ParseDecimal128(s)
	if err != nil {
		panic(err)
	}
	return d
}

func valueCases() []valueCase {
	return slices.Concat(numberCases(), textCases(), dateCases(), otherCases())
}

func numberCases() []valueCase {
	return []valueCase{
		{"int zero", int32(0), "0", false},
		{"int smallest", int32(math.MinInt32), "-2147483648", false},
		{"int largest", int32(math.MaxInt32), "2147483647", false},
		{"long zero", int64(0), "0", false},
		{"long smallest", int64(math.MinInt64), "-9223372036854775808", false},
		{"long largest", int64(math.MaxInt64), "9223372036854775807", false},
		{"long beyond 2^53", int64(9007199254740993), "9007199254740993", false},
		{"double zero", 0.0, "0", false},
		{"double minus zero", math.Copysign(0, -1), "-0", true},
		{"double tenth", 0.1, "0.1", false},
		{"double third", 1.0 / 3, "0.3333333333333333", false},
		{"double whole", 42.0, "42", false},
		{"double 2^53", 9007199254740992.0, "9.007199254740992e+15", false},
		{"double smallest", math.SmallestNonzeroFloat64, "5e-324", false},
		{"double largest", -math.MaxFloat64, "-1.7976931348623157e+308", false},
		{"double NaN", math.NaN(), `"NaN"`, true},
		{"double infinity", math.Inf(1), `"Infinity"`, true},
		{"double minus infinity", math.Inf(-1), `"-Infinity"`, true},
		{"decimal zero", decimal("0"), `"0"`, true},
		{"decimal minus zero", decimal("-0"), `"-0"`, true},
		{"decimal scale", decimal("10.50"), `"10.50"`, true},
		{"decimal zero with scale", decimal("0.000"), `"0.000"`, true},
		{"decimal 34 digits", decimal("-9.999999999999999999999999999999999"), `"-9.999999999999999999999999999999999"`, true},
		{"decimal beyond 2^53", decimal("9007199254740993.25"), `"9007199254740993.25"`, true},
		{"decimal largest", decimal("9.999999999999999999999999999999999E+6144"), `"9.999999999999999999999999999999999E+6144"`, true},
		{"decimal smallest", decimal("1E-6176"), `"1E-6176"`, true},
		{"decimal exponent", decimal("12E+3"), `"1.2E+4"`, true},
		{"decimal NaN", decimal("NaN"), `"NaN"`, true},
		{"decimal infinity", decimal("Infinity"), `"Infinity"`, true},
		{"decimal minus infinity", decimal("-Infinity"), `"-Infinity"`, true},
		{"bool true", true, "true", false},
		{"bool false", false, "false", false},
		{"null", nil, "null", false},
		{"undefined", bson.Undefined{}, "null", true},
	}
}

func textCases() []valueCase {
	return []valueCase{
		{"text empty", "", `""`, false},
		{"text unicode", "é漢🦊", `"é漢🦊"`, false},
		{"text escapes", "a\"b\\c\n\r\t\b\f\x01/", `"a\"b\\c\n\r\t\b\f\u0001/"`, false},
		{"text NUL", "a\x00b", `"a\u0000b"`, false},
		{"text not UTF-8", "a\xff\xfeb\xc3", `"a` + "\uFFFD\uFFFDb\uFFFD" + `"`, true},
		{"symbol", bson.Symbol("s"), `{"$symbol":"s"}`, true},
	}
}

func dateCases() []valueCase {
	at := func(s string) bson.DateTime {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			panic(err)
		}
		return bson.NewDateTimeFromTime(t)
	}
	return []valueCase{
		{"date", at("2024-02-29T23:59:59.123Z"), `"2024-02-29T23:59:59.123Z"`, false},
		{"date whole second", at("2024-02-29T23:59:59Z"), `"2024-02-29T23:59:59Z"`, false},
		{"date tenths", at("2024-02-29T00:00:00.5Z"), `"2024-02-29T00:00:00.5Z"`, false},
		{"date hundredths", at("2024-02-29T00:00:00.05Z"), `"2024-02-29T00:00:00.05Z"`, false},
		{"date epoch", bson.DateTime(0), `"1970-01-01T00:00:00Z"`, false},
		{"date before the epoch", bson.DateTime(-1), `"1969-12-31T23:59:59.999Z"`, false},
		{"date first year", at("0001-01-01T00:00:00Z"), `"0001-01-01T00:00:00Z"`, false},
		{"date last of four digits", at("9999-12-31T23:59:59.999Z"), `"9999-12-31T23:59:59.999Z"`, false},
		{"date year 10000", bson.DateTime(253402300800000), `"10000-01-01T00:00:00Z"`, false},
		{"date before Christ", bson.DateTime(-63517824000000), `"0044-03-15T00:00:00Z BC"`, false},
		{"date year zero", bson.DateTime(-62167219200000), `"0001-01-01T00:00:00Z BC"`, false},
		{"date largest", bson.DateTime(math.MaxInt64), `"292278994-08-17T07:12:55.807Z"`, true},
		{"date smallest", bson.DateTime(math.MinInt64), `"292275056-05-16T16:47:04.192Z BC"`, true},
		{"timestamp", bson.Timestamp{T: 1_700_000_000, I: 4_294_967_295}, `{"$timestamp":{"t":1700000000,"i":4294967295}}`, false},
		{"timestamp zero", bson.Timestamp{}, `{"$timestamp":{"t":0,"i":0}}`, true}, // the server fills it in
	}
}

func otherCases() []valueCase {
	id, _ := bson.ObjectIDFromHex("65f1a2b3c4d5e6f708192a3b")
	uuid := []byte{0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38, 0x0a, 0x11}
	const canonical = `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`
	return []valueCase{
		{"objectid", id, `"65f1a2b3c4d5e6f708192a3b"`, false},
		{"objectid zero", bson.ObjectID{}, `"000000000000000000000000"`, false},
		{"uuid", bson.Binary{Subtype: 4, Data: uuid}, canonical, false},
		{"old uuid", bson.Binary{Subtype: 3, Data: uuid}, canonical, false},
		{"uuid of another length", bson.Binary{Subtype: 4, Data: uuid[:3]}, `"oO68"`, false},
		{"binary empty", bson.Binary{Data: []byte{}}, `""`, false},
		{"binary", bson.Binary{Data: []byte{0, 1, 0xff, 0xfe}}, `"AAH//g=="`, false},
		{"binary old", bson.Binary{Subtype: 2, Data: []byte("abc")}, `"YWJj"`, true},
		{"binary md5", bson.Binary{Subtype: 5, Data: uuid}, `"oO68mZwLTvi7bWu5vTgKEQ=="`, false},
		{"binary user", bson.Binary{Subtype: 0x80, Data: []byte("abc")}, `"YWJj"`, false},
		{"regex", bson.Regex{Pattern: `^a"\d`, Options: "im"}, `{"$regularExpression":{"pattern":"^a\"\\d","options":"im"}}`, false},
		{"regex empty", bson.Regex{}, `{"$regularExpression":{"pattern":"","options":""}}`, false},
		{"code", bson.JavaScript("f() // \"é\""), `{"$code":"f() // \"é\""}`, true},
		{
			"code with scope", bson.CodeWithScope{Code: "f", Scope: bson.D{{Key: "n", Value: int32(1)}, {Key: "s", Value: "<"}}},
			`{"$code":"f","$scope":{"n":{"$numberInt":"1"},"s":"<"}}`, true,
		},
		{"pointer", bson.DBPointer{DB: "d.c", Pointer: id}, `{"$dbPointer":{"$ref":"d.c","$id":{"$oid":"65f1a2b3c4d5e6f708192a3b"}}}`, true},
		{"min key", bson.MinKey{}, `{"$minKey":1}`, true},
		{"max key", bson.MaxKey{}, `{"$maxKey":1}`, true},
		{"document empty", bson.D{}, "{}", false},
		{
			"document", bson.D{{Key: "z", Value: int32(1)}, {Key: "é\"", Value: bson.D{{Key: "b", Value: nil}, {Key: "a", Value: id}}}},
			`{"z":1,"é\"":{"b":null,"a":"65f1a2b3c4d5e6f708192a3b"}}`, false,
		},
		{"document odd keys", bson.D{{Key: "", Value: int32(1)}, {Key: "$gt", Value: int32(2)}, {Key: "a.b", Value: int32(3)}}, `{"":1,"$gt":2,"a.b":3}`, true},
		{"document repeated keys", bson.D{{Key: "a", Value: int32(1)}, {Key: "a", Value: int32(2)}}, `{"a":1,"a":2}`, true},
		{"array empty", bson.A{}, "[]", false},
		{"array", bson.A{int32(1), "a", nil, 0.5, bson.D{{Key: "k", Value: true}}}, `[1,"a",null,0.5,{"k":true}]`, false},
		{"array nested", bson.A{bson.A{}, bson.A{int32(1), bson.A{decimal("1.0")}}}, `[[],[1,["1.0"]]]`, true},
	}
}

// TestValues builds documents and encodes them as a stream does.
func TestValues(t *testing.T) {
	t.Parallel()
	for _, c := range valueCases() {
		raw := marshal(t, bson.D{{Key: "v", Value: c.value}})
		tr := newTree()
		if err := tr.add(raw); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		table := source.Table{Columns: tr.columns()}
		columns, err := table.Select([]string{"v"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := newRow(source.Query{Table: &table, Columns: columns})
		if err != nil {
			t.Fatal(err)
		}
		if err = r.begin(raw); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		got := string(r.AppendJSON(nil, 0))
		if err = r.end(); err != nil || got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
}

// TestStoredValues has the server store them and reads them back.
func TestStoredValues(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	own := testkit.MongoDB(t).Own
	var want []string
	documents := bson.D{{Key: "_id", Value: int32(1)}}
	for _, c := range valueCases() {
		server := strings.Contains(c.name, "UTF-8") || strings.Contains(c.name, "odd keys") || strings.Contains(c.name, "repeated") ||
			c.name == "timestamp zero" || strings.HasPrefix(c.name, "undefined") // not stored as they are, by no server
		if server || own && c.lacks {
			continue
		}
		documents = append(documents, bson.E{Key: c.name, Value: c.value})
		want = append(want, `"`+c.name+`":`+c.want)
	}
	f.insert("all", documents)
	s, catalog := f.begun()
	got, err := whole(t, s, catalog, "all")
	if err != nil {
		t.Fatal(sourcetest.Cause(err))
	}
	if diff := cmp.Diff([]string{`{"_id":1,` + strings.Join(want, ",") + "}"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLargeValues writes values around and beyond a piece, with and without handing over: the same bytes.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	for _, size := range []int{pieceSize - 1, pieceSize, pieceSize + 1, 3*pieceSize + 17} {
		for name, v := range map[string]any{
			"text": strings.Repeat("é", size), "wide": strings.Repeat("x🦊", size/2), "binary": bson.Binary{Data: bytes.Repeat([]byte{1, 2, 0xff}, size/2)},
			"broken": strings.Repeat("\xff", size), "bits": strings.Repeat("\x80", size),
			"document": bson.D{{Key: "a", Value: strings.Repeat("y", size)}, {Key: "b", Value: bson.A{strings.Repeat("z", size)}}},
		} {
			e, _, err := next(marshal(t, bson.D{{Key: "v", Value: v}})[lengthSize:])
			if err != nil {
				t.Fatal(err)
			}
			want := (&writer{}).value(nil, e, 0)
			var got []byte
			most := 0
			w := &writer{spill: func(dst []byte) error {
				got, most = append(got, dst...), max(most, len(dst))
				return nil
			}}
			got = append(got, w.value(nil, e, 0)...)
			if w.err != nil || !bytes.Equal(want, got) {
				t.Errorf("%s of %d: %d bytes, want %d, %v", name, size, len(got), len(want), w.err)
			}
			if most > 4*pieceSize {
				t.Errorf("%s of %d: %d bytes at once", name, size, most)
			}
		}
	}
}

// TestPaths walks into documents and arrays.
func TestPaths(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("c",
		bson.D{{Key: "_id", Value: int32(1)}, {Key: "a", Value: bson.D{{Key: "b", Value: bson.D{{Key: "c", Value: int32(1)}}}, {Key: "x", Value: nil}}}},
		bson.D{{Key: "_id", Value: int32(2)}, {Key: "a", Value: bson.A{
			bson.D{{Key: "b", Value: bson.D{{Key: "c", Value: int32(2)}}}}, int32(7), bson.D{{Key: "b", Value: int32(8)}}, bson.D{},
		}}},
		bson.D{{Key: "_id", Value: int32(3)}, {Key: "a", Value: "text"}}, bson.D{{Key: "_id", Value: int32(4)}},
	)
	s, catalog := f.begun()
	got := sourcetest.Read(t, s, catalog, "c", []string{"_id", "a.b.c", "A.x", "a.b"})
	want := []string{
		`{"_id":1,"a.b.c":1,"a.x":null,"a.b":{"c":1}}`, `{"_id":2,"a.b.c":[2,null,null,null],"a.x":[null,null,null,null],"a.b":[{"c":2},null,8,null]}`,
		`{"_id":3,"a.b.c":null,"a.x":null,"a.b":null}`, `{"_id":4,"a.b.c":null,"a.x":null,"a.b":null}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMalformed never panics, and fails the stream.
func TestMalformed(t *testing.T) {
	t.Parallel()
	good := marshal(t, bson.D{{Key: "v", Value: bson.D{{Key: "s", Value: "text"}, {Key: "b", Value: bson.Binary{Data: []byte("x")}}}}})
	for at := range good {
		for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			bad := bytes.Clone(good)
			bad[at] = b
			encodeAny(bad)
		}
	}
	deep := []byte{5, 0, 0, 0, 0}
	for range maxDepth + 1 {
		deep = marshal(t, bson.D{{Key: "d", Value: bson.Raw(deep)}})
	}
	w := &writer{}
	w.value(nil, element{kind: kindDocument, value: deep}, 0)
	if w.err == nil {
		t.Error("too deep, but written")
	}
}

// encodeAny does with a document all that is done with documents.
func encodeAny(doc []byte) {
	tr := newTree()
	if tr.add(doc) != nil {
		return
	}
	table := source.Table{Columns: tr.columns()}
	q := source.Query{Table: &table, All: true}
	for i := range table.Columns {
		q.Columns = append(q.Columns, &table.Columns[i])
	}
	r, err := newRow(q)
	if err != nil || r.begin(doc) != nil {
		return
	}
	for i := range q.Columns {
		r.AppendJSON(nil, i)
	}
	r.AppendRest(nil)
	_ = r.end()
}
