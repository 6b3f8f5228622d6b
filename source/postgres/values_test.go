package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/source"
)

func asSource(err error, target **source.Error) bool { return errors.As(err, target) }

// valueCase is one type with literals and the JSON that they must become.
type valueCase struct {
	typ    string
	setup  string // DDL before
	values [][2]string
}

func valueCases() []valueCase {
	return []valueCase{
		{typ: "boolean", values: [][2]string{{"true", "true"}, {"false", "false"}}},
		{typ: "smallint", values: [][2]string{{"-32768", "-32768"}, {"0", "0"}, {"32767", "32767"}}},
		{typ: "integer", values: [][2]string{{"-2147483648", "-2147483648"}, {"0", "0"}, {"2147483647", "2147483647"}}},
		{typ: "bigint", values: [][2]string{
			{"'-9223372036854775808'", "-9223372036854775808"}, {"0", "0"},
			{"9007199254740993", "9007199254740993"}, {"9223372036854775807", "9223372036854775807"},
		}},
		{typ: "oid", values: [][2]string{{"0", "0"}, {"4294967295", "4294967295"}}},
		{typ: "numeric", values: [][2]string{
			{"10.50", `"10.50"`}, {"0", `"0"`}, {"0.000", `"0.000"`}, {"-0.0000000000000000000000000000000001", `"-0.0000000000000000000000000000000001"`},
			{"'1e40'", `"10000000000000000000000000000000000000000"`}, {"'NaN'", `"NaN"`},
			{"'Infinity'", `"Infinity"`}, {"'-Infinity'", `"-Infinity"`},
			{"90071992547409939007199254740993.123456789012345678901234567890", `"90071992547409939007199254740993.123456789012345678901234567890"`},
		}},
		{typ: "numeric(10,2)", values: [][2]string{{"99999999.99", `"99999999.99"`}, {"-1", `"-1.00"`}, {"0", `"0.00"`}}},
		{typ: "money", values: [][2]string{
			{"'92233720368547758.07'", `"92233720368547758.07"`}, {"'-92233720368547758.08'", `"-92233720368547758.08"`},
			{"'0'", `"0.00"`}, {"'-0.05'", `"-0.05"`}, {"'1234.5'", `"1234.50"`},
		}},
		{typ: "real", values: [][2]string{
			{"0.1", "0.1"}, {"'-0'", "-0"}, {"0", "0"}, {"16777216", "1.6777216e+07"}, {"1e-45", "1e-45"},
			{"3.4028235e38", "3.4028235e+38"}, {"'NaN'", `"NaN"`}, {"'Infinity'", `"Infinity"`}, {"'-Infinity'", `"-Infinity"`},
			{"999999", "999999"}, {"0.0001", "0.0001"}, {"0.00001", "1e-05"},
		}},
		{typ: "double precision", values: [][2]string{
			{"0.1", "0.1"}, {"'-0'", "-0"}, {"0", "0"}, {"9007199254740993", "9.007199254740992e+15"}, {"5e-324", "5e-324"},
			{"1.7976931348623157e308", "1.7976931348623157e+308"}, {"'NaN'", `"NaN"`},
			{"'Infinity'", `"Infinity"`}, {"'-Infinity'", `"-Infinity"`},
			{"999999999999999", "999999999999999"}, {"1e15", "1e+15"}, {"1e20", "1e+20"}, {"0.30000000000000004", "0.30000000000000004"},
			{"0.0001", "0.0001"}, {"-0.00001234", "-1.234e-05"},
		}},
		{typ: "text", values: [][2]string{
			{"''", `""`}, {"'plain'", `"plain"`}, {`'a "quote" and \ backslash'`, `"a \"quote\" and \\ backslash"`},
			{`E'tab\tline\ncr\rbell\x07del\x7f'`, `"tab\tline\ncr\rbell\u0007del` + "\x7f" + `"`},
			{"'emoji 🦊 – ümläut 漢字'", `"emoji 🦊 – ümläut 漢字"`}, {"'NULL'", `"NULL"`}, {"'{a,b}'", `"{a,b}"`}, {"'(1,2)'", `"(1,2)"`},
			{"' '", `" "`}, {"'exactly8'", `"exactly8"`}, {"'nine char'", `"nine char"`}, {"repeat('x', 20) || '\"'", `"xxxxxxxxxxxxxxxxxxxx\""`},
			{`E'\u2028'`, "\"\u2028\""},
		}},
		{typ: "varchar(20)", values: [][2]string{{"''", `""`}, {"'né'", `"né"`}, {"'trailing  '", `"trailing  "`}}},
		{typ: "char(5)", values: [][2]string{{"'ab'", `"ab   "`}, {"''", `"     "`}, {"'éé'", `"éé   "`}}},
		{typ: `"char"`, values: [][2]string{{"'a'", `"a"`}, {"''", `""`}}},
		{typ: "name", values: [][2]string{{"'Some Name'", `"Some Name"`}}},
		{typ: "xml", values: [][2]string{{"'<a b=\"c\">é</a>'", `"<a b=\"c\">é</a>"`}}},
		{typ: "uuid", values: [][2]string{
			{"'00000000-0000-0000-0000-000000000000'", `"00000000-0000-0000-0000-000000000000"`},
			{"'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`},
			{"'ffffffff-ffff-ffff-ffff-ffffffffffff'", `"ffffffff-ffff-ffff-ffff-ffffffffffff"`},
		}},
		{typ: "date", values: [][2]string{
			{"'2024-02-29'", `"2024-02-29"`}, {"'2000-01-01'", `"2000-01-01"`}, {"'1999-12-31'", `"1999-12-31"`}, {"'0001-01-01'", `"0001-01-01"`},
			{"'0001-12-31 BC'", `"0001-12-31 BC"`}, {"'0044-03-15 BC'", `"0044-03-15 BC"`}, {"'4714-11-24 BC'", `"4714-11-24 BC"`},
			{"'9999-12-31'", `"9999-12-31"`}, {"'10000-01-01'", `"10000-01-01"`}, {"'5874897-12-31'", `"5874897-12-31"`},
			{"'infinity'", `"infinity"`}, {"'-infinity'", `"-infinity"`}, {"'1900-02-28'", `"1900-02-28"`}, {"'1900-03-01'", `"1900-03-01"`},
		}},
		{typ: "timestamp", values: [][2]string{
			{"'2024-01-31 10:00:00'", `"2024-01-31T10:00:00"`}, {"'2024-01-31 23:59:59.999999'", `"2024-01-31T23:59:59.999999"`},
			{"'2024-01-31 00:00:00.1'", `"2024-01-31T00:00:00.1"`}, {"'2024-01-31 00:00:00.000010'", `"2024-01-31T00:00:00.00001"`},
			{"'1999-12-31 23:59:59.5'", `"1999-12-31T23:59:59.5"`}, {"'0044-03-15 10:00:00 BC'", `"0044-03-15T10:00:00 BC"`},
			{"'4714-11-24 00:00:00 BC'", `"4714-11-24T00:00:00 BC"`}, {"'12345-06-07 08:09:10'", `"12345-06-07T08:09:10"`},
			{"'294276-12-31 23:59:59.999999'", `"294276-12-31T23:59:59.999999"`},
			{"'infinity'", `"infinity"`}, {"'-infinity'", `"-infinity"`},
		}},
		{typ: "timestamp(0)", values: [][2]string{{"'2024-01-31 10:00:00.6'", `"2024-01-31T10:00:01"`}}},
		{typ: "timestamptz", values: [][2]string{
			{"'2024-01-31 10:00:00+02'", `"2024-01-31T08:00:00Z"`}, {"'2024-01-31 10:00:00.25Z'", `"2024-01-31T10:00:00.25Z"`},
			{"'0044-03-15 10:00:00Z BC'", `"0044-03-15T10:00:00Z BC"`}, {"'10000-01-01 00:00:00Z'", `"10000-01-01T00:00:00Z"`},
			{"'1900-01-01 00:00:00Z'", `"1900-01-01T00:00:00Z"`}, {"'infinity'", `"infinity"`}, {"'-infinity'", `"-infinity"`},
		}},
		{typ: "time", values: [][2]string{{"'00:00:00'", `"00:00:00"`}, {"'23:59:59.999999'", `"23:59:59.999999"`}, {"'24:00:00'", `"24:00:00"`}, {"'10:11:12.500'", `"10:11:12.5"`}}},
		{typ: "timetz", values: [][2]string{
			{"'10:00:00+02'", `"10:00:00+02:00"`}, {"'10:00:00.5Z'", `"10:00:00.5Z"`}, {"'10:00:00-03:30'", `"10:00:00-03:30"`}, {"'00:00:00+05:30:15'", `"00:00:00+05:30:15"`},
			{"'24:00:00-15:59'", `"24:00:00-15:59"`},
		}},
		{typ: "interval", values: [][2]string{
			{"'0'", `"PT0S"`}, {"'-1 year -2 mons +3 days -04:05:06'", `"P-1Y-2M3DT-4H-5M-6S"`}, {"'1.5 seconds'", `"PT1.5S"`},
			{"'178000000 years'", `"P178000000Y"`}, {"'1 day'", `"P1D"`},
		}},
		{typ: "bytea", values: [][2]string{{"''", `""`}, {`'\x00ff10'`, `"AP8Q"`}, {`'\xdeadbeef'`, `"3q2+7w=="`}}},
		{typ: "bit(3)", values: [][2]string{{"B'101'", `"101"`}}},
		{typ: "bit varying", values: [][2]string{{"B''", `""`}, {"B'0001'", `"0001"`}}},
		{typ: "json", values: [][2]string{
			{`'{"b": 1.10, "a": [1,2], "b": "\u00e9"}'`, `{"b": 1.10, "a": [1,2], "b": "\u00e9"}`}, {"'null'", "null"}, {"'\"text\"'", `"text"`},
			{"E'{\\n  \"a\":\\t1}'", `{   "a": 1}`}, {"'123456789012345678901234567890.10'", "123456789012345678901234567890.10"},
		}},
		{typ: "jsonb", values: [][2]string{
			{`'{"b": 1.10, "a": "é\n"}'`, `{"a": "é\n", "b": 1.10}`}, {"'null'", "null"}, {"'[]'", "[]"}, {"'9007199254740993'", "9007199254740993"},
		}},
		{typ: "inet", values: [][2]string{{"'10.1.2.3'", `"10.1.2.3"`}, {"'10.1.2.3/8'", `"10.1.2.3/8"`}, {"'2001:db8::1'", `"2001:db8::1"`}}},
		{typ: "cidr", values: [][2]string{{"'10.0.0.0/8'", `"10.0.0.0/8"`}, {"'2001:db8::/32'", `"2001:db8::/32"`}}},
		{typ: "macaddr", values: [][2]string{{"'08:00:2B:01:02:03'", `"08:00:2b:01:02:03"`}}},
		{typ: "macaddr8", values: [][2]string{{"'08:00:2B:01:02:03:04:05'", `"08:00:2b:01:02:03:04:05"`}}},
		{typ: "int4range", values: [][2]string{{"'[1,5)'", `"[1,5)"`}, {"'empty'", `"empty"`}}},
		{typ: "tstzrange", values: [][2]string{{"'[2024-01-01 00:00:00Z,)'", `"[\"2024-01-01 00:00:00+00\",)"`}}},
		{typ: "tsvector", values: [][2]string{{"'a:1 fat:2'", `"'a':1 'fat':2"`}}},
		{typ: "point", values: [][2]string{{"'(1.5,2)'", `"(1.5,2)"`}}},
		{typ: "box", values: [][2]string{{"'(1,1),(0,0)'", `"(1,1),(0,0)"`}}},
		{typ: "pg_lsn", values: [][2]string{{"'16/B374D848'", `"16/B374D848"`}}},
		{typ: "xid", values: [][2]string{{"'42'", `"42"`}}},
		{typ: "regclass", values: [][2]string{{"'pg_catalog.pg_class'", `"pg_class"`}}},
		{typ: "int2vector", values: [][2]string{{"'1 2 3'", `"1 2 3"`}}},
		{typ: "mood", setup: "CREATE TYPE mood AS ENUM ('sad', 'so \"so\"', 'glücklich')", values: [][2]string{{"'sad'", `"sad"`}, {`'so "so"'`, `"so \"so\""`}, {"'glücklich'", `"glücklich"`}}},
		{typ: "posint", setup: "CREATE DOMAIN posint AS bigint CHECK (value > 0)", values: [][2]string{{"9007199254740993", "9007199254740993"}}},
		{typ: "price", setup: "CREATE DOMAIN price0 AS numeric(12,3); CREATE DOMAIN price AS price0", values: [][2]string{{"1.5", `"1.500"`}}},
		{typ: "tags", setup: "CREATE DOMAIN tags AS text[]", values: [][2]string{{`'{a,"b c"}'`, `["a","b c"]`}}},
		{
			typ: "pair", setup: `CREATE TYPE pair AS (id int, "Weird ""Name""" text, "at" timestamptz, raw bytea, tags text[])`,
			values: [][2]string{
				{`ROW(1, 'a "b" \ c', '2024-01-01Z', '\x00ff', '{x,"y z",NULL}')`, `{"id":1,"Weird \"Name\"":"a \"b\" \\ c","at":"2024-01-01T00:00:00Z","raw":"AP8=","tags":["x","y z",null]}`},
				{"ROW(NULL, '', NULL, '', '{}')", `{"id":null,"Weird \"Name\"":"","at":null,"raw":"","tags":[]}`},
				{"ROW(NULL, nullif(1, 1)::text, NULL, nullif(1, 1)::text::bytea, NULL)", `{"id":null,"Weird \"Name\"":null,"at":null,"raw":null,"tags":null}`},
				{"ROW(1, '(a,\"b\")', NULL, nullif('', '')::bytea, ARRAY['{\"q\"}'])", `{"id":1,"Weird \"Name\"":"(a,\"b\")","at":null,"raw":null,"tags":["{\"q\"}"]}`},
				{"ROW(1, ',', NULL, nullif('', '')::bytea, ARRAY[''])", `{"id":1,"Weird \"Name\"":",","at":null,"raw":null,"tags":[""]}`},
			},
		},
		{
			typ: "outer_pair", setup: `CREATE TYPE outer_pair AS (p pair, ps pair[], d posint, e mood)`,
			values: [][2]string{{
				`ROW(ROW(1, '"', NULL, nullif('', '')::bytea, '{"\""}'), ARRAY[ROW(2, 'x,y', NULL, '\x01', NULL)::pair, NULL], 7, 'so "so"')`,
				`{"p":{"id":1,"Weird \"Name\"":"\"","at":null,"raw":null,"tags":["\""]},"ps":[{"id":2,"Weird \"Name\"":"x,y","at":null,"raw":"AQ==","tags":null},null],"d":7,"e":"so \"so\""}`,
			}},
		},
		{typ: "empty_pair", setup: "CREATE TYPE empty_pair AS ()", values: [][2]string{{"ROW()", "{}"}}},
	}
}

// TestValues reads every type as a column, as an array's element and as a composite's attribute.
func TestValues(t *testing.T) {
	t.Parallel()
	cases := valueCases()
	var ddl []string
	for i, c := range cases {
		if c.setup != "" {
			ddl = append(ddl, c.setup)
		}
		ddl = append(ddl, fmt.Sprintf("CREATE TYPE wrap_%d AS (a int, v %s, z int)", i, c.typ))
		ddl = append(ddl, fmt.Sprintf("CREATE TABLE t_%d (id int, v %s, list %s[], w wrap_%d)", i, c.typ, c.typ, i))
		for j, v := range c.values {
			ddl = append(ddl, fmt.Sprintf("INSERT INTO t_%d SELECT %d, x, ARRAY[x, NULL, x]::%s[], ROW(1, x, 2)::wrap_%d FROM (SELECT (%s)::%s AS x) s",
				i, j, c.typ, i, v[0], c.typ))
		}
	}
	f := newFixture(t, ddl...)
	s, catalog := f.begun()
	for i, c := range cases {
		var got, want []string
		for j, v := range c.values {
			want = append(want, fmt.Sprintf(`{"id":%d,"v":%s,"list":[%s,null,%s],"w":{"a":1,"v":%s,"z":2}}`, j, v[1], v[1], v[1], v[1]))
		}
		got = read(t, s, catalog, fmt.Sprintf("t_%d", i), []string{"*"})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.typ, diff)
		}
		for _, g := range got {
			if !json.Valid([]byte(g)) {
				t.Errorf("%s: not JSON: %s", c.typ, g)
			}
		}
	}
}
