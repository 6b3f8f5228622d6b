package oracle

import (
	sqldriver "database/sql/driver"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	oracle "github.com/sijms/go-ora/v2"
)

// golden is a type of column, what stands in the select list, values as go-ora v2.8.24 hands them over, and the JSON that
// must come of them. Where the forms of the values come from, by file of the driver:
//
//   - parameter.go, decodePrimValue: NUMBER is a string, made of its digits by number.go, Number.String, without floats;
//     VARCHAR2, CHAR and their national forms, LONG and LONG RAW and ROWID are strings and bytes; BOOLEAN is a bool;
//     BFILE is a BFile.
//   - converters/other_types.go: ConvertBinaryDouble keeps all bits. ConvertBinaryFloat rounds towards zero in decimal (0.7
//     becomes 0.6), and the intervals lose digits and go wrong below a day: none of these is used.
//   - converters (DecodeDate): a moment with a region gets its offset from this process's zones, not the server's; one of a
//     local zone needs a zone that the driver may not have. None of these is used: moments come as text.
//   - command.go, writeDefine and decodePrim: LOBs come as LONG values, null when empty.
type golden struct {
	field  field
	read   string // with %s for the name; empty: just that
	values []sqldriver.Value
	want   []string
}

func values(texts ...string) []sqldriver.Value {
	out := make([]sqldriver.Value, len(texts))
	for i, s := range texts {
		out[i] = s
	}
	return out
}

func quoted(texts ...string) []string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = `"` + s + `"`
	}
	return out
}

func goldens() []golden {
	long := strings.Repeat("9", 38)
	date, moment, zoned := "TO_CHAR(%s, "+dateFormat+")", "TO_CHAR(%s, "+momentFormat+")", "TO_CHAR(%s, "+zonedFormat+")"
	texts := values("abc ", "é 日本 😀", "a\"\\\n\x01", "\xff\x80", " ")
	textsWant := []string{`"abc "`, `"é 日本 😀"`, `"a\"\\\n\u0001"`, "\"\uFFFD\uFFFD\"", `" "`}
	numbers := values("0", "-1", "10.5", "0.1", "9007199254740993.1", "-0.0000000001", "1"+strings.Repeat("0", 125), "0."+strings.Repeat("0", 129)+"1", long)
	lob := func(read string) string { return read + ", CASE WHEN %s IS NULL THEN 0 ELSE 1 END" }
	return []golden{
		{field{typ: "NUMBER", precision: "1", scale: "0"}, "", values("-9", "0", "9"), []string{"-9", "0", "9"}},
		{field{typ: "NUMBER", precision: "18", scale: "0"}, "", values("-999999999999999999", "0", "9007199254740993", "999999999999999999"), []string{"-999999999999999999", "0", "9007199254740993", "999999999999999999"}},
		{field{typ: "NUMBER", precision: "19", scale: "0"}, "", values("9999999999999999999", "0"), quoted("9999999999999999999", "0")},
		{field{typ: "NUMBER", precision: "38", scale: "0"}, "", values(long, "-"+long, "9007199254740993"), quoted(long, "-"+long, "9007199254740993")},
		{field{typ: "NUMBER", scale: "0"}, "", values("5"), quoted("5")},
		{field{typ: "NUMBER", precision: "10", scale: "2"}, "", values("10.5", "0", "-99999999.99", "7", "0.1", "0.01"), quoted("10.50", "0.00", "-99999999.99", "7.00", "0.10", "0.01")},
		{field{typ: "NUMBER", precision: "2", scale: "5"}, "", values("0.00012"), quoted("0.00012")},
		{field{typ: "NUMBER", precision: "5", scale: "-2"}, "", values("1234500", "0"), quoted("1234500", "0")},
		{field{typ: "NUMBER", scale: "3"}, "", values("1.5"), quoted("1.500")},
		{field{typ: "NUMBER"}, "", numbers, quoted("0", "-1", "10.5", "0.1", "9007199254740993.1", "-0.0000000001", "1"+strings.Repeat("0", 125), "0."+strings.Repeat("0", 129)+"1", long)},
		{field{typ: "NUMBER"}, "", values("Infinity", "-Infinity"), quoted("Infinity", "-Infinity")},
		{field{typ: "FLOAT", precision: "126"}, "", values("0.1", "3.1415926535897932384626433832795028842", "0"), quoted("0.1", "3.1415926535897932384626433832795028842", "0")},
		{
			field{typ: "BINARY_FLOAT"}, "TO_BINARY_DOUBLE(%s)", []sqldriver.Value{float64(float32(0.7)), float64(float32(0.1)), 0.0, 16777216.0, float64(math.MaxFloat32), float64(float32(1e-45)), math.NaN(), math.Inf(1), math.Inf(-1)},
			[]string{"0.7", "0.1", "0", "1.6777216e+07", "3.4028235e+38", "1e-45", `"NaN"`, `"Infinity"`, `"-Infinity"`},
		},
		{
			field{typ: "BINARY_DOUBLE"}, "", []sqldriver.Value{0.1, 0.30000000000000004, math.MaxFloat64, 5e-324, 9007199254740993.0, math.Copysign(0, -1), math.NaN(), math.Inf(-1)},
			[]string{"0.1", "0.30000000000000004", "1.7976931348623157e+308", "5e-324", "9.007199254740992e+15", "-0", `"NaN"`, `"-Infinity"`},
		},
		{
			field{typ: "DATE"}, date, values(" 2024-02-29T10:00:00", " 0001-01-01T00:00:00", "-4712-01-01T00:00:00", " 9999-12-31T23:59:59", "-0044-03-15T10:00:00"),
			quoted("2024-02-29T10:00:00", "0001-01-01T00:00:00", "4712-01-01T00:00:00 BC", "9999-12-31T23:59:59", "0044-03-15T10:00:00 BC"),
		},
		{
			field{typ: "TIMESTAMP(9)", scale: "9"}, moment, values(" 2024-01-31T10:00:00.500000000", " 2024-01-31T10:00:00.000000000", " 2024-01-31T10:00:00.000000001", "-0044-03-15T10:00:00.120000000"),
			quoted("2024-01-31T10:00:00.5", "2024-01-31T10:00:00", "2024-01-31T10:00:00.000000001", "0044-03-15T10:00:00.12 BC"),
		},
		{
			field{typ: "TIMESTAMP(6) WITH TIME ZONE", scale: "6"}, zoned,
			values(" 2024-01-31T10:00:00.500000000+02:00", " 2024-01-31T10:00:00.000000000-09:30", " 2024-01-31T10:00:00.000000000+00:00", " 2024-01-31T10:00:00.123456000+14:00"),
			quoted("2024-01-31T10:00:00.5+02:00", "2024-01-31T10:00:00-09:30", "2024-01-31T10:00:00Z", "2024-01-31T10:00:00.123456+14:00"),
		},
		{field{typ: "TIMESTAMP(3) WITH LOCAL TIME ZONE", scale: "3"}, zoned, values(" 2024-01-31T10:00:00.007000000+00:00"), quoted("2024-01-31T10:00:00.007Z")},
		{field{typ: "INTERVAL YEAR(4) TO MONTH", precision: "4"}, "TO_CHAR(%s)", values("+0001-02", "-0001-02", "+0000-00", "+9999-11", "-0000-03"), quoted("P1Y2M", "P-1Y-2M", "PT0S", "P9999Y11M", "P-3M")},
		{
			field{typ: "INTERVAL DAY(9) TO SECOND(9)", precision: "9", scale: "9"}, "TO_CHAR(%s)",
			values("+000000003 04:05:06.700000000", "-000000003 04:05:06.000000001", "+000000000 00:00:00.000000000", "-000000000 00:00:00.500000000", "+999999999 23:59:59.999999999", "+000000000 01:00:00.000000000"),
			quoted("P3DT4H5M6.7S", "P-3DT-4H-5M-6.000000001S", "PT0S", "PT-0.5S", "P999999999DT23H59M59.999999999S", "PT1H"),
		},
		{field{typ: "VARCHAR2", length: 4000, chars: 4000}, "", texts, textsWant},
		{field{typ: "CHAR", length: 10, chars: 10}, "", values("abc       "), quoted("abc       ")},
		{field{typ: "NCHAR", length: 20, chars: 10}, "", values("日本        "), quoted("日本        ")},
		{field{typ: "NVARCHAR2", length: 200, chars: 100}, "", texts, textsWant},
		{field{typ: "LONG"}, "", texts, textsWant},
		{field{typ: "CLOB", length: 4000}, lob("%s"), append(texts, nil), append(textsWant, `""`)},
		{field{typ: "NCLOB", length: 4000}, lob("%s"), append(texts, ""), append(textsWant, `""`)},
		{field{typ: "RAW", length: 16}, "", []sqldriver.Value{[]byte{0, 255}, []byte("0123456789abcdef")}, quoted("AP8=", "MDEyMzQ1Njc4OWFiY2RlZg==")},
		{field{typ: "BLOB", length: 4000}, lob("%s"), []sqldriver.Value{[]byte{0}, []byte(nil), nil}, quoted("AA==", "", "")},
		{field{typ: "LONG RAW"}, "", []sqldriver.Value{[]byte{1, 2, 3}}, quoted("AQID")},
		{field{typ: "ROWID", length: 10}, "", values("AAAR3qAAEAAAACXAAA"), quoted("AAAR3qAAEAAAACXAAA")},
		{field{typ: "UROWID", length: 4000}, "", values("*BAFAAJYCwQL+"), quoted("*BAFAAJYCwQL+")},
		{field{typ: "BOOLEAN"}, "", []sqldriver.Value{true, false}, []string{"true", "false"}},
		{field{typ: "JSON"}, "JSON_SERIALIZE(%s RETURNING CLOB)", values(`{"b":1.50,"a":[9007199254740993,null]}`, `"x"`, "{\n\"a\":\t1}"), []string{`{"b":1.50,"a":[9007199254740993,null]}`, `"x"`, `{ "a": 1}`}},
		{field{typ: "XMLTYPE", owner: "SYS"}, "XMLSERIALIZE(CONTENT %s AS CLOB)", values(`<a b="é"/>`), []string{`"<a b=\"é\"/>"`}},
		{field{typ: "ADDRESS", owner: "SALES"}, "CASE WHEN %s IS NULL THEN NULL ELSE XMLSERIALIZE(CONTENT XMLTYPE(%s) AS CLOB) END", values("<ADDRESS/>"), quoted("<ADDRESS/>")},
		{field{typ: "VECTOR"}, "FROM_VECTOR(%s RETURNING CLOB)", values("[1.0,2.0]"), quoted("[1.0,2.0]")},
		{field{typ: "BFILE", length: 530}, "", []sqldriver.Value{oracle.BFile{}, oracle.BFile{Valid: true}}, []string{"null", `"/"`}},
		{field{typ: "SOMETHING"}, "TO_CHAR(%s)", values("x"), quoted("x")},
	}
}

// TestValues renders values of every type, and null.
func TestValues(t *testing.T) {
	t.Parallel()
	for _, g := range goldens() {
		t.Run(typeName(g.field), func(t *testing.T) {
			t.Parallel()
			g.field.name = `We 'ird`
			f := newFake(t, table{schema: testSchema, name: "T", fields: []field{g.field}})
			lob := strings.Contains(g.read, "THEN 0 ELSE 1 END")
			a := answer{}
			for _, v := range g.values {
				row := []sqldriver.Value{v}
				if lob {
					row = append(row, "1")
				}
				a.rows = append(a.rows, row)
			}
			null := []sqldriver.Value{nil}
			if lob {
				null = append(null, "0")
			}
			a.rows = append(a.rows, null)
			f.handle(`FROM "READER"."T"`, a)
			s, catalog := f.begun()
			got, err := read(t, s, queryOf(t, catalog, "t", []string{"*"}))
			if err != nil {
				t.Fatal(cause(err))
			}
			var want []string
			for _, v := range append(g.want, "null") {
				want = append(want, fmt.Sprintf(`{"We 'ird":%s}`, v))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			expression := g.read
			if expression == "" {
				expression = "%s"
			}
			statement := "SELECT " + strings.ReplaceAll(expression, "%s", `"We 'ird"`) + ` FROM "READER"."T"`
			if diff := cmp.Diff(statement, f.selects()[0].sql); diff != "" {
				t.Errorf("statement (-want +got):\n%s", diff)
			}
		})
	}
}

func typeName(f field) string { return fmt.Sprintf("%s %s %s", f.typ, f.precision, f.scale) }

// TestMalformedValues fails streams whose values are not what the catalogue or the formats promise.
func TestMalformedValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field field
		value sqldriver.Value
	}{
		{field{typ: "NUMBER"}, "1,5"},
		{field{typ: "NUMBER"}, "1\",\"x\":\"2"},
		{field{typ: "NUMBER", precision: "5", scale: "0"}, "1.5"},
		{field{typ: "NUMBER", precision: "5", scale: "0"}, 1.5},
		{field{typ: "BINARY_DOUBLE"}, "1"},
		{field{typ: "VARCHAR2", length: 1}, []byte{1}},
		{field{typ: "RAW", length: 1}, "x"},
		{field{typ: "DATE"}, "31-JAN-24"},
		{field{typ: "DATE"}, " 2024-01-31T10:00:0\""},
		{field{typ: "INTERVAL DAY(2) TO SECOND(6)"}, "1 2"},
		{field{typ: "INTERVAL YEAR(2) TO MONTH"}, "1-x"},
		{field{typ: "JSON"}, "{"},
		{field{typ: "BOOLEAN"}, "true"},
		{field{typ: "VARCHAR2", length: 1}, oracle.BFile{Valid: true}},
	} {
		c.field.name = "V"
		f := newFake(t, table{schema: testSchema, name: "T", fields: []field{c.field}})
		f.handle(`FROM "READER"."T"`, answer{rows: [][]sqldriver.Value{{c.value}}})
		s, catalog := f.begun()
		got, err := read(t, s, queryOf(t, catalog, "T", []string{"V"}))
		if err == nil || len(got) != 1 || got[0] != `{"V":null}` {
			t.Errorf("%s of %v: %s, %v", c.field.typ, c.value, got, err)
		}
	}
}
