package mysql

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/source/sourcetest"
	"github.com/fetcherhq/fetcher/testkit"
)

// valueCase is a type with literals and the exact JSON that each must become. NULL is tried with every type.
type valueCase struct {
	typ    string
	values [][2]string
	only   string // the server that has the type; empty: every one
}

// Servers that some types are of.
const (
	onlyMaria = "MariaDB"
	onlyMySQL = "MySQL"
	onlyReal  = "a whole server" // not the dialect that tests run in place of MySQL
)

func valueCases() []valueCase {
	return append(numberCases(), append(temporalCases(), textCases()...)...)
}

func numberCases() []valueCase {
	return []valueCase{
		{typ: "tinyint(1)", values: [][2]string{{"-128", "-128"}, {"0", "0"}, {"1", "1"}, {"127", "127"}}},
		{typ: "tinyint unsigned", values: [][2]string{{"0", "0"}, {"255", "255"}}},
		{typ: "smallint", values: [][2]string{{"-32768", "-32768"}, {"0", "0"}, {"32767", "32767"}}},
		{typ: "smallint unsigned", values: [][2]string{{"65535", "65535"}}},
		{typ: "mediumint", values: [][2]string{{"-8388608", "-8388608"}, {"0", "0"}, {"8388607", "8388607"}}},
		{typ: "mediumint unsigned", values: [][2]string{{"16777215", "16777215"}}},
		{typ: "int", values: [][2]string{{"-2147483648", "-2147483648"}, {"0", "0"}, {"2147483647", "2147483647"}}},
		{typ: "int unsigned", values: [][2]string{{"4294967295", "4294967295"}}},
		{typ: "int(8) unsigned zerofill", values: [][2]string{{"42", "42"}}, only: onlyReal},
		{typ: "bigint", values: [][2]string{{"-9223372036854775808", "-9223372036854775808"}, {"0", "0"}, {"9007199254740993", "9007199254740993"}, {"9223372036854775807", "9223372036854775807"}}},
		{typ: "bigint unsigned", values: [][2]string{{"0", "0"}, {"9223372036854775808", "9223372036854775808"}, {"18446744073709551615", "18446744073709551615"}}},
		{typ: "decimal(10,2)", values: [][2]string{{"-99999999.99", `"-99999999.99"`}, {"0", `"0.00"`}, {"10.5", `"10.50"`}, {"99999999.99", `"99999999.99"`}}},
		{typ: "decimal(65,30)", values: [][2]string{{"12345678901234567890123456789012345.123456789012345678901234567890", `"12345678901234567890123456789012345.123456789012345678901234567890"`}, {"-0.000000000000000000000000000001", `"-0.000000000000000000000000000001"`}}},
		{typ: "decimal(20,0)", values: [][2]string{{"9007199254740993", `"9007199254740993"`}}},
		{typ: "decimal(8,2) unsigned zerofill", values: [][2]string{{"10.5", `"10.50"`}, {"0", `"0.00"`}, {"0.07", `"0.07"`}}, only: onlyReal},
		{typ: "float", values: [][2]string{{"0", "0"}, {"0.1", "0.1"}, {"-1.5", "-1.5"}, {"16777216", "1.6777216e+07"}, {"3.4028234e38", "3.4028235e+38"}, {"1.17549435e-38", "1.1754944e-38"}, {"123456.79", "123456.79"}}},
		{typ: "double", values: [][2]string{{"0e0", "0"}, {"0.1e0", "0.1"}, {"0.30000000000000004e0", "0.30000000000000004"}, {"1.7976931348623157e308", "1.7976931348623157e+308"}, {"2.2250738585072014e-308", "2.2250738585072014e-308"}, {"9007199254740993e0", "9.007199254740992e+15"}, {"-5e-1", "-0.5"}}},
		{typ: "float(7,3)", values: [][2]string{{"1234.567", "1234.567"}}, only: onlyReal},
		{typ: "bit(1)", values: [][2]string{{"b'0'", "false"}, {"b'1'", "true"}}},
		{typ: "bit(9)", values: [][2]string{{"b'100000001'", `"AQE="`}, {"0", `"AAA="`}}},
		{typ: "bit(64)", values: [][2]string{{"18446744073709551615", `"//////////8="`}}},
		{typ: "year", values: [][2]string{{"1901", "1901"}, {"2155", "2155"}, {"2024", "2024"}}},
		{typ: "year", values: [][2]string{{"0", "0"}}, only: onlyReal},
		{typ: "boolean", values: [][2]string{{"true", "1"}, {"false", "0"}}},
	}
}

func temporalCases() []valueCase {
	return []valueCase{
		{typ: "date", values: [][2]string{{"'1000-01-01'", `"1000-01-01"`}, {"'2024-02-29'", `"2024-02-29"`}, {"'9999-12-31'", `"9999-12-31"`}}},
		{typ: "date", values: [][2]string{{"'0000-00-00'", `"0000-00-00"`}, {"'2024-00-00'", `"2024-00-00"`}, {"'2024-05-00'", `"2024-05-00"`}, {"'0000-05-01'", `"0000-05-01"`}, {"'0001-01-01'", `"0001-01-01"`}}, only: onlyReal},
		{typ: "datetime", values: [][2]string{{"'1000-01-01 00:00:00'", `"1000-01-01T00:00:00"`}, {"'2024-01-31 23:59:59'", `"2024-01-31T23:59:59"`}, {"'9999-12-31 23:59:59'", `"9999-12-31T23:59:59"`}}},
		{typ: "datetime(6)", values: [][2]string{{"'2024-01-31 10:00:00.000001'", `"2024-01-31T10:00:00.000001"`}, {"'2024-01-31 10:00:00.5'", `"2024-01-31T10:00:00.5"`}, {"'2024-01-31'", `"2024-01-31T00:00:00"`}, {"'9999-12-31 23:59:59.999999'", `"9999-12-31T23:59:59.999999"`}}},
		{typ: "datetime(3)", values: [][2]string{{"'2024-01-31 10:00:00.120'", `"2024-01-31T10:00:00.12"`}}},
		{typ: "datetime(6)", values: [][2]string{{"'0000-00-00 00:00:00'", `"0000-00-00T00:00:00"`}, {"'2024-00-00 10:00:00'", `"2024-00-00T10:00:00"`}, {"'2024-01-00 00:00:00.25'", `"2024-01-00T00:00:00.25"`}}, only: onlyReal},
		{typ: "timestamp", values: [][2]string{{"'1970-01-01 00:00:01'", `"1970-01-01T00:00:01Z"`}, {"'2038-01-19 03:14:07'", `"2038-01-19T03:14:07Z"`}}},
		{typ: "timestamp(6)", values: [][2]string{{"'2024-01-31 10:00:00.123456'", `"2024-01-31T10:00:00.123456Z"`}}},
		{typ: "timestamp", values: [][2]string{{"'0000-00-00 00:00:00'", `"0000-00-00T00:00:00"`}}, only: onlyReal},
		{typ: "time", values: [][2]string{{"'-838:59:59'", `"-838:59:59"`}, {"'-00:00:01'", `"-00:00:01"`}, {"'00:00:00'", `"00:00:00"`}, {"'23:59:59'", `"23:59:59"`}, {"'24:00:00'", `"24:00:00"`}, {"'100:00:00'", `"100:00:00"`}, {"'838:59:59'", `"838:59:59"`}}},
		{typ: "time(6)", values: [][2]string{{"'10:00:00.000001'", `"10:00:00.000001"`}, {"'-10:00:00.5'", `"-10:00:00.5"`}, {"'-25:00:00.123456'", `"-25:00:00.123456"`}}},
	}
}

func textCases() []valueCase {
	const unicode = "Größe \"x\" \\\\ 列 😀"
	shown := `"Größe \"x\" \\ 列 😀"`
	all := [][2]string{{"''", `""`}, {"'" + unicode + "'", shown}, {`'a\nb\tc'`, `"a\nb\tc"`}, {"'null'", `"null"`}, {"'  x'", `"  x"`}}
	return []valueCase{
		{typ: "varchar(100)", values: append(all, [2]string{"'x  '", `"x  "`})},
		{typ: "char(20)", values: [][2]string{{"''", `""`}, {"'" + unicode + "'", shown}}},
		{typ: "char(20)", values: [][2]string{{"'x  '", `"x"`}}, only: onlyReal},
		{typ: "tinytext", values: all}, {typ: "text", values: all}, {typ: "mediumtext", values: all}, {typ: "longtext", values: all},
		{typ: "varchar(100) CHARACTER SET utf8mb3", values: [][2]string{{"'Größe 列'", `"Größe 列"`}}},
		{typ: "varchar(100) CHARACTER SET latin1", values: [][2]string{{"'Größe €'", `"Größe €"`}, {"x'E9'", `"é"`}}, only: onlyReal},
		{typ: "varchar(100) CHARACTER SET utf16", values: [][2]string{{"'Größe 😀'", `"Größe 😀"`}}, only: onlyReal},
		{typ: "varchar(100) CHARACTER SET sjis", values: [][2]string{{"'列'", `"列"`}}, only: onlyReal},
		{typ: "varchar(100) BINARY", values: [][2]string{{"'é'", `"é"`}}, only: onlyReal}, // a collation, not bytes
		{typ: "varchar(100) CHARACTER SET binary", values: [][2]string{{"'a'", `"YQ=="`}}, only: onlyReal},
		{typ: "enum('sad','it''s','größe')", values: [][2]string{{"'sad'", `"sad"`}, {"'it''s'", `"it's"`}, {"'größe'", `"größe"`}}},
		{typ: "set('a','b','c d')", values: [][2]string{{"''", `""`}, {"'a,c d'", `"a,c d"`}}},
		{typ: "binary(4)", values: [][2]string{{"x'00ff'", `"AP8AAA=="`}, {"''", `"AAAAAA=="`}}},
		{typ: "binary(16)", values: [][2]string{{"x'a0eebc999c0b4ef8bb6d6bb9bd380a11'", `"oO68mZwLTvi7bWu5vTgKEQ=="`}}},
		{typ: "varbinary(10)", values: [][2]string{{"''", `""`}, {"x'ff'", `"/w=="`}, {"'abc'", `"YWJj"`}}},
		{typ: "tinyblob", values: [][2]string{{"x'00'", `"AA=="`}}}, {typ: "blob", values: [][2]string{{"''", `""`}, {"x'00ff10'", `"AP8Q"`}}},
		{typ: "mediumblob", values: [][2]string{{"x'fe'", `"/g=="`}}}, {typ: "longblob", values: [][2]string{{"x'fe'", `"/g=="`}}},
		{typ: "json", values: [][2]string{{`'{"b": 1.50, "a": [1, null, "x\\n"], "b": 2}'`, `{"b": 1.50, "a": [1, null, "x\n"], "b": 2}`}, {`'12345678901234567890.10'`, `12345678901234567890.10`}, {"'null'", "null"}, {`'"é"'`, `"é"`}, {"'[\n1]'", "[ 1]"}}, only: onlyMaria},
		{typ: "json", values: [][2]string{{`'{"a": [1, null, "x"]}'`, `{"a": [1, null, "x"]}`}, {"'null'", "null"}, {"'[]'", "[]"}}, only: onlyMySQL},
		{typ: "longtext CHECK (json_valid(`v`))", values: [][2]string{{"'[1]'", "[1]"}}, only: onlyMaria},
		{typ: "longtext CHECK (json_valid(`v`) or 1)", values: [][2]string{{"'[1]'", `"[1]"`}}, only: onlyMaria},
		{typ: "uuid", values: [][2]string{{"'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`}}, only: onlyMaria},
		{typ: "inet6", values: [][2]string{{"'2001:DB8::1'", `"2001:db8::1"`}, {"'::ffff:10.0.0.1'", `"::ffff:10.0.0.1"`}}, only: onlyMaria},
		{typ: "inet4", values: [][2]string{{"'10.0.0.1'", `"10.0.0.1"`}}, only: onlyMaria},
		{typ: "point", values: [][2]string{{"ST_GeomFromText('POINT(1.5 -2)')", `"POINT(1.5 -2)"`}}, only: onlyReal},
		{typ: "geometry", values: [][2]string{{"ST_GeomFromText('LINESTRING(0 0,1 1)')", `"LINESTRING(0 0,1 1)"`}}, only: onlyReal},
	}
}

// TestValues writes literals of every type and reads the JSON they become, on MariaDB.
func TestValues(t *testing.T) {
	t.Parallel()
	checkValues(t, testkit.MariaDB(t), onlyMaria, onlyReal)
}

// TestValuesDialect is TestValues for MySQL.
func TestValuesDialect(t *testing.T) {
	t.Parallel()
	checkValues(t, testkit.MySQLDialect(t), onlyMySQL)
}

// TestValuesLive is TestValues on a server of the developer's.
func TestValuesLive(t *testing.T) {
	t.Parallel()
	server := testkit.LiveMySQL(t)
	kind := onlyMySQL
	if isMaria(t, newFixtureOn(t, server)) {
		kind = onlyMaria
	}
	checkValues(t, server, kind, onlyReal)
}

func checkValues(t *testing.T, server *testkit.MySQLServer, has ...string) {
	t.Helper()
	cases := valueCases()
	statements := []string{"SET sql_mode = '', time_zone = '+00:00'"}
	for i, c := range cases {
		if !runsOn(c.only, has) {
			continue
		}
		definition := c.typ
		if !strings.Contains(definition, "CHECK") {
			definition += " NULL" // which TIMESTAMP has to be told
		}
		statements = append(statements, fmt.Sprintf("CREATE TABLE t%d (id int, v %s)", i, definition))
		for n, v := range append(c.values, [2]string{"NULL", ""}) {
			statements = append(statements, fmt.Sprintf("INSERT INTO t%d VALUES (%d, %s)", i, n, v[0]))
		}
	}
	s, catalog := newFixtureOn(t, server, statements...).begun()
	for i, c := range cases {
		if !runsOn(c.only, has) {
			continue
		}
		var want []string
		for n, v := range c.values {
			want = append(want, fmt.Sprintf(`{"id":%d,"v":%s}`, n, v[1]))
		}
		want = append(want, fmt.Sprintf(`{"id":%d,"v":null}`, len(c.values)))
		if diff := cmp.Diff(want, sourcetest.Read(t, s, catalog, fmt.Sprintf("t%d", i), []string{"*"})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.typ, diff)
		}
	}
}

func runsOn(only string, has []string) bool { return only == "" || slices.Contains(has, only) }
