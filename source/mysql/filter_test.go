package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
)

// filterFamily is a table with one value per row, its ids from 1, and what conditions find in it.
type filterFamily struct {
	typ    string
	values []string // literals
	finds  []find
}

// find is a condition and the ids of the rows that it must return.
type find struct {
	op     source.Op
	values string // JSON values with commas
	want   string // ids with blanks
}

// filterFamilies are the types that other databases have not, or not like this.
func filterFamilies() []filterFamily {
	return []filterFamily{
		{"bigint unsigned", []string{"0", "9223372036854775808", "18446744073709551615"}, []find{{"eq", "18446744073709551615", "3"}, {"gt", "9223372036854775807", "2 3"}, {"in", `0, "9223372036854775808"`, "1 2"}, {"nin", "0", "2 3"}}},
		{"mediumint", []string{"-8388608", "8388607"}, []find{{"eq", "-8388608", "1"}, {"gte", "0", "2"}}},
		{"tinyint(1)", []string{"0", "1", "2", "NULL"}, []find{{"eq", "1", "2"}, {"ne", "1", "1 3"}}},
		{"year", []string{"1999", "2024", "0", "2055"}, []find{{"eq", "1999", "1"}, {"eq", "99", ""}, {"gt", "99", "1 2 4"}, {"in", "0, 2024", "2 3"}, {"lt", "1970", "3"}}},
		{"float", []string{"0.1", "-5", "16777216", "NULL"}, []find{{"eq", "0.1", "1"}, {"in", "0.1, -5", "1 2"}, {"gt", "0.1", "3"}, {"ne", "0.1", "2 3"}}},
		{"double", []string{"0.1", "0.30000000000000004e0", "1e300"}, []find{{"eq", "0.30000000000000004", "2"}, {"eq", "0.3", ""}, {"gte", "1e300", "3"}, {"between", "0.1, 0.3", "1"}}},
		{"decimal(65,30)", []string{"12345678901234567890123456789012345.123456789012345678901234567890", "0.000000000000000000000000000001"}, []find{{"eq", `"12345678901234567890123456789012345.12345678901234567890123456789"`, "1"}, {"lt", "1e-29", "2"}}},
		{"bit(9)", []string{"b'100000001'", "b'1'", "NULL"}, []find{{"eq", `"AQE="`, "1"}, {"in", `"AQE=", "AAE="`, "1 2"}, {"gt", `"AAE="`, "1"}}},
		{`enum('a\\b','c\nd','x\ty','é')`, []string{`'a\\b'`, `'c\nd'`, `'x\ty'`, "'é'"}, []find{{"eq", `"a\\b"`, "1"}, {"in", `"c\nd", "é"`, "2 4"}, {"nin", `"c\nd", "x\ty"`, "1 4"}}},
		{"enum('b','a','it''s')", []string{"'b'", "'a'", "'it''s'", "NULL"}, []find{{"eq", `"it's"`, "3"}, {"in", `"a", "b"`, "1 2"}, {"ne", `"a"`, "1 3"}, {"nin", `"a", "b"`, "3"}}},
		{"set('a','b')", []string{"'a,b'", "''", "NULL"}, []find{{"eq", `"a,b"`, "1"}, {"like", `"%b"`, "1"}, {"ne", `"a,b"`, "2"}}},
		{"binary(3)", []string{"x'00ff'", "'abc'"}, []find{{"eq", `"AP8A"`, "1"}, {"in", `"YWJj", "AA=="`, "2"}}},
		{"blob", []string{"x'00ff'", "''", "NULL"}, []find{{"eq", `"AP8="`, "1"}, {"eq", `""`, "2"}, {"ne", `"AP8="`, "2"}, {"gt", `""`, "1"}}},
		{"time(6)", []string{"'-838:59:59'", "'10:00:00.5'", "'100:00:00'", "NULL"}, []find{{"eq", `"-838:59:59"`, "1"}, {"eq", `"10:00:00.500"`, "2"}, {"gt", `"24:00:00"`, "3"}, {"in", `"100:00", "10:00:00.5"`, "2 3"}}},
		{"date NOT NULL", []string{"'0000-00-00'", "'2024-01-31'", "'9999-12-31'"}, []find{{"isNull", "true", ""}, {"isNull", "false", "1 2 3"}, {"lt", `"2024-01-31"`, "1"}, {"eq", `"9999-12-31"`, "3"}}},
		{"datetime(6)", []string{"'9999-12-31 00:00:00'", "'9999-12-31 23:59:59.999999'", "'9999-12-30 10:00:00'", "NULL"}, []find{{"eq", `"9999-12-31"`, "1 2"}, {"lte", `"9999-12-31"`, "1 2 3"}, {"gt", `"9999-12-31"`, ""}, {"ne", `"9999-12-31"`, "3"}, {"in", `"9999-12-30", "9999-12-31"`, "1 2 3"}}},
		{"timestamp NULL", []string{"'2024-01-31 10:00:00'", "'2024-02-01 00:30:00'"}, []find{{"eq", `"2024-01-31T12:00:00+02:00"`, "1"}, {"eq", `"2024-02-01"`, "2"}, {"lt", `"2024-02-01T01:30:00+01:00"`, "1"}}},
		{"varchar(20) COLLATE utf8mb4_general_ci", []string{"'Abc'", "'ABC'", "'é'", "'e'", "'x  '"}, []find{{"eq", `"abc"`, "1 2"}, {"in", `"abc", "E"`, "1 2 3 4"}, {"like", `"aB%"`, "1 2"}, {"eq", `"x"`, "5"}, {"like", `"x"`, ""}, {"nin", `"ABC", "x"`, "3 4"}}},
		{"varchar(20) CHARACTER SET latin1", []string{"'é'", "'€'", "'?'"}, []find{{"eq", `"é"`, "1"}, {"eq", `"€", "x"`, "2"}, {"like", `"_"`, "1 2 3"}, {"in", `"é", "?"`, "1 3"}}},
		{"json", []string{"'null'", "NULL"}, []find{{"isNull", "true", "2"}, {"isNull", "false", "1"}}},
		{"point", []string{"ST_GeomFromText('POINT(1 2)')", "NULL"}, []find{{"isNull", "true", "2"}}},
		{"inet6", []string{"'2001:db8::1'", "'::1'"}, []find{{"eq", `"2001:DB8:0::1"`, "1"}, {"in", `"::1", "::2"`, "2"}}},
	}
}

// TestFilters asks a real server for the ids behind conditions on types of its own.
func TestFilters(t *testing.T) {
	t.Parallel()
	ddl := []string{"SET sql_mode = '', time_zone = '+00:00'"}
	for i, fam := range filterFamilies() {
		ddl = append(ddl, fmt.Sprintf("CREATE TABLE f%d (id int AUTO_INCREMENT PRIMARY KEY, `Weird ``Name` %s)", i, fam.typ))
		for _, v := range fam.values {
			ddl = append(ddl, fmt.Sprintf("INSERT INTO f%d (`Weird ``Name`) VALUES (%s)", i, v))
		}
	}
	s, catalog := newFixture(t, ddl...).begun()
	for i, fam := range filterFamilies() {
		for _, fd := range fam.finds {
			condition := source.Condition{Field: "Weird `Name", Op: fd.op, Values: sourcetest.Values(fd.values)}
			got := sourcetest.IDs(t, s, catalog, fmt.Sprintf("f%d", i), condition)
			if diff := cmp.Diff(fd.want, got); diff != "" {
				t.Errorf("%s %s [%s] (-want +got):\n%s", fam.typ, fd.op, fd.values, diff)
			}
		}
	}
}

// TestFilterBounds refuses, before a statement is made, what the types don't hold.
func TestFilterBounds(t *testing.T) {
	t.Parallel()
	_, catalog := newFixture(t, "CREATE TABLE b (m mediumint, mu mediumint unsigned, n decimal(10,2), d date, ts datetime, e enum('a'), x bit(9), t time, j json, u tinyint unsigned, f float, s set('a'), i4 inet4, i6 inet6)").begun()
	table, err := catalog.Resolve("b")
	if err != nil {
		t.Fatal(err)
	}
	for field, values := range map[string]string{
		"m": `8388608, -8388609, 1.5, "x"`, "mu": `16777216, -1`, "n": `"1e-31", 1e36`, "d": `"10000-01-01", "0000-00-00", "2024-02-30"`, "ts": `"10000-01-01", "10000-01-01T00:00:00", "2024-01-01T00:00:00Z"`,
		"e": `"A", ""`, "x": `"AQ==", "AQEB", 1`, "t": `"839:00:00"`, "j": `"x"`, "u": `256, -1`, "f": `1e39, "NaN"`, "s": `1`,
		"i4": `"10.0.0", "::1", "10.0.0.1/32", ""`, "i6": `"10.0.0.1", "::g", "fe80::1%eth0"`,
	} {
		for _, v := range sourcetest.Values(values) {
			_, err := source.Compile(table, []source.Condition{{Field: field, Op: source.OpEq, Values: []jsontext.Value{v}}})
			if len(source.FilterErrors(err)) != 1 {
				t.Errorf("%s %s: %v", field, v, err)
			}
		}
	}
}

// TestLongLists gives more values than a statement has parameters, of every type that can.
func TestLongLists(t *testing.T) {
	t.Parallel()
	for typ, value := range map[string]func(i int) string{
		"bigint unsigned":                 func(i int) string { return fmt.Sprint(i) },
		"decimal(20,3)":                   func(i int) string { return fmt.Sprintf("%d.5", i) },
		"varchar(20)":                     func(i int) string { return fmt.Sprintf(`"v%d\"'"`, i) },
		"datetime(6)":                     func(i int) string { return fmt.Sprintf(`"2024-01-01T%02d:%02d:%02d.5"`, i/3600%24, i/60%60, i%60) },
		"binary(2)":                       func(i int) string { return []string{`"AAA="`, `"AAE="`}[i%2] },
		"datetime":                        func(i int) string { return fmt.Sprintf(`"2024-01-%02d"`, i%28+1) },
		"int":                             func(i int) string { return fmt.Sprint(-i) },
		"enum('a','b') NULL":              func(i int) string { return []string{`"a"`, `"b"`}[i%2] },
		"varchar(9) CHARACTER SET latin1": func(i int) string { return fmt.Sprintf(`"%d"`, i) },
	} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			s, catalog := newFixture(t, "CREATE TABLE n (id int, v "+typ+")", "INSERT INTO n (id) VALUES (1)").begun()
			list := make([]string, 1500)
			for i := range list {
				list[i] = value(i)
			}
			for _, op := range []source.Op{source.OpIn, source.OpNin} {
				if got := sourcetest.IDs(t, s, catalog, "n", source.Condition{Field: "v", Op: op, Values: sourcetest.Values(strings.Join(list, ","))}); got != "" {
					t.Errorf("%s: null found: %q", op, got)
				}
			}
		})
	}
	s, catalog := newFixture(t, "CREATE TABLE n (id int, v varchar(20))", `INSERT INTO n VALUES (1, 'v7"'''), (2, 'V7"'''), (3, 'v1999'), (4, 'größe')`).begun()
	list := make([]string, 0, 1501)
	for i := range 1500 {
		list = append(list, fmt.Sprintf(`"v%d\"'"`, i))
	}
	list = append(list, `"größe"`)
	condition := source.Condition{Field: "v", Op: source.OpIn, Values: sourcetest.Values(strings.Join(list, ","))}
	if got := sourcetest.IDs(t, s, catalog, "n", condition); got != "1 4" {
		t.Errorf("in: %q", got)
	}
	condition.Op = source.OpNin
	if got := sourcetest.IDs(t, s, catalog, "n", condition); got != "2 3" {
		t.Errorf("nin: %q", got)
	}
}
