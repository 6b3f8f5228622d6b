package source_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/source"
)

func values(texts ...string) []jsontext.Value {
	out := make([]jsontext.Value, 0, len(texts))
	for _, s := range texts {
		out = append(out, jsontext.Value(s))
	}
	return out
}

func TestValidateShape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op     source.Op
		values []string
		want   string // of the errors
	}{
		{"eq", []string{"1"}, ""}, {"eq", []string{"1", `"a"`, "true"}, ""}, {"eq", nil, "filter f eq: takes at least one value"},
		{"gt", []string{"1", "2"}, "filter f gt: takes exactly one value"}, {"between", []string{"1"}, "filter f between: takes exactly two values"},
		{"between", []string{"1", "2"}, ""}, {"like", []string{"1"}, "filter f like[0]: must be a string"}, {"like", []string{`"a\\"`}, "filter f like[0]: must not end in a single backslash"},
		{"like", []string{`"a\\\\"`}, ""}, {"isNull", []string{"true"}, ""}, {"isNull", []string{`"true"`}, "filter f isNull[0]: must be a boolean"}, {"isNull", []string{"null"}, "filter f isNull[0]: must be a boolean"},
		{"in", []string{"1", "null", "{}", "[1]"}, "filter f in[1]: must not be null; use isNull\nfilter f in[2]: must be a string, number or boolean\nfilter f in[3]: must be a string, number or boolean"},
		{"eq", []string{`"a\u0000b"`}, "filter f eq[0]: must not contain NUL"}, {"EQ", []string{"1"}, "filter f EQ: unknown operator"}, {"", []string{"1"}, "filter f : unknown operator"},
	} {
		err := source.ValidateShape([]source.Condition{{Field: "f", Op: c.op, Values: values(c.values...)}})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s %v: got %q, want %q", c.op, c.values, got, c.want)
		}
	}
}

func TestFilterErrors(t *testing.T) {
	t.Parallel()
	err := source.ValidateShape([]source.Condition{
		{Field: "a", Op: "eq", Values: values("null", "1", "{}")}, {Field: "b", Op: "eq", Values: values("1")}, {Field: "c", Op: "between"},
	})
	faults := source.FilterErrors(err)
	got := make([]string, 0, len(faults))
	for _, e := range faults {
		got = append(got, fmt.Sprint(e.Field, e.Position))
	}
	if diff := cmp.Diff([]string{"a0", "a2", "c-1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if source.FilterErrors(errors.New("other")) != nil || source.FilterErrors(nil) != nil {
		t.Error("made up errors")
	}
}

// columnOf makes columns of every family.
func columnOf(family source.Family) *source.Column {
	c := &source.Column{Name: "f", Family: family}
	switch family {
	case source.FamilyEnum:
		c.Labels = []string{"sad", "ok"}
	case source.FamilyTimestamp, source.FamilyTimestampTZ, source.FamilyTime, source.FamilyTimeTZ:
		c.Fraction = 6
	}
	return c
}

// TestConvert gives values to columns: what they become, or "!" when they don't fit.
func TestConvert(t *testing.T) {
	t.Parallel()
	for family, cases := range map[source.Family]map[string]string{
		source.FamilyInt: {
			"1": "1", "-1": "-1", "0": "0", "-0": "0", `"12"`: "12", `"+12"`: "12", `"007"`: "7", "1.0": "1", "1e3": "1000", "1.5e1": "15", "10e-1": "1",
			"9223372036854775807": "9223372036854775807", "9223372036854775808": "!", "-9223372036854775808": "-9223372036854775808", "-9223372036854775809": "!",
			"1.5": "!", "15e-1": "!", `"1.5"`: "!", "true": "!", `""`: "!", `" 1"`: "!", `"1 "`: "!", `"0x1"`: "!", `"1_000"`: "!", `"١"`: "!", "1e400": "!", `"-"`: "!", `"1e"`: "!", `"1e+"`: "!", `"1e+-1"`: "!", `"NaN"`: "!",
			"1e99999999999999999999": "!", "0e99999999": "!",
		},
		source.FamilyDecimal: {
			"10.50": "10.5", `"10.50"`: "10.5", "0.1": "0.1", "-0.10": "-0.1", "-0.0": "0", "1e-7": "0.0000001", "12.5e1": "125", "9007199254740993.0000000000000000001": "9007199254740993.0000000000000000001",
			`"NaN"`: "!", `".5"`: "!", `"5."`: "!", "1e999": "1" + strings.Repeat("0", 999), "1e1001": "!", "1e-1001": "!", `"1,5"`: "!", "false": "!",
		},
		source.FamilyFloat: {
			"0.1": "0.1", `"1e5"`: "1e5", "1e308": "1e308", "1e309": "!", "1e-324": "!", "0e5": "0e5", `"NaN"`: "!", `"Infinity"`: "!", `"0x1p1"`: "!", `"inf"`: "!",
		},
		source.FamilyText:     {`"a"`: "a", `""`: "", `"é\"\\"`: `é"\`, "1": "!", "true": "!"},
		source.FamilyBool:     {"true": "true", "false": "false", `"true"`: "true", `"false"`: "false", `"TRUE"`: "!", "1": "!", `"1"`: "!", `"t"`: "!"},
		source.FamilyEnum:     {`"ok"`: "ok", `"OK"`: "!", `""`: "!", "1": "!"},
		source.FamilyUUID:     {`"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"`: "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", `"a0eebc999c0b4ef8bb6d6bb9bd380a11"`: "!", `"{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"`: "!", `"g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`: "!", "1": "!"},
		source.FamilyObjectID: {`"507F1f77bcf86cd799439011"`: "507f1f77bcf86cd799439011", `"507f1f77bcf86cd79943901"`: "!", `"507f1f77bcf86cd79943901z"`: "!"},
		source.FamilyBinary:   {`"AP8="`: "bytes 00ff", `""`: "bytes ", `"AP8"`: "!", `"AP9="`: "!", `"AP8=\n"`: "!", `"_-8="`: "!", "1": "!"},
		source.FamilyBits:     {`"0101"`: "0101", `""`: "", `"012"`: "!"},
		source.FamilyDate: {
			`"2024-02-29"`: "2024-02-29", `"2023-02-29"`: "!", `"2024-00-01"`: "!", `"2024-13-01"`: "!", `"2024-01-32"`: "!", `"10000-01-01"`: "10000-01-01", `"0000-01-01"`: "!", `"0001-01-01"`: "0001-01-01",
			`"2024-1-1"`: "!", `"20240101"`: "!", `"2024-01-01T00:00:00"`: "!", `"infinity"`: "!", `" 2024-01-01"`: "!", "20240101": "!",
		},
		source.FamilyTimestamp: {
			`"2024-01-31"`: "day 2024-01-31", `"2024-01-31T10:00:00"`: "2024-01-31T10:00:00", `"2024-01-31 10:00"`: "2024-01-31T10:00:00", `"2024-01-31T10:00:00.500"`: "2024-01-31T10:00:00.5", `"2024-01-31T10:00:00.123456"`: "2024-01-31T10:00:00.123456",
			`"2024-01-31T10:00:00.1234567"`: "!", `"2024-01-31T10:00:00.1234560"`: "2024-01-31T10:00:00.123456", `"2024-01-31T10:00:00Z"`: "!", `"2024-01-31T10:00:00+02:00"`: "!", `"2024-01-31T24:00:00"`: "!", `"2024-01-31T23:60:00"`: "!", `"2024-01-31T23:59:60"`: "!",
			`"2024-01-31T"`: "!", `"2024-01-31T10"`: "!", `"2024-01-31T10:00:00."`: "!", `"2024-01-31  10:00"`: "!", `"infinity"`: "!", `"12024-01-31T10:00:00"`: "12024-01-31T10:00:00",
		},
		source.FamilyTimestampTZ: {
			`"2024-01-31"`: "day 2024-01-31", `"2024-01-31T10:00:00"`: "2024-01-31T10:00:00Z", `"2024-01-31T10:00:00Z"`: "2024-01-31T10:00:00Z", `"2024-01-31t10:00:00z"`: "!", `"2024-01-31T10:00:00z"`: "2024-01-31T10:00:00Z", `"2024-01-31T00:30:00+02:00"`: "2024-01-30T22:30:00Z",
			`"2024-12-31 23:30:00-0130"`: "2025-01-01T01:00:00Z", `"2024-01-31T10:00:00+02"`: "2024-01-31T08:00:00Z", `"2024-01-31T10:00:00+2"`: "!", `"2024-01-31T10:00:00+99:00"`: "!", `"2024-01-31T10:00:00+02:60"`: "!", `"0001-01-01T00:00:00+01:00"`: "!", `"2024-01-31Z"`: "!", `"2024-01-31T10:00:00+02:"`: "!", `"2024-01-31T10:00Z"`: "2024-01-31T10:00:00Z",
		},
		source.FamilyTime:     {`"10:00"`: "10:00:00", `"23:59:59.9"`: "23:59:59.9", `"24:00:00"`: "24:00:00", `"24:00:01"`: "!", `"1:00"`: "!", `"10:00:00Z"`: "!", `"-10:00"`: "!", `"10:00:00.1234567"`: "!"},
		source.FamilyTimeTZ:   {`"10:00"`: "10:00:00Z", `"10:00:00+02"`: "10:00:00+02:00", `"10:00:00-03:30"`: "10:00:00-03:30", `"10:00:00 +02"`: "!"},
		source.FamilyInterval: {`"P1D"`: "P1D", `"-P1Y2M"`: "-P1Y2M", `"P-1Y-2M3DT-4H-5M-6.5S"`: "P-1Y-2M3DT-4H-5M-6.5S", `"PT0S"`: "PT0S", `"P"`: "!", `"PT"`: "!", `"P1DT"`: "!", `"1 day"`: "!", `"P1M1Y"`: "!", `"P1"`: "!", `"P1W"`: "P1W", `"P1S"`: "!"},
		source.FamilyNetwork:  {`"10.0.0.1"`: "10.0.0.1", "1": "!"},
	} {
		table := &source.Table{Columns: []source.Column{*columnOf(family)}}
		for value, want := range cases {
			if got := convertOne(table, value); got != want {
				t.Errorf("family %d, %s: got %q, want %q", family, value, got, want)
			}
		}
	}
}

// convertOne shows what a value becomes for the table's only column.
func convertOne(table *source.Table, value string) string {
	p, err := source.Compile(table, []source.Condition{{Field: "f", Op: source.OpEq, Values: values(value)}})
	switch {
	case err != nil && len(source.FilterErrors(err)) == 1 && source.FilterErrors(err)[0].Position == 0:
		return "!"
	case err != nil:
		return err.Error()
	}
	o := p[0].Values[0]
	switch {
	case o.DayOnly:
		return "day " + o.Text
	case o.Bytes != nil:
		return fmt.Sprintf("bytes %x", o.Bytes)
	case table.Columns[0].Family == source.FamilyBool:
		return fmt.Sprint(o.Bool)
	}
	return o.Text
}

func TestConvertByColumn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		column source.Column
		value  string
		want   string
	}{
		{source.Column{Family: source.FamilyInt, Bits: 16}, "32767", "32767"},
		{source.Column{Family: source.FamilyInt, Bits: 16}, "32768", "!"},
		{source.Column{Family: source.FamilyInt, Unsigned: true}, "18446744073709551615", "18446744073709551615"},
		{source.Column{Family: source.FamilyInt, Unsigned: true}, "18446744073709551616", "!"},
		{source.Column{Family: source.FamilyInt, Unsigned: true}, "-1", "!"},
		{source.Column{Family: source.FamilyInt, Unsigned: true, Bits: 32}, "4294967296", "!"},
		{source.Column{Family: source.FamilyFloat, Bits: 32}, "1e39", "!"},
		{source.Column{Family: source.FamilyFloat, Wide: true}, `"-Infinity"`, "-Infinity"},
		{source.Column{Family: source.FamilyDecimal, Wide: true}, `"NaN"`, "NaN"},
		{source.Column{Family: source.FamilyDate, Wide: true}, `"-infinity"`, "-infinity"},
		{source.Column{Family: source.FamilyTimestamp, Wide: true}, `"infinity"`, "infinity"},
		{source.Column{Family: source.FamilyTimestamp}, `"2024-01-01T00:00:00.123456789"`, "2024-01-01T00:00:00.123456789"},
		{source.Column{Family: source.FamilyTimestamp, Fraction: 7}, `"2024-01-01T00:00:00.12345678"`, "!"},
		{source.Column{Family: source.FamilyTime, Wide: true}, `"-838:59:59"`, "-838:59:59"},
		{source.Column{Family: source.FamilyTime, Wide: true}, `"839:00:00"`, "!"},
		{source.Column{Family: source.FamilyText, Native: picky{}}, `"no"`, "!"},
		{source.Column{Family: source.FamilyText, Native: picky{}}, `"yes"`, "yes"},
	} {
		c.column.Name = "f"
		if got := convertOne(&source.Table{Columns: []source.Column{c.column}}, c.value); got != c.want {
			t.Errorf("%+v, %s: got %q, want %q", c.column, c.value, got, c.want)
		}
	}
}

// picky is a type that doesn't take every text.
type picky struct{}

func (picky) CheckOperand(o source.Operand) bool { return o.Text == "yes" }

func TestCompile(t *testing.T) {
	t.Parallel()
	table := &source.Table{Columns: []source.Column{
		{Name: "id", Family: source.FamilyInt}, {Name: "Paid", Family: source.FamilyBool}, {Name: "doc", Family: source.FamilyJSON},
		{Name: "list", Family: source.FamilyArray}, {Name: "shape", Family: source.FamilyOther}, {Name: "name", Family: source.FamilyText}, {Name: "pair", Family: source.FamilyComposite},
	}}
	predicates, err := source.Compile(table, []source.Condition{
		{Field: "paid", Op: "eq", Values: values("true")}, {Field: "doc", Op: "isNull", Values: values("false")}, {Field: "id", Op: "in", Values: values("1", `"2"`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []source.Predicate{
		{Column: &table.Columns[1], Op: "eq", Values: []source.Operand{{Bool: true}}}, {Column: &table.Columns[2], Op: "isNull", Values: []source.Operand{{}}},
		{Column: &table.Columns[0], Op: "in", Values: []source.Operand{{Text: "1"}, {Text: "2"}}},
	}
	if diff := cmp.Diff(want, predicates); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	_, err = source.Compile(table, []source.Condition{
		{Field: "nope", Op: "eq", Values: values("1")}, {Field: "id", Op: "in", Values: values("1", "1.5", `"x"`)}, {Field: "doc", Op: "eq", Values: values("1")},
		{Field: "list", Op: "ne", Values: values("1")}, {Field: "shape", Op: "eq", Values: values(`"x"`)}, {Field: "pair", Op: "gt", Values: values(`"x"`)},
		{Field: "id", Op: "like", Values: values(`"1%"`)}, {Field: "name", Op: "like", Values: values(`"1%"`)}, {Field: "id", Op: "much", Values: values("1")},
	})
	wantErrors := []string{
		`"nope": field not found`, "filter id in[1]: does not fit an integer of the field's size", "filter id in[2]: does not fit an integer of the field's size",
		"filter doc eq: the field's type takes only isNull", "filter list ne: the field's type takes only isNull", "filter shape eq: the field's type takes only isNull",
		"filter pair gt: the field's type takes only isNull", "filter id like: like needs a text field", "filter id much: unknown operator",
	}
	if diff := cmp.Diff(wantErrors, strings.Split(fmt.Sprint(err), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !errors.Is(err, source.ErrColumnUnknown) || len(source.FilterErrors(err)) != len(wantErrors)-1 {
		t.Errorf("%d filter errors", len(source.FilterErrors(err)))
	}
}

func TestNextDay(t *testing.T) {
	t.Parallel()
	for day, want := range map[string]string{"2024-02-28": "2024-02-29", "2023-12-31": "2024-01-01", "9999-12-31": "10000-01-01", "0001-01-01": "0001-01-02"} {
		if got := (source.Operand{Text: day, DayOnly: true}).NextDay(); got != want {
			t.Errorf("%s: %s", day, got)
		}
	}
}

// TestSecretsDoNotPrint formats parameters in every way that logs use.
func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	p := source.Params{Kind: source.PostgreSQL, Host: "db.example", User: "user", Password: "hunter2", TLS: source.TLS{Key: "hunter2"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(format, p); strings.Contains(got, "hunter2") || strings.Contains(got, "db.example") {
			t.Errorf("%s: %s", format, got)
		}
	}
	if got := p.LogValue().String(); got != "POSTGRESQL" {
		t.Errorf("logged as %s", got)
	}
	err := &source.Error{Category: source.CategoryAuth, Err: errors.New("password hunter2")}
	if err.Error() != "source: auth" || errors.Unwrap(err) == nil {
		t.Errorf("error: %v", err)
	}
}

// FuzzCompile gives any value to a column of every family: it fits or not, and its text is in the family's alphabet.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{`"2024-01-31T10:00:00+02:00"`, "1.5e10", `"AP8="`, "true", `"P1DT2H"`, `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `"10:00:00-03:30"`, "-0.000001", `"\u0000"`, "1e1000"} {
		for family := source.FamilyOther; family <= source.FamilyComposite; family++ {
			f.Add(int(family), "eq", []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, family int, op string, value []byte) {
		if !jsontext.Value(value).IsValid() {
			t.Skip()
		}
		table := &source.Table{Columns: []source.Column{*columnOf(source.Family(family))}}
		p, err := source.Compile(table, []source.Condition{{Field: "f", Op: source.Op(op), Values: []jsontext.Value{value}}})
		if err != nil {
			if len(source.FilterErrors(err)) != 1 {
				t.Errorf("%s: %v", value, err)
			}
			return
		}
		text := p[0].Values[0].Text
		alphabets := map[source.Family]string{
			source.FamilyInt: "-0123456789", source.FamilyDecimal: "-.0123456789", source.FamilyFloat: "+-.eE0123456789", source.FamilyUUID: "-0123456789abcdef",
			source.FamilyDate: "-0123456789", source.FamilyTimestamp: "-:.T0123456789", source.FamilyTimestampTZ: "-:.TZ0123456789",
			source.FamilyTime: ":.0123456789", source.FamilyTimeTZ: "+-:.Z0123456789", source.FamilyInterval: "+-.,PYMWDTHS0123456789", source.FamilyBits: "01",
		}
		if alphabet, ok := alphabets[source.Family(family)]; ok && strings.Trim(text, alphabet) != "" {
			t.Errorf("%s became %q", value, text)
		}
		if len(text) > len(value)+2100 {
			t.Errorf("%s became %d bytes", value, len(text))
		}
	})
}
