package sqlserver

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/source"
)

var update = flag.Bool("update", false, "write the golden files") //nolint:gochecknoglobals // a flag of the test

// asked is a column and the conditions that are put to it.
type asked struct {
	column     catalogColumn
	conditions []string // an operator and JSON values
}

func filterCases() []asked {
	moments := []string{
		`eq "2024-01-31"`, `ne "2024-01-31"`, `gt "2024-01-31"`, `gte "2024-01-31"`, `lt "2024-01-31"`, `lte "2024-01-31"`,
		`between "2024-01-30","2024-01-31"`, `in "2024-01-30","2024-01-31T12:00:00"`, `nin "2024-01-30","2024-01-31T12:00:00"`,
		`eq "2024-01-31T12:00:00"`, `between "2024-01-31","2024-01-31T12:00:00"`, `isNull true`, `isNull false`,
	}
	numbers := []string{`eq 1`, `ne 1`, `gt 1`, `gte 1`, `lt 1`, `lte 1`, `between 1,2`, `in 1,2`, `nin 1,"2"`, `isNull true`, `isNull false`}
	return []asked{
		{catalogColumn{name: "paid", typ: "bigint"}, append([]string{`eq 9007199254740993`, `in "9223372036854775807",-9223372036854775808`}, numbers...)},
		{catalogColumn{name: "order", typ: "int"}, []string{`eq 2147483647`, `between -2147483648,0`}},
		{catalogColumn{name: "small", typ: "smallint"}, []string{`eq -32768`}},
		{catalogColumn{name: "tiny", typ: "tinyint"}, []string{`in 0,255`}},
		{catalogColumn{name: "We]ird \"Na'me", typ: "decimal", precision: 10, scale: 2}, append([]string{
			`eq 0.1`, `eq "10.50"`, `eq 1e-7`, `eq 0.10000000000000000001`, `ne 0.10000000000000000001`, `in 0.1,0.101`, `nin 0.101`, `gt 0.101`, `gte 0.101`, `lt 0.101`, `lte 0.101`,
			`gt -0.101`, `lte -0.101`, `lt 99999999.995`, `gt 99999999.99`, `gt 100000000`, `lte 100000000`, `gte -100000000`, `lt -100000000`, `ne 1e50`, `between -1e30,1e30`,
		}, numbers...)},
		{catalogColumn{name: "whole", typ: "numeric", precision: 38}, []string{`eq 99999999999999999999999999999999999999`, `eq 0.5`, `lt 0.5`, `gte -0.5`}},
		{catalogColumn{name: "price", typ: "money"}, []string{`eq 10.5`, `eq 10.50001`, `gt 922337203685477.5807`, `gt 922337203685477.58071`, `lt -922337203685477.5808`, `lt -922337203685477.5809`}},
		{catalogColumn{name: "fee", typ: "smallmoney"}, []string{`lte 214748.3647`, `eq 214748.3648`}},
		{catalogColumn{name: "r", typ: "real"}, []string{`eq 0.1`, `in 0.1,"-5"`, `gt 3.4e38`}},
		{catalogColumn{name: "f", typ: "float"}, []string{`eq 0.30000000000000004`, `between 0.1,1e300`, `nin 0.1,0.2`}},
		{catalogColumn{name: "wide", typ: "nvarchar", length: 100, codePage: 1252}, []string{
			`eq "abc"`, `eq ""`, `eq "日本 😀 '"`, `ne "abc"`, `gt "b"`, `gte "b"`, `lt "b"`, `lte "b"`, `between "a","b"`, `in "abc","ABC"`, `nin "abc","' OR 1=1 --"`,
			`like "a%c_"`, `like "a\\%c\\_"`, `like "a\\\\c"`, `like "[a-z]^%"`, `like "\\[\\a"`, `like ""`, `isNull true`, `isNull false`,
		}},
		{catalogColumn{name: "narrow", typ: "varchar", length: 100, codePage: 1252}, []string{`eq "abc"`, `eq ""`, `eq "é"`, `in "abc","日本"`, `like "a[%"`, `like "é%"`, `gt "b"`}},
		{catalogColumn{name: "fixed", typ: "char", length: 5, codePage: 1251}, []string{`eq "abc"`, `eq "Жук"`}},
		{catalogColumn{name: "old", typ: "text", codePage: 1252}, []string{`eq "abc"`, `like "a%"`, `isNull true`, `nin "a","b"`}},
		{catalogColumn{name: "oldwide", typ: "ntext", codePage: 1252}, []string{`eq "abc"`, `like "é%"`}},
		{catalogColumn{name: "flag", typ: "bit"}, []string{`eq true`, `eq "true"`, `ne false`, `gt false`, `lte true`, `between false,true`, `in true,"false"`, `nin false`, `isNull true`}},
		{catalogColumn{name: "id]", typ: "uniqueidentifier"}, []string{
			`eq "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"`, `ne "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `in "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","00000000-0000-0000-0000-000000000001"`,
			`gt "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `gte "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `lt "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `lte "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`,
			`between "00000000-0000-0000-0000-000000000000","a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `nin "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `isNull true`,
		}},
		{catalogColumn{name: "d", typ: "date"}, []string{
			`eq "2024-01-31"`, `ne "2024-01-31"`, `gt "9999-12-31"`, `gte "0001-01-01"`, `lt "2024-01-31"`, `lte "2024-01-31"`, `between "2024-01-30","2024-01-31"`, `in "2024-01-30","2024-01-31"`, `nin "2024-01-30"`, `isNull false`,
		}},
		{catalogColumn{name: "t", typ: "time", scale: 7}, []string{`eq "10:00:00.1234567"`, `between "00:00","23:59:59.9999999"`, `in "10:00","11:00:00.5"`}},
		{catalogColumn{name: "t3", typ: "time", scale: 3}, []string{`eq "10:00:00.125"`, `gt "10:00"`}},
		{catalogColumn{name: "at7", typ: "datetime2", scale: 7}, append([]string{`eq "2024-01-31T12:00:00.1234567"`, `gt "9999-12-31"`, `lte "9999-12-31"`, `eq "9999-12-31"`}, moments...)},
		{catalogColumn{name: "at3", typ: "datetime2", scale: 3}, []string{`eq "2024-01-31T12:00:00.125"`, `ne "2024-01-31"`}},
		{catalogColumn{name: "at", typ: "datetime"}, append([]string{
			`eq "2024-01-31T12:00:00.003"`, `eq "2024-01-31T12:00:00.005"`, `ne "2024-01-31T12:00:00.005"`, `gt "2024-01-31T12:00:00.005"`, `lt "2024-01-31T12:00:00.005"`, `lte "2024-01-31T12:00:00.998"`,
			`eq "1753-01-01"`, `gt "9999-12-31T23:59:59.998"`,
		}, moments...)},
		{catalogColumn{name: "minute", typ: "smalldatetime"}, append([]string{`eq "2024-01-31T12:00:30"`, `gte "2024-01-31T12:00:30"`, `lt "2024-01-31T12:00:30"`, `lte "2079-06-06"`, `gt "2079-06-06"`}, moments...)},
		{catalogColumn{name: "zoned", typ: "datetimeoffset", scale: 7}, append([]string{`eq "2024-01-31T12:00:00.5+02:00"`, `gte "2024-01-31T18:00:00-0530"`}, moments...)},
		{catalogColumn{name: "zoned0", typ: "datetimeoffset"}, []string{`eq "2024-01-31T12:00:00+02:00"`}},
		{catalogColumn{name: "bin", typ: "varbinary", length: 50}, []string{`eq "AP8="`, `eq ""`, `ne "AP8="`, `in "AP8=",""`, `nin "AP8=","AA=="`, `gt "AP8="`, `gte "AP8="`, `lt "AP8="`, `lte "AP8="`, `between "","AP8="`, `isNull true`}},
		{catalogColumn{name: "img", typ: "image"}, []string{`eq "AP8="`}},
		{catalogColumn{name: "version", typ: "timestamp"}, []string{`gt "AAAAAAAAB9E="`}},
		{catalogColumn{name: "doc", typ: "xml"}, []string{`isNull true`}},
		{catalogColumn{name: "place", typ: "geography", assembly: true}, []string{`isNull false`}},
	}
}

// TestFilters compares the statements, and the parameters as the server receives them, with those that were looked at
// one by one when the golden file was made: no server here evaluates them.
func TestFilters(t *testing.T) {
	t.Parallel()
	cases := filterCases()
	table := catalogTable{schema: "dbo", name: "t", columns: []catalogColumn{{name: "id", typ: "int"}}}
	for _, c := range cases {
		table.columns = append(table.columns, c.column)
	}
	f := newFixture(t, table)
	s, catalog := f.begun()
	var got bytes.Buffer
	for _, c := range cases {
		fmt.Fprintf(&got, "%s %s\n", c.column.name, typeOf(columnType{name: c.column.typ, length: c.column.length, precision: c.column.precision, scale: c.column.scale}).decl)
		for _, text := range c.conditions {
			op, values, _ := strings.Cut(text, " ")
			q := queryOf(t, catalog, "t", []string{"id"}, source.Condition{Field: c.column.name, Op: source.Op(op), Values: jsonValues(t, values)})
			if _, err := read(t, s, q); err != nil {
				t.Fatalf("%s %s: %v", c.column.name, text, cause(err))
			}
			all := f.selects()
			request := all[len(all)-1]
			fmt.Fprintf(&got, "  %s\n    %s\n", text, strings.TrimPrefix(request.SQL, "SELECT [id] FROM [dbo].[t] WHERE "))
			for _, p := range request.Params {
				fmt.Fprintf(&got, "      %s\n", p)
			}
		}
	}
	compareGolden(t, "filters.golden", got.Bytes())
}

func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
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

// TestFilterBounds refuses, before a statement is made, what the types don't hold.
func TestFilterBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		column columnType
		values string
	}{
		"tinyint":        {columnType{name: "tinyint"}, `-1, 256, 1.5`},
		"bigint":         {columnType{name: "bigint"}, `9223372036854775808, "x"`},
		"date":           {columnType{name: "date"}, `"10000-01-01", "0000-01-01", "2024-02-30", "2024-01-31T00:00:00", "infinity"`},
		"datetime":       {columnType{name: "datetime"}, `"1752-12-31", "1752-12-31T23:59:59", "10000-01-01", "2024-01-31T00:00:00.0001", "2024-01-31T00:00:00Z"`},
		"smalldatetime":  {columnType{name: "smalldatetime"}, `"1899-12-31", "2079-06-07", "2079-06-07T00:00:00"`},
		"datetime2(0)":   {columnType{name: "datetime2"}, `"2024-01-31T00:00:00.5", "10000-01-01"`},
		"datetime2(3)":   {columnType{name: "datetime2", scale: 3}, `"2024-01-31T00:00:00.0005"`},
		"datetimeoffset": {columnType{name: "datetimeoffset", scale: 7}, `"0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "2024-01-31T00:00:00.00000001Z"`},
		"time":           {columnType{name: "time", scale: 7}, `"24:00:00", "10:00:00.00000001", "-10:00"`},
		"time(0)":        {columnType{name: "time"}, `"10:00:00.5"`},
		"real":           {columnType{name: "real"}, `1e39, "NaN", "Infinity"`},
		"uuid":           {columnType{name: "uniqueidentifier"}, `"{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"`},
		"bit":            {columnType{name: "bit"}, `1, "1"`},
		"xml":            {columnType{name: "xml"}, `"<a/>"`},
		"variant":        {columnType{name: "sql_variant"}, `1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := &source.Table{Columns: []source.Column{typeOf(c.column).column("v", 1, true, false)}}
			for _, v := range jsonValues(t, c.values) {
				_, err := source.Compile(table, []source.Condition{{Field: "v", Op: source.OpEq, Values: []jsontext.Value{v}}})
				if len(source.FilterErrors(err)) != 1 {
					t.Errorf("%s: %v", v, err)
				}
			}
		})
	}
}

// TestLongLists sends more values than the protocol has parameters as one.
func TestLongLists(t *testing.T) {
	t.Parallel()
	f := newFixture(t, catalogTable{schema: "dbo", name: "t", columns: []catalogColumn{
		{name: "id", typ: "int"}, {name: "s", typ: "varchar", length: 10, codePage: 1252}, {name: "b", typ: "varbinary", length: 10},
		{name: "d", typ: "datetimeoffset", scale: 7}, {name: "n", typ: "decimal", precision: 10, scale: 2}, {name: "u", typ: "uniqueidentifier"},
	}})
	s, catalog := f.begun()
	many := func(format string) string {
		list := make([]string, 0, maxList+1)
		for i := range maxList + 1 {
			list = append(list, fmt.Sprintf(format, i))
		}
		return strings.Join(list, ",")
	}
	for _, c := range []struct{ field, op, values, want, first string }{
		{"id", "in", many("%d"), "([id] IN (SELECT v FROM OPENJSON(@p1) WITH (v int '$')))", `["0","1",`},
		{"id", "nin", many("%d"), "([id] NOT IN (SELECT v FROM OPENJSON(@p1) WITH (v int '$')))", `["0","1",`},
		{"s", "in", many(`"\"é%d"`), "([s] IN (SELECT v COLLATE Collation_1252 FROM OPENJSON(@p1) WITH (v nvarchar(max) '$')))", `["\"é0","\"é1",`},
		{"b", "in", many(`"%04d"`), "(EXISTS (SELECT 1 FROM OPENJSON(@p1) WITH (v varbinary(max) '$') WHERE v = [b] AND DATALENGTH(v) = DATALENGTH([b])))", `["0000","0001",`},
		{"b", "nin", many(`"%04d"`), "([b] IS NOT NULL AND NOT EXISTS (SELECT 1 FROM OPENJSON(@p1) WITH (v varbinary(max) '$') WHERE v = [b] AND DATALENGTH(v) = DATALENGTH([b])))", `["0000","0001",`},
		{"d", "eq", many(`"%04[1]d-01-01", "2024-01-31T00:00:00.%04[1]dZ"`)[len(`"0000-01-01", `):], "", ""},
		{"d", "nin", strings.ReplaceAll(many(`"1%03d-01-01"`), "1000-", "9999-"), "(CONVERT(date, SWITCHOFFSET([d], '+00:00')) NOT IN (SELECT v FROM OPENJSON(@p1) WITH (v date '$')))", `["9999-01-01","1001-01-01",`},
		{"n", "in", many("%d.50"), "([n] IN (SELECT v FROM OPENJSON(@p1) WITH (v decimal(10,2) '$')))", `["0.50","1.50",`},
		{"u", "in", many(`"00000000-0000-0000-0000-%012d"`), "([u] IN (SELECT v FROM OPENJSON(@p1) WITH (v uniqueidentifier '$')))", `["00000000-0000-0000-0000-000000000000",`},
	} {
		if c.want == "" {
			c.want = "([d] IN (SELECT v FROM OPENJSON(@p1) WITH (v datetimeoffset(7) '$')) OR CONVERT(date, SWITCHOFFSET([d], '+00:00')) IN (SELECT v FROM OPENJSON(@p2) WITH (v date '$')))"
			c.first = `["2024-01-31T00:00:00","2024-01-31T00:00:00.0001",`
			c.values += `,"2024-01-30"`
		}
		q := queryOf(t, catalog, "t", []string{"id"}, source.Condition{Field: c.field, Op: source.Op(c.op), Values: jsonValues(t, c.values)})
		if _, err := read(t, s, q); err != nil {
			t.Fatalf("%s: %v", c.field, cause(err))
		}
		all := f.selects()
		last := all[len(all)-1]
		if got := strings.TrimPrefix(last.SQL, "SELECT [id] FROM [dbo].[t] WHERE "); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.field, c.op, got, c.want)
		}
		if p := last.Params[0]; p.Type != "nvarchar(max)" || !strings.HasPrefix(p.Value, c.first) {
			t.Errorf("%s %s: parameter %s %.60s", c.field, c.op, p.Type, p.Value)
		}
	}
}

// TestManyConditions keeps below the number of parameters that the protocol has, and tells a database without
// OPENJSON from one that has it.
func TestManyConditions(t *testing.T) {
	t.Parallel()
	table := catalogTable{schema: "dbo", name: "t", columns: []catalogColumn{{name: "id", typ: "int"}}}
	list := make([]string, 0, maxList)
	for i := range maxList {
		list = append(list, strconv.Itoa(i))
	}
	conditions := func(n int) []source.Condition {
		var out []source.Condition
		for range n {
			out = append(out, source.Condition{Field: "id", Op: source.OpIn, Values: jsonValues(t, strings.Join(list, ","))})
		}
		return out
	}
	f := newFixture(t, table)
	s, catalog := f.begun()
	for n, params := range map[int]int{1: maxList, 5: 5 * maxList, 50: 50} {
		if _, err := read(t, s, queryOf(t, catalog, "t", []string{"id"}, conditions(n)...)); err != nil {
			t.Fatalf("%d lists: %v", n, cause(err))
		}
		all := f.selects()
		if got := len(all[len(all)-1].Params); got != params {
			t.Errorf("%d lists: %d parameters, want %d", n, got, params)
		}
	}
	f.database(snapshotOn, 120)
	s, catalog = f.begun()
	_, err := read(t, s, queryOf(t, catalog, "t", []string{"id"}, conditions(50)...))
	wantError(t, err, source.CategoryUnsupported, false)
	if _, err = read(t, s, queryOf(t, catalog, "t", []string{"id"}, conditions(1)...)); err != nil {
		t.Errorf("a session is good after a query that could not be written: %v", cause(err))
	}
}

// TestForeignColumn refuses columns that another kind's catalogue made.
func TestForeignColumn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s, _ := f.begun()
	column := &source.Column{Name: "x", Native: 1}
	for _, q := range []source.Query{
		{Table: &source.Table{}, Columns: []*source.Column{column}},
		{Table: &source.Table{}, Where: []source.Predicate{{Column: column}}},
	} {
		wantError(t, s.Stream(context.Background(), q, nil), source.CategoryOther, false)
	}
	if n := len(f.selects()); n != 0 {
		t.Errorf("%d statements were sent", n)
	}
}
