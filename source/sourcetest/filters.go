package sourcetest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/source"
)

// filterCase is a table with one value per row, its ids from 1, and what conditions find in it.
type filterCase struct {
	table  string
	column string
	typ    Type
	needs  Feature
	values []string
	finds  []find
}

// find is a condition and the ids of the rows that it must return.
type find struct {
	op     source.Op
	values string // JSON values with commas
	want   string // ids with blanks
}

func filterCases() []filterCase {
	return append(plainFilters(), timeFilters()...)
}

func plainFilters() []filterCase {
	return []filterCase{
		{table: "f_integer", column: "paid", typ: Integer, values: []string{"-9223372036854775808", "0", "1", "9007199254740992", "9007199254740993", "9223372036854775807", Null}, finds: []find{
			{"eq", `9007199254740993`, "5"}, {"eq", `"9007199254740993"`, "5"}, {"eq", `0, 1`, "2 3"}, {"eq", `1.0`, "3"}, {"eq", `1e0`, "3"}, {"eq", "-0", "2"},
			{"ne", `9007199254740993`, "1 2 3 4 6"}, {"ne", `0,1`, "1 4 5 6"}, {"gt", "1", "4 5 6"}, {"gte", "1", "3 4 5 6"}, {"lt", "1", "1 2"}, {"lte", "1", "1 2 3"},
			{"between", "0, 9007199254740992", "2 3 4"}, {"between", "1, 0", ""}, {"in", `"9223372036854775807", -9223372036854775808`, "1 6"}, {"nin", "0", "1 3 4 5 6"}, {"nin", "0, 1, 2", "1 4 5 6"},
			{"isNull", "true", "7"}, {"isNull", "false", "1 2 3 4 5 6"},
		}},
		{table: "f_decimal", column: "order", typ: Decimal, values: []string{"0.1", "0.10000000000000001", "12345678901234567.25", "12345678901234567.5", "-0.5", Null, "10"}, finds: []find{
			{"eq", "0.1", "1"}, {"eq", `"0.10000000000000001"`, "2"}, {"eq", "0.10000000000000001", "2"}, {"eq", "12345678901234567.25", "3"}, {"eq", `12345678901234567.25, "1e-1"`, "1 3"},
			{"gt", "12345678901234567.25", "4"}, {"gte", "12345678901234567.25", "3 4"}, {"lt", "0.10000000000000001", "1 5"}, {"lte", "0.10000000000000001", "1 2 5"}, {"ne", "0.1", "2 3 4 5 7"}, {"between", "-1, 0.1", "1 5"},
			{"in", `1e1, "-0.50"`, "5 7"}, {"nin", `0.1, 10`, "2 3 4 5"}, {"isNull", "true", "6"}, {"isNull", "false", "1 2 3 4 5 7"}, {"eq", "1000e-2", "7"},
		}},
		{table: "f_text", column: "Weird Name", typ: Text, values: []string{"abc", "a%c", "a_c", `a\c`, "100%", Null, "ABC", `é"'`, "{x}"}, finds: []find{
			{"eq", `"abc"`, "1"}, {"eq", `"é\"'", "{x}"`, "8 9"}, {"eq", `"' OR 1=1 --"`, ""}, {"ne", `"abc"`, "2 3 4 5 7 8 9"}, {"in", `"abc", "a\\c", "NULL"`, "1 4"},
			{"like", `"a%c"`, "1 2 3 4"}, {"like", `"a_c"`, "1 2 3 4"}, {"like", `"a\\%c"`, "2"}, {"like", `"a\\_c"`, "3"}, {"like", `"a\\\\c"`, "4"}, {"like", `"%\\%"`, "5"},
			{"like", `"abc"`, "1"}, {"like", `"%B%"`, "7"}, {"like", `"_"`, ""}, {"like", `"{%}"`, "9"}, {"like", `"%.%"`, ""}, {"like", `"%"`, "1 2 3 4 5 7 8 9"}, {"like", `"%'"`, "8"},
			{"nin", `"abc", "ABC"`, "2 3 4 5 8 9"}, {"gt", `"abc"`, "8 9"}, {"gte", `"abc"`, "1 8 9"}, {"lt", `"A"`, "5"}, {"lte", `"ABC"`, "5 7"}, {"between", `"a", "b"`, "1 2 3 4"}, {"isNull", "true", "6"}, {"isNull", "false", "1 2 3 4 5 7 8 9"},
		}},
		{table: "f_empty", column: "v", typ: Text, needs: EmptyText, values: []string{"", Null, "x"}, finds: []find{
			{"eq", `""`, "1"}, {"ne", `""`, "3"}, {"like", `""`, "1"}, {"like", `"%"`, "1 3"}, {"isNull", "true", "2"}, {"in", `"", "x"`, "1 3"},
		}},
		{table: "f_bool", column: "paid", typ: Boolean, values: []string{"true", "false", Null}, finds: []find{
			{"eq", "true", "1"}, {"eq", `"true"`, "1"}, {"eq", `true, false`, "1 2"}, {"ne", "true", "2"}, {"in", `true, "false"`, "1 2"}, {"nin", "false", "1"}, {"nin", "false, true", ""}, {"isNull", "true", "3"}, {"isNull", "false", "1 2"},
		}},
		{table: "f_order", column: "v", typ: Boolean, needs: OrderedBool, values: []string{"true", "false", Null}, finds: []find{
			{"gt", "false", "1"}, {"gte", "false", "1 2"}, {"lt", "true", "2"}, {"lte", "false", "2"}, {"between", "false, true", "1 2"},
		}},
		{table: "f_uuid", column: "order", typ: UUID, values: []string{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000", Null}, finds: []find{
			{"eq", `"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"`, "1"}, {"in", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"`, "1 2"}, {"nin", `"00000000-0000-0000-0000-000000000000"`, "1"},
			{"ne", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, "2"}, {"gt", `"00000000-0000-0000-0000-000000000000"`, "1"}, {"gte", `"00000000-0000-0000-0000-000000000000"`, "1 2"}, {"lt", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, "2"},
			{"lte", `"00000000-0000-0000-0000-000000000000"`, "2"}, {"between", `"00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, "1 2"}, {"isNull", "true", "3"}, {"isNull", "false", "1 2"},
		}},
		{table: "f_objectid", column: "order", typ: ObjectID, values: []string{"65f1a2b3c4d5e6f708192a3b", "000000000000000000000000", Null}, finds: []find{
			{"eq", `"65F1A2B3C4D5E6F708192A3B"`, "1"}, {"in", `"65f1a2b3c4d5e6f708192a3b", "000000000000000000000000"`, "1 2"}, {"nin", `"000000000000000000000000"`, "1"},
			{"ne", `"65f1a2b3c4d5e6f708192a3b"`, "2"}, {"gt", `"000000000000000000000000"`, "1"}, {"gte", `"000000000000000000000000"`, "1 2"}, {"lt", `"65f1a2b3c4d5e6f708192a3b"`, "2"},
			{"lte", `"000000000000000000000000"`, "2"}, {"between", `"000000000000000000000000", "65f1a2b3c4d5e6f708192a3b"`, "1 2"}, {"isNull", "true", "3"}, {"isNull", "false", "1 2"},
		}},
	}
}

func timeFilters() []filterCase {
	return []filterCase{
		{table: "f_date", column: "order", typ: Date, values: []string{"2024-01-30", "2024-01-31", "2024-02-01", Null}, finds: []find{
			{"eq", `"2024-01-31"`, "2"}, {"ne", `"2024-01-31"`, "1 3"}, {"gt", `"2024-01-31"`, "3"}, {"gte", `"2024-01-31"`, "2 3"}, {"lt", `"2024-01-31"`, "1"}, {"lte", `"2024-01-31"`, "1 2"}, {"between", `"2024-01-30", "2024-01-31"`, "1 2"},
			{"in", `"2024-02-01", "2024-01-30"`, "1 3"}, {"nin", `"2024-02-01", "2024-01-30"`, "2"}, {"isNull", "true", "4"}, {"isNull", "false", "1 2 3"},
		}},
		{table: "f_timestamp", column: "paid", typ: Timestamp, values: []string{"2024-01-30T23:59:59.999", "2024-01-31T00:00:00", "2024-01-31T12:00:00.5", "2024-01-31T23:59:59.999", "2024-02-01T00:00:00", Null}, finds: append(dayFinds(),
			find{"eq", `"2024-01-31 12:00:00.500"`, "3"}, find{"eq", `"2024-01-31T00:00"`, "2"}, find{"gt", `"2024-01-31T23:59:59.998"`, "4 5"}, find{"lte", `"2024-01-31T00:00:00"`, "1 2"},
			find{"between", `"2024-01-31", "2024-01-31T12:00:00.5"`, "2 3"}, find{"in", `"2024-01-30", "2024-01-31T12:00:00.5"`, "1 3"}, find{"nin", `"2024-01-31", "2024-02-01T00:00:00"`, "1"},
		)},
		{table: "f_instant", column: "paid", typ: TimestampTZ, values: []string{"2024-01-30T23:59:59.999Z", "2024-01-31T00:00:00Z", "2024-01-31T12:00:00.5Z", "2024-01-31T23:59:59.999Z", "2024-02-01T00:00:00Z", Null}, finds: append(dayFinds(),
			find{"eq", `"2024-01-31T12:00:00.5"`, "3"}, find{"eq", `"2024-01-31T14:00:00.500+02:00"`, "3"}, find{"eq", `"2024-01-30 19:00:00-0500"`, "2"}, find{"gte", `"2024-02-01T01:00:00+01:00"`, "5"}, find{"lt", `"2024-01-31T00:00:00Z"`, "1"},
			find{"between", `"2024-01-31", "2024-01-31T12:00:00.5Z"`, "2 3"}, find{"in", `"2024-01-30", "2024-01-31T12:00:00.5Z"`, "1 3"}, find{"nin", `"2024-01-31", "2024-02-01T00:00:00Z"`, "1"},
		)},
	}
}

// dayFinds has every operator with days, which stand for all of their moments.
func dayFinds() []find {
	return []find{
		{"eq", `"2024-01-31"`, "2 3 4"}, {"eq", `"2024-01-30", "2024-02-01"`, "1 5"}, {"ne", `"2024-01-31"`, "1 5"}, {"ne", `"2024-01-31", "2024-02-01"`, "1"}, {"gt", `"2024-01-31"`, "5"}, {"gte", `"2024-01-31"`, "2 3 4 5"},
		{"lt", `"2024-01-31"`, "1"}, {"lte", `"2024-01-31"`, "1 2 3 4"}, {"between", `"2024-01-30", "2024-01-31"`, "1 2 3 4"}, {"between", `"2024-01-31", "2024-01-31"`, "2 3 4"},
		{"in", `"2024-01-30", "2024-01-31"`, "1 2 3 4"}, {"in", `"2024-01-29"`, ""}, {"nin", `"2024-01-30", "2024-02-01"`, "2 3 4"}, {"nin", `"2024-01-31"`, "1 5"}, {"isNull", "true", "6"}, {"isNull", "false", "1 2 3 4 5"},
	}
}

func (b Backend) testFilters(t *testing.T) {
	d := b.New(t)
	cases := filterCases()
	for _, c := range cases {
		if !b.runs(c) {
			continue
		}
		fixture := Table{Name: c.table, Columns: []Column{{"id", Integer}, {c.column, c.typ}}}
		for i, v := range c.values {
			fixture.Rows = append(fixture.Rows, []string{strconv.Itoa(i + 1), v})
		}
		d.Create(t, fixture)
	}
	s, catalog := b.begin(t, d.Params)
	for _, c := range cases {
		t.Run(c.table, func(t *testing.T) { //nolint:paralleltest // one session
			b.needs(t, c.typ)
			if c.needs != "" {
				b.needs(t, c.needs)
			}
			for _, f := range c.finds {
				got := IDs(t, s, catalog, c.table, source.Condition{Field: c.column, Op: f.op, Values: Values(f.values)})
				if diff := cmp.Diff(f.want, got); diff != "" {
					t.Errorf("%s [%s] (-want +got):\n%s", f.op, f.values, diff)
				}
			}
		})
	}
}

func (b Backend) runs(c filterCase) bool { return b.has(c.typ) && (c.needs == "" || b.has(c.needs)) }

// testFiltersCombine joins conditions with AND, on fields that are selected and that are not.
func (b Backend) testFiltersCombine(t *testing.T) {
	d := b.New(t)
	d.Create(t, Table{
		Name:    "orders",
		Columns: []Column{{"id", Integer}, {"paid", Integer}, {"order", Integer}, {"select", Text}},
		Rows:    [][]string{{"1", "1", "10", "a"}, {"2", "1", "20", "b"}, {"3", "0", "10", "a"}, {"4", Null, "10", "a"}},
	})
	s, catalog := b.begin(t, d.Params)
	condition := func(field string, op source.Op, values string) source.Condition {
		return source.Condition{Field: field, Op: op, Values: Values(values)}
	}
	got := IDs(t, s, catalog, "orders", condition("paid", "eq", "1"), condition("ORDER", "in", "10, 20"), condition("select", "ne", `"b"`))
	if got != "1" {
		t.Errorf("got %q", got)
	}
	got = IDs(t, s, catalog, "orders", condition("paid", "ne", "1"), condition("order", "gte", "10"), condition("order", "lt", "11"))
	if got != "3" {
		t.Errorf("got %q", got)
	}
	got = IDs(t, s, catalog, "orders", condition("id", "ne", "1"), condition("id", "ne", "2"), condition("id", "nin", "4"))
	if got != "3" {
		t.Errorf("twice the same: got %q", got)
	}
}

// testLongLists gives more values than most protocols have parameters.
func (b Backend) testLongLists(t *testing.T) {
	if testing.Short() {
		t.Skip("gives 70,000 values")
	}
	d := b.New(t)
	d.Create(t, Table{Name: "n", Columns: []Column{{"id", Integer}}, Rows: [][]string{{"1"}, {"2"}, {"70000"}, {"70001"}}})
	s, catalog := b.begin(t, d.Params)
	numbers := make([]string, 0, 70000)
	for i := 2; i <= 70000; i++ {
		numbers = append(numbers, strconv.Itoa(i))
	}
	list := Values(strings.Join(numbers, ","))
	if got := IDs(t, s, catalog, "n", source.Condition{Field: "id", Op: source.OpIn, Values: list}); got != "2 70000" {
		t.Errorf("in: %q", got)
	}
	if got := IDs(t, s, catalog, "n", source.Condition{Field: "id", Op: source.OpNin, Values: list}); got != "1 70001" {
		t.Errorf("nin: %q", got)
	}
}
