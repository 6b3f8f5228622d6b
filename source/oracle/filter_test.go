package oracle

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/source"
)

var update = flag.Bool("update", false, "write the golden files") //nolint:gochecknoglobals // a flag of the test

// asked is a column and the conditions that are put to it: an operator and JSON values.
type asked struct {
	field      field
	conditions []string
}

func filterCases() []asked {
	moments := []string{
		`eq "2024-01-31"`, `ne "2024-01-31"`, `gt "2024-01-31"`, `gte "2024-01-31"`, `lt "2024-01-31"`, `lte "2024-01-31"`,
		`between "2024-01-30","2024-01-31"`, `in "2024-01-30","2024-01-31T12:00:00"`, `nin "2024-01-30","2024-01-31T12:00:00"`,
		`eq "2024-01-31T12:00:00"`, `ne "2024-01-31T12:00:00"`, `between "2024-01-31","2024-01-31T12:00:00"`, `gt "9999-12-31"`, `lte "9999-12-31"`, `eq "9999-12-31"`, `ne "9999-12-31"`,
		`eq "0044-03-15T10:00:00 BC"`, `gte "0044-03-15 BC"`, `isNull true`, `isNull false`,
	}
	numbers := []string{`eq 1`, `ne 1`, `gt 1`, `gte 1`, `lt 1`, `lte 1`, `between 1,2`, `in 1,2`, `nin 1,"2"`, `isNull true`, `isNull false`}
	texts := []string{
		`eq "abc"`, `eq ""`, `eq "日本 😀 '"`, `ne "abc"`, `ne ""`, `gt "b"`, `gte "b"`, `lt "b"`, `lte "b"`, `gt ""`, `gte ""`, `lt ""`, `lte ""`, `between "a","b"`, `between "","b"`,
		`in "abc","ABC"`, `in "abc",""`, `nin "abc","' OR 1=1 --"`, `nin ""`,
		`like "a%c_"`, `like "a\\%c\\_"`, `like "a\\\\c"`, `like "\\[\\a"`, `like ""`, `isNull true`, `isNull false`,
	}
	return []asked{
		{field{name: "paid", typ: "NUMBER", precision: "18", scale: "0"}, append([]string{`eq 9007199254740993`, `in "9223372036854775807",-9223372036854775808`}, numbers...)},
		{field{name: "ORDER", typ: "NUMBER", scale: "0"}, []string{`eq 99999999999999999999999999999999999999`, `eq 0.5`, `between -1e30,1e30`}},
		{field{name: `Weird 'Na"me`[:9], typ: "NUMBER", precision: "10", scale: "2"}, append([]string{`eq 0.1`, `eq "10.50"`, `eq 1e-7`, `eq 0.10000000000000000001`, `ne 1e50`, `gt -0.101`}, numbers...)},
		{field{name: "ANY", typ: "NUMBER"}, []string{`eq 9007199254740993.1`, `in 0.1,"-5"`}},
		{field{name: "FL", typ: "FLOAT", precision: "126"}, []string{`eq 0.1`}},
		{field{name: "BF", typ: "BINARY_FLOAT"}, []string{`eq 0.1`, `in 0.1,"-5"`, `gt 3.4e38`, `eq "NaN"`}},
		{field{name: "BD", typ: "BINARY_DOUBLE"}, []string{`eq 0.30000000000000004`, `between 0.1,1e300`, `nin 0.1,0.2`, `lt "Infinity"`, `gt "-Infinity"`}},
		{field{name: "VC", typ: "VARCHAR2", length: 100, chars: 100}, texts},
		{field{name: "NVC", typ: "NVARCHAR2", length: 100, chars: 50}, []string{`eq "日本"`, `in "a","é"`, `like "é\\_%"`, `ne ""`}},
		{field{name: "CH", typ: "CHAR", length: 5, chars: 5}, []string{`eq "abc"`, `in "abc","d"`, `like "abc%"`, `gt "b"`}},
		{field{name: "NCH", typ: "NCHAR", length: 10, chars: 5}, []string{`eq "日本"`}},
		{field{name: "CL", typ: "CLOB"}, texts},
		{field{name: "NCL", typ: "NCLOB"}, []string{`eq "日本"`, `like "é%"`}},
		{field{name: "LO", typ: "LONG"}, []string{`isNull true`}},
		{field{name: "BO", typ: "BOOLEAN"}, []string{`eq true`, `eq "true"`, `ne false`, `gt false`, `lte true`, `between false,true`, `in true,"false"`, `nin false`, `isNull true`}},
		{field{name: "DA", typ: "DATE"}, moments},
		{field{name: "TS", typ: "TIMESTAMP(6)", scale: "6"}, append([]string{`eq "2024-01-31T12:00:00.123456"`}, moments...)},
		{field{name: "TZ", typ: "TIMESTAMP(9) WITH TIME ZONE", scale: "9"}, append([]string{`eq "2024-01-31T12:00:00.5+02:00"`, `gte "2024-01-31T18:00:00-0530"`}, moments...)},
		{field{name: "LTZ", typ: "TIMESTAMP(3) WITH LOCAL TIME ZONE", scale: "3"}, []string{`eq "2024-01-31T12:00:00.125Z"`, `eq "2024-01-31"`}},
		{field{name: "IYM", typ: "INTERVAL YEAR(4) TO MONTH", precision: "4"}, []string{`eq "P1Y2M"`, `eq "P-1Y-2M"`, `eq "-P14M"`, `in "P1Y","P0M"`, `isNull true`}},
		{field{name: "IDS", typ: "INTERVAL DAY(9) TO SECOND(9)", precision: "9", scale: "9"}, []string{`eq "P3DT4H5M6.7S"`, `gt "P-3DT-4H-5M-6.000000001S"`, `lte "PT36H"`, `eq "P1W"`, `eq "P1DT-1S"`, `eq "PT1S"`}},
		{field{name: "RA", typ: "RAW", length: 16}, []string{`eq "AP8="`, `eq ""`, `ne "AP8="`, `in "AP8=",""`, `nin "AP8=","AA=="`, `gt "AP8="`, `between "","AP8="`, `isNull true`}},
		{field{name: "BL", typ: "BLOB"}, []string{`eq "AP8="`, `eq ""`, `ne ""`, `lt "AP8="`, `nin "AP8=","AA=="`}},
		{field{name: "JS", typ: "JSON"}, []string{`isNull true`}},
		{field{name: "XM", typ: "XMLTYPE", owner: "SYS"}, []string{`isNull false`}},
		{field{name: "AD", typ: "ADDRESS", owner: "SALES"}, []string{`isNull true`}},
	}
}

// TestFilters compares statements and parameters with those that were looked at one by one when the golden file was
// made: nothing here evaluates them.
func TestFilters(t *testing.T) {
	t.Parallel()
	cases := filterCases()
	tab := table{schema: "SALES", name: "t", fields: []field{{name: "ID", typ: "NUMBER", precision: "9", scale: "0"}}}
	for _, c := range cases {
		tab.fields = append(tab.fields, c.field)
	}
	f := newFake(t, tab)
	f.handle(`FROM "SALES"."t"`, answer{width: 1})
	s, catalog := f.begun()
	var got bytes.Buffer
	for _, c := range cases {
		fmt.Fprintf(&got, "%s %s\n", c.field.name, c.field.typ)
		for _, text := range c.conditions {
			op, values, _ := strings.Cut(text, " ")
			q := queryOf(t, catalog, "sales.T", []string{"id"}, source.Condition{Field: c.field.name, Op: source.Op(op), Values: jsonValues(t, values)})
			if _, err := read(t, s, q); err != nil {
				t.Fatalf("%s %s: %v", c.field.name, text, cause(err))
			}
			all := f.selects()
			last := all[len(all)-1]
			fmt.Fprintf(&got, "  %s\n    %s\n", text, strings.TrimPrefix(last.sql, `SELECT "ID" FROM "SALES"."t" WHERE `))
			for _, a := range last.args {
				fmt.Fprintf(&got, "      %s\n", a)
			}
		}
	}
	file := filepath.Join("testdata", "filters.golden")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func jsonValues(t testing.TB, list string) []jsontext.Value {
	t.Helper()
	var out []jsontext.Value
	decoder := jsontext.NewDecoder(strings.NewReader("[" + list + "]"))
	_, err := decoder.ReadToken()
	for err == nil && decoder.PeekKind() != ']' {
		var v jsontext.Value
		v, err = decoder.ReadValue()
		out = append(out, v.Clone())
	}
	if err != nil {
		t.Fatalf("%s: %v", list, err)
	}
	return out
}

// TestFilterBounds refuses, before a statement is made, what the types don't hold or the server would round.
func TestFilterBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field  field
		values []string
	}{
		{field{typ: "NUMBER", precision: "18", scale: "0"}, []string{`1.5`, `9223372036854775808`, `true`, `"x"`}},
		{field{typ: "NUMBER"}, []string{`1.00000000000000000000000000000000000001`, `1e126`, `1e-131`, `"NaN"`, `"Infinity"`}},
		{field{typ: "BINARY_FLOAT"}, []string{`1e39`, `"x"`}},
		{field{typ: "VARCHAR2", length: 10, chars: 10}, []string{`1`, `true`, "\"a\\u0000\""}},
		{field{typ: "CHAR", length: 10, chars: 10}, []string{`"` + strings.Repeat("x", 2001) + `"`}},
		{field{typ: "DATE"}, []string{`"2024-01-31T12:00:00.5"`, `"2024-01-31T12:00:00Z"`, `"2024-02-30"`, `"10000-01-01"`, `"4713-01-01 BC"`, `"infinity"`, `"31-JAN-24"`}},
		{field{typ: "TIMESTAMP(0)", scale: "0"}, []string{`"2024-01-31T12:00:00.5"`, `"-infinity"`}},
		{field{typ: "TIMESTAMP(3)", scale: "3"}, []string{`"2024-01-31T12:00:00.1234"`}},
		{field{typ: "INTERVAL YEAR(2) TO MONTH"}, []string{`"P1D"`, `"P1.5Y"`, `"x"`, `"P9999999999Y"`}},
		{field{typ: "INTERVAL DAY(2) TO SECOND(6)"}, []string{`"P1Y"`, `"P1M"`, `"P0.5D"`, `"1 02:03:04"`}},
		{field{typ: "RAW", length: 4}, []string{`"x"`, `1`}},
		{field{typ: "JSON"}, []string{`"x"`}},
		{field{typ: "LONG"}, []string{`"x"`}},
		{field{typ: "ROWID"}, []string{`"x"`}},
		{field{typ: "BOOLEAN"}, []string{`1`, `"1"`}},
	} {
		c.field.name = "V"
		f := newFake(t, table{schema: testSchema, name: "T", fields: []field{c.field}})
		_, catalog := f.begun()
		tab, err := catalog.Resolve("T")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range c.values {
			if _, err := source.Compile(tab, []source.Condition{{Field: "V", Op: source.OpEq, Values: jsonValues(t, v)}}); err == nil {
				t.Errorf("%s takes %s", c.field.typ, v)
			}
		}
	}
}

// TestLongLists cuts lists where the server does not take longer ones, and refuses what no statement holds.
func TestLongLists(t *testing.T) {
	t.Parallel()
	f := newFake(t, table{schema: testSchema, name: "T", fields: []field{{name: "ID", typ: "NUMBER", precision: "9", scale: "0"}}})
	f.handle(`FROM "READER"."T"`, answer{width: 1})
	s, catalog := f.begun()
	list := func(op source.Op, n int) source.Condition {
		return source.Condition{Field: "id", Op: op, Values: jsonValues(t, strings.TrimSuffix(strings.Repeat("7,", n), ","))}
	}
	if _, err := read(t, s, queryOf(t, catalog, "T", []string{"id"}, list(source.OpIn, 2001), list(source.OpNin, 1001))); err != nil {
		t.Fatal(cause(err))
	}
	last := f.selects()[0]
	if strings.Count(last.sql, ` IN (TO_NUMBER(`) != 3 {
		t.Errorf("%.200s", last.sql)
	}
	if len(last.args) != 3002 || !strings.Contains(last.sql, `"ID" = TO_NUMBER(:2001)`) || !strings.Contains(last.sql, `"ID" <> TO_NUMBER(:3002)`) {
		t.Errorf("%d parameters, %.100s", len(last.args), last.sql)
	}
	_, err := read(t, s, queryOf(t, catalog, "T", []string{"id"}, list(source.OpIn, 65001)))
	wantError(t, err, source.CategoryUnsupported, false)
}

// TestForeignColumn refuses columns that are not of this kind of catalogue, and names that can't be.
func TestForeignColumn(t *testing.T) {
	t.Parallel()
	s, catalog := newFake(t, table{schema: testSchema, name: "T", fields: []field{{name: "ID", typ: "NUMBER"}}}).begun()
	q := queryOf(t, catalog, "T", []string{"id"})
	foreign := &source.Column{Name: "x"}
	for _, bad := range []source.Query{
		{Table: q.Table, Columns: []*source.Column{foreign}},
		{Table: q.Table, Columns: q.Columns, Where: []source.Predicate{{Column: foreign, Op: source.OpIsNull, Values: []source.Operand{{}}}}},
	} {
		_, err := read(t, s, bad)
		wantError(t, err, source.CategoryOther, false)
	}
	for _, name := range []string{`a"b`, "", "a\x00"} {
		bad := *q.Columns[0]
		bad.Name = name
		_, err := read(t, s, source.Query{Table: q.Table, Columns: []*source.Column{&bad}})
		wantError(t, err, source.CategoryUnsupported, false)
		_, err = read(t, s, source.Query{Table: &source.Table{Schema: name, Base: "T"}, Columns: q.Columns})
		wantError(t, err, source.CategoryUnsupported, false)
	}
}
