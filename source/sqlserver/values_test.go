package sqlserver

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/testkit/tds"
)

// golden is a type of column, values of it as the server sends them, and the JSON that must come of them.
type golden struct {
	column catalogColumn
	wire   tds.Type
	read   string // what stands in the select list; empty: the name
	values []any
	want   []string
}

func goldens() []golden {
	replacement := "\uFFFD"
	return []golden{
		{catalogColumn{typ: "bit"}, tds.Bit(), "", []any{true, false}, []string{"true", "false"}},
		{catalogColumn{typ: "tinyint"}, tds.TinyInt(), "", []any{0, 255}, []string{"0", "255"}},
		{catalogColumn{typ: "smallint"}, tds.SmallInt(), "", []any{-32768, 0, 32767}, []string{"-32768", "0", "32767"}},
		{catalogColumn{typ: "int"}, tds.Int(), "", []any{-2147483648, 0, 2147483647}, []string{"-2147483648", "0", "2147483647"}},
		{
			catalogColumn{typ: "bigint"}, tds.BigInt(), "", []any{int64(math.MinInt64), 0, int64(9007199254740993), int64(math.MaxInt64)},
			[]string{"-9223372036854775808", "0", "9007199254740993", "9223372036854775807"},
		},
		{
			catalogColumn{typ: "decimal", precision: 38, scale: 10}, tds.Decimal(38, 10), "",
			[]any{"-9999999999999999999999999999.9999999999", "0", "9007199254740993.1", "10.50", "-0.0000000001", "9999999999999999999999999999.9999999999"},
			[]string{`"-9999999999999999999999999999.9999999999"`, `"0.0000000000"`, `"9007199254740993.1000000000"`, `"10.5000000000"`, `"-0.0000000001"`, `"9999999999999999999999999999.9999999999"`},
		},
		{catalogColumn{typ: "numeric", precision: 38}, tds.Decimal(38, 0), "", []any{"99999999999999999999999999999999999999", "-1", "0"}, []string{`"99999999999999999999999999999999999999"`, `"-1"`, `"0"`}},
		{catalogColumn{typ: "decimal", precision: 9, scale: 2}, tds.Decimal(9, 2), "", []any{"-9999999.99", "0.1", "10.50"}, []string{`"-9999999.99"`, `"0.10"`, `"10.50"`}},
		{catalogColumn{typ: "decimal", precision: 38, scale: 38}, tds.Decimal(38, 38), "", []any{"0.00000000000000000000000000000000000001"}, []string{`"0.00000000000000000000000000000000000001"`}},
		{
			catalogColumn{typ: "money"}, tds.Money(), "", []any{"-922337203685477.5808", "0", "10.5", "-0.0001", "922337203685477.5807"},
			[]string{`"-922337203685477.5808"`, `"0.0000"`, `"10.5000"`, `"-0.0001"`, `"922337203685477.5807"`},
		},
		{catalogColumn{typ: "smallmoney"}, tds.SmallMoney(), "", []any{"-214748.3648", "0", "214748.3647"}, []string{`"-214748.3648"`, `"0.0000"`, `"214748.3647"`}},
		{
			catalogColumn{typ: "real"}, tds.Real(), "", []any{0.1, 16777216.0, 3.4028235e38, -1.17549435e-38, 1e-45, math.Copysign(0, -1), 0.0, math.NaN(), math.Inf(1)},
			[]string{"0.1", "1.6777216e+07", "3.4028235e+38", "-1.1754944e-38", "1e-45", "-0", "0", `"NaN"`, `"Infinity"`},
		},
		{
			catalogColumn{typ: "float"}, tds.Float(), "", []any{0.1, 0.30000000000000004, 1e300, math.MaxFloat64, 5e-324, 9007199254740993.0, math.Inf(-1)},
			[]string{"0.1", "0.30000000000000004", "1e+300", "1.7976931348623157e+308", "5e-324", "9.007199254740992e+15", `"-Infinity"`},
		},
		{
			catalogColumn{typ: "uniqueidentifier"}, tds.UniqueIdentifier(), "", []any{"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"},
			[]string{`"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `"00000000-0000-0000-0000-000000000000"`, `"ffffffff-ffff-ffff-ffff-ffffffffffff"`},
		},
		{catalogColumn{typ: "date"}, tds.Date(), "", []any{"0001-01-01", "1582-10-10", "2024-02-29", "9999-12-31"}, []string{`"0001-01-01"`, `"1582-10-10"`, `"2024-02-29"`, `"9999-12-31"`}},
		{catalogColumn{typ: "time", scale: 7}, tds.Time(7), "", []any{"00:00:00", "10:00:00.5", "23:59:59.9999999", "00:00:00.0000001"}, []string{`"00:00:00"`, `"10:00:00.5"`, `"23:59:59.9999999"`, `"00:00:00.0000001"`}},
		{catalogColumn{typ: "time", scale: 0}, tds.Time(0), "", []any{"23:59:59"}, []string{`"23:59:59"`}},
		{catalogColumn{typ: "time", scale: 3}, tds.Time(3), "", []any{"12:34:56.789", "12:34:56.7"}, []string{`"12:34:56.789"`, `"12:34:56.7"`}},
		{
			catalogColumn{typ: "datetime"}, tds.DateTime(), "", []any{"1753-01-01T00:00:00", "1900-01-01T00:00:00.003", "1899-12-31T23:59:59.997", "2024-01-31T10:00:00.5", "2024-01-31T10:00:00.007", "9999-12-31T23:59:59.997"},
			[]string{`"1753-01-01T00:00:00"`, `"1900-01-01T00:00:00.003"`, `"1899-12-31T23:59:59.997"`, `"2024-01-31T10:00:00.5"`, `"2024-01-31T10:00:00.007"`, `"9999-12-31T23:59:59.997"`},
		},
		{catalogColumn{typ: "smalldatetime"}, tds.SmallDateTime(), "", []any{"1900-01-01T00:00:00", "2024-01-31T10:01:00", "2079-06-06T23:59:00"}, []string{`"1900-01-01T00:00:00"`, `"2024-01-31T10:01:00"`, `"2079-06-06T23:59:00"`}},
		{
			catalogColumn{typ: "datetime2", scale: 7}, tds.DateTime2(7), "", []any{"0001-01-01T00:00:00", "2024-01-31T10:00:00.1000001", "9999-12-31T23:59:59.9999999"},
			[]string{`"0001-01-01T00:00:00"`, `"2024-01-31T10:00:00.1000001"`, `"9999-12-31T23:59:59.9999999"`},
		},
		{catalogColumn{typ: "datetime2", scale: 0}, tds.DateTime2(0), "", []any{"2024-01-31T10:00:00"}, []string{`"2024-01-31T10:00:00"`}},
		{catalogColumn{typ: "datetime2", scale: 4}, tds.DateTime2(4), "", []any{"2024-01-31T10:00:00.12"}, []string{`"2024-01-31T10:00:00.12"`}},
		{
			catalogColumn{typ: "datetimeoffset", scale: 7}, tds.DateTimeOffset(7), "",
			[]any{"2024-01-31T10:00:00.5+02:00", "2024-01-31T23:30:00-05:30", "2024-01-31T10:00:00Z", "0001-01-01T14:00:00+14:00", "9999-12-31T09:59:59.9999999-14:00"},
			[]string{`"2024-01-31T10:00:00.5+02:00"`, `"2024-01-31T23:30:00-05:30"`, `"2024-01-31T10:00:00Z"`, `"0001-01-01T14:00:00+14:00"`, `"9999-12-31T09:59:59.9999999-14:00"`},
		},
		{catalogColumn{typ: "char", length: 5, codePage: 1252}, tds.Char(5, tds.Latin1), "", []any{[]byte("ab   "), []byte("\x80\xe9\x9f  ")}, []string{`"ab   "`, `"€éŸ  "`}},
		{catalogColumn{typ: "varchar", length: 20, codePage: 1252}, tds.VarChar(20, tds.Latin1), "", []any{"", "a\"\\\n\t\x01", "100% [x]_"}, []string{`""`, `"a\"\\\n\t\u0001"`, `"100% [x]_"`}},
		{catalogColumn{typ: "varchar", length: 20, codePage: 850}, tds.VarChar(20, tds.CP850), "", []any{[]byte("\x82\xe1")}, []string{`"éß"`}},
		{catalogColumn{typ: "varchar", length: 20, codePage: 437}, tds.VarChar(20, tds.CP437), "", []any{[]byte("\x82\xe1")}, []string{`"éß"`}},
		{catalogColumn{typ: "varchar", length: -1, codePage: 1252}, tds.VarChar(tds.Max, tds.Latin1), "", []any{"", "x", []byte("\xe9")}, []string{`""`, `"x"`, `"é"`}},
		{catalogColumn{typ: "varchar", length: 20, codePage: 1251}, tds.NVarChar(20), "CONVERT(nvarchar(20), %s)", []any{"Жук"}, []string{`"Жук"`}},
		{catalogColumn{typ: "varchar", length: 8000, codePage: 932}, tds.NVarChar(tds.Max), "CONVERT(nvarchar(max), %s)", []any{"日本"}, []string{`"日本"`}},
		{catalogColumn{typ: "char", length: 10, codePage: 65001}, tds.NVarChar(10), "CONVERT(nvarchar(10), %s)", []any{"日本 😀"}, []string{`"日本 😀"`}},
		{catalogColumn{typ: "text", length: 16, codePage: 1252}, tds.Text(tds.Latin1), "", []any{"", []byte("\xe9t\xe9")}, []string{`""`, `"été"`}},
		{catalogColumn{typ: "nchar", length: 10, codePage: 1252}, tds.NChar(5), "", []any{"ab   ", "日本   "}, []string{`"ab   "`, `"日本   "`}},
		{
			catalogColumn{typ: "nvarchar", length: 80, codePage: 1252}, tds.NVarChar(40), "", []any{"", "日本 😀 é", []uint16{'a', 0xd83d}, []uint16{0xde00, 'b'}, []uint16{0xd83d, 0xd83d, 0xde00}, "\u2028\u0000"},
			[]string{`""`, `"日本 😀 é"`, `"a` + replacement + `"`, `"` + replacement + `b"`, `"` + replacement + `😀"`, "\"\u2028\\u0000\""},
		},
		{catalogColumn{typ: "nvarchar", length: -1, codePage: 1252}, tds.NVarChar(tds.Max), "", []any{"", "日本 😀"}, []string{`""`, `"日本 😀"`}},
		{catalogColumn{typ: "ntext", length: 16, codePage: 1252}, tds.NText(), "", []any{"", "日本 😀"}, []string{`""`, `"日本 😀"`}},
		{catalogColumn{typ: "xml", length: -1}, tds.XML(), "", []any{`<a b="é">&lt;</a>`, ""}, []string{`"<a b=\"é\">&lt;</a>"`, `""`}},
		{catalogColumn{typ: "binary", length: 4}, tds.Binary(4), "", []any{[]byte{0, 0, 0, 0}, []byte{0, 255, 1, 2}}, []string{`"AAAAAA=="`, `"AP8BAg=="`}},
		{catalogColumn{typ: "varbinary", length: 10}, tds.VarBinary(10), "", []any{[]byte{}, []byte{0, 255}}, []string{`""`, `"AP8="`}},
		{catalogColumn{typ: "varbinary", length: -1}, tds.VarBinary(tds.Max), "", []any{[]byte{}, []byte{0, 255}}, []string{`""`, `"AP8="`}},
		{catalogColumn{typ: "image", length: 16}, tds.Image(), "", []any{[]byte{}, []byte{0, 255}}, []string{`""`, `"AP8="`}},
		{catalogColumn{typ: "timestamp", length: 8}, tds.Binary(8), "", []any{[]byte{0, 0, 0, 0, 0, 0, 7, 209}}, []string{`"AAAAAAAAB9E="`}},
		{catalogColumn{typ: "hierarchyid", assembly: true, length: 892}, tds.NVarChar(4000), "%s.ToString()", []any{"/1/2/"}, []string{`"/1/2/"`}},
		{catalogColumn{typ: "geography", assembly: true, length: -1}, tds.NVarChar(tds.Max), "%s.ToString()", []any{"POINT (1 2)"}, []string{`"POINT (1 2)"`}},
		{catalogColumn{typ: "geometry", assembly: true, length: -1}, tds.NVarChar(tds.Max), "%s.ToString()", []any{"POINT EMPTY"}, []string{`"POINT EMPTY"`}},
		{catalogColumn{typ: "vector", length: 20}, tds.NVarChar(tds.Max), "CONVERT(nvarchar(max), %s)", []any{"[1.0,2.5]"}, []string{`"[1.0,2.5]"`}},
		{catalogColumn{typ: "json", length: -1}, tds.NVarChar(tds.Max), "CONVERT(nvarchar(max), %s)", []any{`{"b": 1.50, "a": [9007199254740993]}`, "null", "{\n}"}, []string{`{"b": 1.50, "a": [9007199254740993]}`, "null", "{ }"}},
	}
}

// TestValues reads every type with its smallest, largest, empty and otherwise special values, and null, from columns
// that may be null and those that may not.
func TestValues(t *testing.T) {
	t.Parallel()
	all := goldens()
	var tables []catalogTable
	for i, g := range all {
		g.column.name = "v"
		tables = append(tables, catalogTable{schema: "dbo", name: fmt.Sprintf("t%d", i), columns: []catalogColumn{g.column}})
	}
	f := newFixture(t, tables...)
	s, catalog := f.begun()
	for i, g := range all {
		for _, compact := range []bool{false, true} {
			wire, want := g.wire, append([]string{}, g.want...)
			rows := make([][]any, 0, len(g.values)+1)
			for _, v := range g.values {
				rows = append(rows, []any{v})
			}
			if compact {
				rows, want = append(rows, []any{nil}), append(want, "null")
			} else {
				wire = wire.NotNull()
			}
			for j := range want {
				want[j] = `{"v":` + want[j] + "}"
			}
			expr := expression(g.read, "[v]")
			f.Handle(tds.Statement(fmt.Sprintf("SELECT %s FROM [dbo].[t%d]", expr, i)), tds.Answer{Columns: []tds.Column{{Type: wire}}, Rows: rows, Compact: compact})
			got, err := read(t, s, queryOf(t, catalog, fmt.Sprintf("t%d", i), []string{"v"}))
			if err != nil {
				t.Fatalf("%s: %v", g.column.typ, cause(err))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", g.column.typ, diff)
			}
		}
	}
}

// TestVariants reads values by the types that they have within a sql_variant, of which the server tells beside them.
func TestVariants(t *testing.T) {
	t.Parallel()
	f := newFixture(t, catalogTable{schema: "dbo", name: "t", columns: []catalogColumn{{name: "v", typ: "sql_variant"}, {name: "n", typ: "int"}}})
	s, catalog := f.begun()
	rows := [][]any{
		{tds.VariantValue{Type: tds.Int(), Value: 7}, "int", 1}, {tds.VariantValue{Type: tds.BigInt(), Value: int64(math.MaxInt64)}, "bigint", 2},
		{tds.VariantValue{Type: tds.TinyInt(), Value: 255}, "tinyint", 3}, {tds.VariantValue{Type: tds.Bit(), Value: true}, "bit", 4},
		{tds.VariantValue{Type: tds.Decimal(10, 2), Value: "10.50"}, "numeric", 5}, {tds.VariantValue{Type: tds.Money(), Value: "-1.5"}, "money", 6},
		{tds.VariantValue{Type: tds.Real(), Value: 0.1}, "real", 7}, {tds.VariantValue{Type: tds.Float(), Value: 0.1}, "float", 8},
		{tds.VariantValue{Type: tds.UniqueIdentifier(), Value: "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}, "uniqueidentifier", 9},
		{tds.VariantValue{Type: tds.Binary(2), Value: []byte{0, 255}}, "varbinary", 10}, {tds.VariantValue{Type: tds.VarChar(9, tds.Latin1), Value: []byte("\xe9")}, "varchar", 11},
		{tds.VariantValue{Type: tds.NVarChar(9), Value: "日本"}, "nvarchar", 12}, {tds.VariantValue{Type: tds.Date(), Value: "2024-02-29"}, "date", 13},
		{tds.VariantValue{Type: tds.Time(3), Value: "10:00:00.125"}, "time", 14}, {tds.VariantValue{Type: tds.DateTime(), Value: "2024-01-31T10:00:00.007"}, "datetime", 15},
		{tds.VariantValue{Type: tds.DateTime2(7), Value: "2024-01-31T10:00:00.5"}, "datetime2", 16},
		{tds.VariantValue{Type: tds.DateTimeOffset(0), Value: "2024-01-31T10:00:00+02:00"}, "datetimeoffset", 17}, {nil, nil, 18},
	}
	f.Handle(tds.Statement("SELECT [v], CONVERT(nvarchar(128), SQL_VARIANT_PROPERTY([v], N'BaseType')), [n] FROM [dbo].[t]"),
		tds.Answer{Columns: []tds.Column{{Type: tds.Variant()}, {Type: tds.NVarChar(128)}, {Type: tds.Int()}}, Rows: rows})
	got, err := read(t, s, queryOf(t, catalog, "t", []string{"v", "n"}))
	if err != nil {
		t.Fatal(cause(err))
	}
	var want []string
	for i, v := range []string{
		"7", "9223372036854775807", "255", "true", `"10.50"`, `"-1.5000"`, "0.1", "0.1", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `"AP8="`, `"é"`, `"日本"`, `"2024-02-29"`,
		`"10:00:00.125"`, `"2024-01-31T10:00:00.007"`, `"2024-01-31T10:00:00.5"`, `"2024-01-31T10:00:00+02:00"`, "null",
	} {
		want = append(want, fmt.Sprintf(`{"v":%s,"n":%d}`, v, i+1))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTicks looks at every one of a second's three hundred.
func TestTicks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, catalogTable{schema: "dbo", name: "t", columns: []catalogColumn{{name: "v", typ: "datetime"}}})
	s, catalog := f.begun()
	var rows [][]any
	var want []string
	for tick := range 300 {
		ms := (tick*20 + 3) / 6 // rounded, as servers show them
		rows = append(rows, []any{[]byte{0, 0, 0, 0, byte(tick), byte(tick >> 8), 0, 0}})
		text := fmt.Sprintf(`{"v":"1900-01-01T00:00:00.%03d`, ms)
		for ms != 0 && text[len(text)-1] == '0' {
			text = text[:len(text)-1]
		}
		if ms == 0 {
			text = `{"v":"1900-01-01T00:00:00`
		}
		want = append(want, text+`"}`)
	}
	f.Handle(tds.Containing(" FROM [dbo].[t]"), tds.Answer{Columns: []tds.Column{{Type: tds.DateTime()}}, Rows: rows})
	got, err := read(t, s, queryOf(t, catalog, "t", []string{"v"}))
	if err != nil {
		t.Fatal(cause(err))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
