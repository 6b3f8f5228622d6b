package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/source"
)

// filterFamily is a table with one value per row, its ids from 1, and what conditions find in it.
type filterFamily struct {
	name   string
	typ    string
	setup  string
	values []string // literals
	finds  []find
}

// find is a condition and the ids of the rows that it must return.
type find struct {
	op     source.Op
	values string // JSON values with commas
	want   string // ids with blanks
}

func filterFamilies() []filterFamily {
	return []filterFamily{
		{name: "integer", typ: "bigint", values: []string{"-9223372036854775808", "0", "1", "9007199254740992", "9007199254740993", "9223372036854775807", "NULL"}, finds: []find{
			{"eq", `9007199254740993`, "5"}, {"eq", `"9007199254740993"`, "5"}, {"eq", `0, 1`, "2 3"}, {"eq", `1.0`, "3"}, {"eq", `1e0`, "3"}, {"eq", "-0", "2"},
			{"ne", `9007199254740993`, "1 2 3 4 6"}, {"ne", `0,1`, "1 4 5 6"}, {"gt", "1", "4 5 6"}, {"gte", "1", "3 4 5 6"}, {"lt", "1", "1 2"}, {"lte", "1", "1 2 3"},
			{"between", "0, 9007199254740992", "2 3 4"}, {"between", "1, 0", ""}, {"in", `"9223372036854775807", -9223372036854775808`, "1 6"}, {"nin", "0", "1 3 4 5 6"},
			{"isNull", "true", "7"}, {"isNull", "false", "1 2 3 4 5 6"},
		}},
		{name: "small", typ: "smallint", values: []string{"-32768", "0", "32767"}, finds: []find{{"eq", "32767", "3"}, {"in", "0, 32767", "2 3"}, {"lt", "0", "1"}}},
		{name: "oid", typ: "oid", values: []string{"0", "4294967295"}, finds: []find{{"eq", "4294967295", "2"}, {"gt", "0", "2"}, {"nin", "1, 2", "1 2"}}},
		{name: "decimal", typ: "numeric", values: []string{"0.1", "0.10000000000000000001", "12345678901234567890.123456789", "-0.5", "NULL", "'NaN'", "10"}, finds: []find{
			{"eq", "0.1", "1"}, {"eq", `"0.10000000000000000001"`, "2"}, {"eq", "0.10000000000000000001", "2"}, {"eq", "12345678901234567890.123456789", "3"},
			{"gt", "12345678901234567890.123456788", "3 6"}, {"lt", "0", "4"}, {"eq", `"NaN"`, "6"}, {"ne", "0.1", "2 3 4 6 7"}, {"between", "-1, 0.1", "1 4"},
			{"in", `1e1, "-0.50"`, "4 7"}, {"nin", `0.1, "NaN"`, "2 3 4 7"}, {"isNull", "true", "5"}, {"eq", "1000e-2", "7"},
		}},
		{name: "money", typ: "money", values: []string{"'1.10'", "'-2.00'", "'92233720368547758.07'"}, finds: []find{
			{"eq", "1.1", "1"}, {"gt", "1.0999", "1 3"}, {"in", `-2, "92233720368547758.07"`, "2 3"}, {"eq", "1.1000001", ""}, {"nin", "-2, 1", "1 3"},
		}},
		{name: "real", typ: "real", values: []string{"0.1", "'NaN'", "'Infinity'", "-5", "NULL"}, finds: []find{
			{"eq", "0.1", "1"}, {"in", "0.1, -5", "1 4"}, {"eq", `"Infinity"`, "3"}, {"lt", "0.1", "4"}, {"eq", `"NaN"`, "2"}, {"ne", "0.1", "2 3 4"},
		}},
		{name: "double", typ: "float8", values: []string{"0.1", "0.30000000000000004", "1e300"}, finds: []find{{"eq", "0.30000000000000004", "2"}, {"eq", "0.3", ""}, {"gte", "1e300", "3"}, {"between", "0.1, 0.3", "1"}}},
		{name: "text", typ: `text COLLATE "C"`, values: []string{"'abc'", "'a%c'", "'a_c'", `'a\c'`, "''", "NULL", "'ABC'", "'é\"'''", "'{x}'", "'100%'"}, finds: []find{
			{"eq", `"abc"`, "1"}, {"eq", `""`, "5"}, {"eq", `"é\"'", "{x}"`, "8 9"}, {"ne", `"abc"`, "2 3 4 5 7 8 9 10"}, {"in", `"abc", "a\\c", "NULL"`, "1 4"},
			{"like", `"a%c"`, "1 2 3 4"}, {"like", `"a_c"`, "1 2 3 4"}, {"like", `"a\\%c"`, "2"}, {"like", `"a\\_c"`, "3"}, {"like", `"a\\\\c"`, "4"}, {"like", `"%\\%"`, "10"}, {"like", `""`, "5"},
			{"nin", `"abc", "ABC"`, "2 3 4 5 8 9 10"}, {"gt", `"b"`, "8 9"}, {"lt", `"1"`, "5"}, {"between", `"a", "b"`, "1 2 3 4"}, {"isNull", "true", "6"},
		}},
		{name: "varchar", typ: "varchar(10)", values: []string{"'abc'", "'abc  '"}, finds: []find{{"eq", `"abc"`, "1"}, {"in", `"abc  ", "x"`, "2"}, {"like", `"abc%"`, "1 2"}, {"eq", `"abcdefghijklmnop"`, ""}}},
		{name: "char", typ: "char(5)", values: []string{"'abc'", "'x'"}, finds: []find{{"eq", `"abc"`, "1"}, {"eq", `"abc  "`, "1"}, {"in", `"abc", "x"`, "1 2"}, {"like", `"ab%"`, "1"}}},
		{name: "qchar", typ: `"char"`, values: []string{"'a'", "'b'"}, finds: []find{{"eq", `"a"`, "1"}, {"eq", `"ab"`, ""}, {"in", `"a", "bb"`, "1"}, {"like", `"_"`, "1 2"}}},
		{name: "name", typ: `name`, values: []string{"repeat('n', 63)::name"}, finds: []find{{"eq", `"` + strings.Repeat("n", 63) + `"`, "1"}, {"eq", `"` + strings.Repeat("n", 70) + `"`, ""}, {"like", `"n%"`, "1"}}},
		{name: "citext", typ: "ext.citext", setup: "CREATE SCHEMA ext; CREATE EXTENSION citext SCHEMA ext", values: []string{"'Abc'", "'ABC'", "'x'"}, finds: []find{
			{"eq", `"abc"`, "1 2"}, {"in", `"abc", "X"`, "1 2 3"}, {"ne", `"abc"`, "3"}, {"nin", `"abc", "y"`, "3"}, {"like", `"aB%"`, "1 2"}, {"gt", `"B"`, "3"},
		}},
		{name: "boolean", typ: "boolean", values: []string{"true", "false", "NULL"}, finds: []find{
			{"eq", "true", "1"}, {"eq", `"true"`, "1"}, {"ne", "true", "2"}, {"in", `true, "false"`, "1 2"}, {"nin", "false", "1"}, {"gt", "false", "1"}, {"isNull", "true", "3"},
		}},
		{name: "uuid", typ: "uuid", values: []string{"'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'00000000-0000-0000-0000-000000000000'", "NULL"}, finds: []find{
			{"eq", `"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"`, "1"}, {"in", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"`, "1 2"},
			{"ne", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, "2"}, {"gt", `"00000000-0000-0000-0000-000000000000"`, "1"}, {"isNull", "false", "1 2"},
		}},
		{name: "enum", typ: "mood", setup: `CREATE TYPE mood AS ENUM ('sad', 'ok', 'so "x"')`, values: []string{"'sad'", "'ok'", `'so "x"'`, "NULL"}, finds: []find{
			{"eq", `"ok"`, "2"}, {"in", `"so \"x\"", "sad"`, "1 3"}, {"gt", `"sad"`, "2 3"}, {"ne", `"ok"`, "1 3"}, {"isNull", "true", "4"},
		}},
		{name: "date", typ: "date", values: []string{"'2024-01-31'", "'2024-02-01'", "'infinity'", "NULL", "'0044-03-15 BC'"}, finds: []find{
			{"eq", `"2024-01-31"`, "1"}, {"gt", `"2024-01-31"`, "2 3"}, {"lte", `"2024-02-01"`, "1 2 5"}, {"between", `"2024-01-31", "2024-02-01"`, "1 2"}, {"in", `"2024-02-01", "infinity"`, "2 3"}, {"ne", `"2024-01-31"`, "2 3 5"},
		}},
		{name: "timestamp", typ: "timestamp", values: []string{"'2024-01-30 23:59:59.999999'", "'2024-01-31 00:00:00'", "'2024-01-31 12:00:00.5'", "'2024-01-31 23:59:59.999999'", "'2024-02-01 00:00:00'", "NULL", "'infinity'"}, finds: []find{
			{"eq", `"2024-01-31"`, "2 3 4"}, {"ne", `"2024-01-31"`, "1 5 7"}, {"gt", `"2024-01-31"`, "5 7"}, {"gte", `"2024-01-31"`, "2 3 4 5 7"}, {"lt", `"2024-01-31"`, "1"}, {"lte", `"2024-01-31"`, "1 2 3 4"},
			{"between", `"2024-01-30", "2024-01-31"`, "1 2 3 4"}, {"between", `"2024-01-31", "2024-01-31T12:00:00.5"`, "2 3"}, {"in", `"2024-01-30", "2024-02-01"`, "1 5"}, {"in", `"2024-01-30", "2024-01-31T12:00:00.5"`, "1 3"},
			{"nin", `"2024-01-30", "2024-02-01"`, "2 3 4 7"}, {"nin", `"2024-01-31", "2024-02-01T00:00:00"`, "1 7"}, {"eq", `"2024-01-31 12:00:00.500"`, "3"}, {"eq", `"2024-01-31T00:00"`, "2"}, {"eq", `"infinity"`, "7"}, {"isNull", "true", "6"},
			{"eq", `"2024-01-30", "2024-01-31", "2024-02-01T00:00:00", "infinity"`, "1 2 3 4 5 7"}, {"gt", `"2024-01-31T23:59:59.999998"`, "4 5 7"},
		}},
		{name: "timestamptz", typ: "timestamptz", values: []string{"'2024-01-30 23:59:59.999999Z'", "'2024-01-31 00:00:00Z'", "'2024-02-01 00:30:00+01'", "'2024-02-01 00:00:00Z'", "NULL"}, finds: []find{
			{"eq", `"2024-01-31"`, "2 3"}, {"ne", `"2024-01-31"`, "1 4"}, {"lte", `"2024-01-31"`, "1 2 3"}, {"gt", `"2024-01-31"`, "4"}, {"in", `"2024-01-30", "2024-01-31"`, "1 2 3"}, {"nin", `"2024-01-30", "2024-02-01"`, "2 3"},
			{"eq", `"2024-01-31T23:30:00"`, "3"}, {"eq", `"2024-02-01T00:30:00+01:00"`, "3"}, {"eq", `"2024-01-31 18:30:00-0500"`, "3"}, {"gte", `"2024-01-31T23:30:00Z"`, "3 4"}, {"between", `"2024-01-31T00:00:00Z", "2024-01-31"`, "2 3"},
		}},
		{name: "time", typ: "time", values: []string{"'10:00:00'", "'10:00:00.5'", "'24:00:00'", "NULL"}, finds: []find{{"eq", `"10:00"`, "1"}, {"gt", `"10:00:00"`, "2 3"}, {"in", `"24:00:00", "10:00:00.500"`, "2 3"}}},
		{name: "timetz", typ: "timetz", values: []string{"'10:00:00+00'", "'12:00:00+02'"}, finds: []find{{"eq", `"10:00:00Z"`, "1"}, {"eq", `"12:00:00+02:00"`, "2"}, {"eq", `"10:00:00"`, "1"}}},
		{name: "interval", typ: "interval", values: []string{"'1 day'", "'24 hours'", "'-1 mon'"}, finds: []find{{"eq", `"P1D"`, "1 2"}, {"lt", `"PT0S"`, "3"}, {"in", `"P-1M", "PT24H"`, "1 2 3"}}},
		{name: "binary", typ: "bytea", values: []string{`'\x00ff'`, `''`, "NULL"}, finds: []find{{"eq", `"AP8="`, "1"}, {"eq", `""`, "2"}, {"in", `"AP8=", ""`, "1 2"}, {"gt", `""`, "1"}, {"ne", `"AP8="`, "2"}}},
		{name: "bits", typ: "bit(4)", values: []string{"B'0101'", "B'1111'"}, finds: []find{{"eq", `"0101"`, "1"}, {"eq", `"01"`, ""}, {"in", `"0101", "1111"`, "1 2"}}},
		{name: "varbits", typ: "varbit", values: []string{"B'01'", "B''"}, finds: []find{{"eq", `"01"`, "1"}, {"in", `"", "0"`, "2"}}},
		{name: "inet", typ: "inet", values: []string{"'10.0.0.1'", "'10.0.0.1/8'", "'::1'"}, finds: []find{{"eq", `"10.0.0.1"`, "1"}, {"in", `"10.0.0.1/8", "::1"`, "2 3"}, {"gt", `"10.255.255.255"`, "3"}}},
		{name: "cidr", typ: "cidr", values: []string{"'10.0.0.0/8'", "'192.168.0.0/16'"}, finds: []find{{"eq", `"10.0.0.0/8"`, "1"}, {"gt", `"10.1.2.3/8"`, "2"}, {"in", `"10.0.0.0/8", "1.2.3.4"`, "1"}}},
		{name: "macaddr", typ: "macaddr", values: []string{"'08:00:2b:01:02:03'"}, finds: []find{{"eq", `"08-00-2B-01-02-03"`, "1"}, {"in", `"08:00:2b:01:02:03", "08:00:2b:01:02:04"`, "1"}}},
		{name: "domain", typ: "posint", setup: "CREATE DOMAIN posint AS int CHECK (value > 0)", values: []string{"1", "2"}, finds: []find{{"eq", "1", "1"}, {"in", "1, 2", "1 2"}, {"lt", "-5", ""}}},
		{name: "enumdomain", typ: `"d Mood".outer_mood`, setup: `CREATE SCHEMA "d Mood"; CREATE TYPE "d Mood"."m""x" AS ENUM ('sad', 'ok', 'so "x"'); CREATE DOMAIN "d Mood".inner_mood AS "d Mood"."m""x"; CREATE DOMAIN "d Mood".outer_mood AS "d Mood".inner_mood`, values: []string{"'sad'", "'ok'", `'so "x"'`, "NULL"}, finds: []find{
			{"eq", `"ok"`, "2"}, {"eq", `"ok", "sad"`, "1 2"}, {"in", `"so \"x\"", "sad"`, "1 3"}, {"ne", `"ok"`, "1 3"}, {"nin", `"ok", "sad"`, "3"},
			{"gt", `"sad"`, "2 3"}, {"lte", `"ok"`, "1 2"}, {"between", `"sad", "ok"`, "1 2"}, {"isNull", "true", "4"},
		}},
		{name: "citextdomain", typ: "dci", setup: "CREATE DOMAIN dci AS ext.citext", values: []string{"'Abc'", "'x'"}, finds: []find{{"eq", `"abc"`, "1"}, {"in", `"abc", "X"`, "1 2"}, {"nin", `"abc", "y"`, "2"}, {"like", `"aB%"`, "1"}, {"gt", `"B"`, "2"}}},
		{name: "textdomain", typ: "dvc", setup: "CREATE DOMAIN dvc AS varchar(10)", values: []string{"'abc'", "'x'"}, finds: []find{{"eq", `"abc"`, "1"}, {"in", `"abc", "x"`, "1 2"}, {"like", `"a%"`, "1"}}},
		{name: "moneydomain", typ: "dmo", setup: "CREATE DOMAIN dmo AS money", values: []string{"'1.10'", "'2'"}, finds: []find{{"eq", `1.1`, "1"}, {"in", `1.1, 2`, "1 2"}}},
		{name: "timedomain", typ: "dts", setup: "CREATE DOMAIN dts AS timestamptz", values: []string{"'2024-01-31 10:00Z'", "'2024-02-01 10:00Z'"}, finds: []find{{"eq", `"2024-01-31"`, "1"}, {"in", `"2024-01-31", "2024-02-01"`, "1 2"}}},
		{name: "olddate", typ: "date", values: []string{"'4713-11-24 BC'", "'0044-03-15 BC'", "'0001-12-31 BC'", "'0001-01-01'", "'10000-01-01'", "'5874897-12-31'"}, finds: []find{
			{"eq", `"0044-03-15 BC"`, "2"}, {"in", `"4713-11-24 BC", "5874897-12-31"`, "1 6"}, {"between", `"0044-03-15 BC", "0001-01-01"`, "2 3 4"}, {"gt", `"0001-01-01"`, "5 6"}, {"ne", `"0044-03-15"`, "1 2 3 4 5 6"},
		}},
		{name: "oldtimestamp", typ: "timestamp", values: []string{"'4713-11-24 00:00:00 BC'", "'0044-03-15 10:00:00.123456 BC'", "'0001-12-31 23:59:59 BC'", "'0001-01-01 00:00:00'", "'294276-12-31 23:59:59.999999'"}, finds: []find{
			{"eq", `"0044-03-15T10:00:00.123456 BC"`, "2"}, {"eq", `"0044-03-15 BC"`, "2"}, {"eq", `"0001-12-31 BC"`, "3"}, {"gt", `"0001-12-31 BC"`, "4 5"}, {"lte", `"0001-12-31 BC"`, "1 2 3"}, {"in", `"4713-11-24 BC", "0044-03-15 BC"`, "1 2"},
			{"eq", `"4713-11-24T00:00:00 BC"`, "1"}, {"eq", `"294276-12-31T23:59:59.999999"`, "5"}, {"gte", `"294276-01-01"`, "5"}, {"in", `"0044-03-15 10:00:00.123456 BC", "0001-01-01T00:00:00"`, "2 4"},
		}},
		{name: "oldinstant", typ: "timestamptz", values: []string{"'4713-11-24 00:00:00Z BC'", "'0044-03-15 10:00:00.123456Z BC'", "'0001-12-31 23:00:00Z BC'", "'294276-12-31 23:59:59.999999Z'"}, finds: []find{
			{"eq", `"0044-03-15T10:00:00.123456Z BC"`, "2"}, {"eq", `"0044-03-15T12:00:00.123456+02:00 BC"`, "2"}, {"eq", `"0001-01-01T00:00:00+01:00"`, "3"}, {"eq", `"0044-03-15 BC"`, "2"}, {"in", `"4713-11-24T00:00:00Z BC", "294276-12-31T23:59:59.999999Z"`, "1 4"},
		}},
		{name: "json", typ: "jsonb", values: []string{"'null'", "NULL"}, finds: []find{{"isNull", "true", "2"}, {"isNull", "false", "1"}}},
		{name: "jsontext", typ: "json", values: []string{"'null'", "NULL"}, finds: []find{{"isNull", "true", "2"}}},
		{name: "array", typ: "int[]", values: []string{"'{}'", "NULL"}, finds: []find{{"isNull", "true", "2"}, {"isNull", "false", "1"}}},
		{name: "composite", typ: "pair", setup: "CREATE TYPE pair AS (a int, b int)", values: []string{"ROW(1, 2)::pair", "ROW(NULL, NULL)::pair", "NULL", "ROW(1, NULL)::pair"}, finds: []find{{"isNull", "true", "3"}, {"isNull", "false", "1 2 4"}}},
		{name: "point", typ: "point", values: []string{"'(1,2)'", "NULL"}, finds: []find{{"isNull", "true", "2"}}},
	}
}

// TestFilters asks a real server for the ids behind every operator and type family.
func TestFilters(t *testing.T) {
	t.Parallel()
	families := filterFamilies()
	var ddl []string
	for _, fam := range families {
		if fam.setup != "" {
			ddl = append(ddl, fam.setup)
		}
		ddl = append(ddl, fmt.Sprintf(`CREATE TABLE %q (id serial, "Weird ""Name""" %s)`, fam.name, fam.typ))
		for _, v := range fam.values {
			ddl = append(ddl, fmt.Sprintf(`INSERT INTO %q ("Weird ""Name""") VALUES (%s)`, fam.name, v))
		}
	}
	s, catalog := newFixture(t, ddl...).begun()
	for _, fam := range families {
		for _, fd := range fam.finds {
			condition := source.Condition{Field: `Weird "Name"`, Op: fd.op, Values: jsonValues(fd.values)}
			got := ids(t, s, catalog, fam.name, condition)
			if diff := cmp.Diff(fd.want, got); diff != "" {
				t.Errorf("%s %s [%s] (-want +got):\n%s", fam.name, fd.op, fd.values, diff)
			}
		}
	}
}

// ids returns the ids of the rows found, in order.
func ids(t *testing.T, s source.Session, c *source.Catalog, table string, where ...source.Condition) string {
	t.Helper()
	q := queryOf(t, c, table, []string{"id"}, where...)
	var found []string
	err := s.Stream(context.Background(), q, func(r source.Row) error {
		found = append(found, string(r.AppendJSON(nil, 0)))
		return nil
	})
	if err != nil {
		t.Fatalf("%s %+v: %v", table, where, cause(err))
	}
	return strings.Join(found, " ")
}

func jsonValues(list string) []jsontext.Value {
	dec := jsontext.NewDecoder(strings.NewReader("[" + list + "]"))
	_, _ = dec.ReadToken()
	var values []jsontext.Value
	for dec.PeekKind() != ']' && dec.PeekKind() != 0 {
		v, err := dec.ReadValue()
		if err != nil {
			panic(err)
		}
		values = append(values, v.Clone())
	}
	return values
}

// TestFiltersCombine joins conditions with AND, on columns that are selected, not selected, and badly named.
func TestFiltersCombine(t *testing.T) {
	t.Parallel()
	s, catalog := newFixture(t,
		`CREATE TABLE orders (id int, paid bool, "order" int, "select" text)`,
		`INSERT INTO orders VALUES (1, true, 10, 'a'), (2, true, 20, 'b'), (3, false, 10, 'a'), (4, NULL, 10, 'a')`,
	).begun()
	got := ids(t, s, catalog, "orders",
		source.Condition{Field: "paid", Op: source.OpEq, Values: jsonValues("true")},
		source.Condition{Field: "ORDER", Op: source.OpIn, Values: jsonValues("10, 20")},
		source.Condition{Field: "select", Op: source.OpNe, Values: jsonValues(`"b"`)},
	)
	if got != "1" {
		t.Errorf("got %q", got)
	}
	got = ids(t, s, catalog, "orders",
		source.Condition{Field: "paid", Op: source.OpNe, Values: jsonValues("true")},
		source.Condition{Field: "order", Op: source.OpGte, Values: jsonValues("10")},
		source.Condition{Field: "order", Op: source.OpLt, Values: jsonValues("11")},
	)
	if got != "3" {
		t.Errorf("got %q", got)
	}
}

// TestFilterListsOfAnyLength binds a list as one parameter, for the protocol has only 65,535.
func TestFilterListsOfAnyLength(t *testing.T) {
	t.Parallel()
	s, catalog := newFixture(t, `CREATE TABLE n AS SELECT g AS id, timestamp '2000-01-01' + g * interval '1 day' AS at FROM generate_series(1, 70010) g`).begun()
	var numbers, days []string
	for i := 11; i <= 70000; i++ {
		numbers = append(numbers, fmt.Sprint(i))
		days = append(days, `"2000-01-02"`)
	}
	if got := ids(t, s, catalog, "n",
		source.Condition{Field: "id", Op: source.OpNin, Values: jsonValues(strings.Join(numbers, ","))},
		source.Condition{Field: "id", Op: source.OpLt, Values: jsonValues("12")},
	); got != "1 2 3 4 5 6 7 8 9 10" {
		t.Errorf("numbers: %q", got)
	}
	if got := ids(t, s, catalog, "n", source.Condition{Field: "at", Op: source.OpIn, Values: jsonValues(strings.Join(days, ","))}); got != "1" {
		t.Errorf("days: %q", got)
	}
}

// TestFilterBounds refuses, before a statement is made, what the types don't hold.
func TestFilterBounds(t *testing.T) {
	t.Parallel()
	_, catalog := newFixture(t, `CREATE TYPE mood AS ENUM ('sad', 'ok')`, `CREATE DOMAIN dmood AS mood`,
		`CREATE TABLE b (m dmood, d date, ts timestamp, tz timestamptz)`).begun()
	table, err := catalog.Resolve("b")
	if err != nil {
		t.Fatal(err)
	}
	for field, values := range map[string]string{
		"m":  `"SAD", "", "great"`,
		"d":  `"4713-11-23 BC", "4714-01-01 BC", "5874898-01-01", "0000-01-01 BC", "0002-02-29 BC", "0044-03-15BC", "0044-03-15 bc", "0044-03-15 BC BC", "0044-03-15 AD"`,
		"ts": `"4713-11-23 BC", "4713-11-23T23:59:59 BC", "294277-01-01T00:00:00", "294276-12-31", "5874897-12-31", "BC", "0044-03-15T10:00:00Z BC"`,
		"tz": `"4713-11-24T00:00:00+01:00 BC", "294276-12-31T23:59:59-01:00", "294276-12-31", "0044-03-15T10:00:00 BCZ"`,
	} {
		for _, v := range jsonValues(values) {
			_, err := source.Compile(table, []source.Condition{{Field: field, Op: source.OpEq, Values: []jsontext.Value{v}}})
			if len(source.FilterErrors(err)) != 1 {
				t.Errorf("%s %s: %v", field, v, err)
			}
		}
	}
}
