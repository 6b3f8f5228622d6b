package postgres

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fetcherhq/fetcher/source/form"
)

// fuzzTypes are an array and a composite with every kind that text can nest.
func fuzzTypes(tb testing.TB) (array, composite *typ) {
	tb.Helper()
	scalar := func(oid uint32) *typ {
		t, ok := builtin(oid)
		if !ok {
			tb.Fatalf("type %d is not built in", oid)
		}
		t.scale = 2
		return &t
	}
	list := &typ{text: kindArray, delim: ',', element: scalar(pgtype.TextOID)}
	composite = &typ{text: kindComposite, fields: []field{
		{`"i":`, scalar(pgtype.Int8OID)}, {`"t":`, scalar(pgtype.TextOID)}, {`"l":`, list}, {`"f":`, scalar(pgtype.Float8OID)},
		{`"at":`, scalar(pgtype.TimestamptzOID)}, {`"b":`, scalar(pgtype.ByteaOID)}, {`"ok":`, scalar(pgtype.BoolOID)},
		{`"m":`, scalar(moneyOID)}, {`"tz":`, scalar(pgtype.TimetzOID)}, {`"n":`, scalar(pgtype.NumericOID)},
	}}
	return &typ{text: kindArray, delim: ',', element: composite}, composite
}

// FuzzContainers gives the parsers any bytes: what they accept is JSON, what they refuse is an error and null.
func FuzzContainers(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{NULL}`, `[0:1]={"(1,\"a\"\"b\",\"{x,\\\"y\\\"}\",1.5,\"2024-01-01 00:00:00+00\",\"\\\\x00ff\",t,$1.00,10:00:00+02,1.50)",NULL}`,
		`(1,"a ""b"" \\ c","{x,NULL,""y z""}",NaN,"2024-01-01 00:00:00.5+00 BC","\\x00",f,"-$1,234.50",10:00:00-03:30,NaN)`,
		`(,,,,,,,,,)`, `("",,,`, `{{1},{2}}`, `{"`, `{"\`, `("`, `{{{{{{{`, `[`, `()`, "(1,\xff\xfe,,,,,,,,)",
	} {
		f.Add([]byte(seed))
	}
	array, composite := fuzzTypes(f)
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, typ := range []*typ{array, composite} {
			r := &row{}
			got := r.appendText([]byte("x"), typ, value)
			if r.err != nil {
				if len(r.scratch) != 0 {
					t.Errorf("scratch left: %q", r.scratch)
				}
				continue
			}
			if !json.Valid(got[1:]) || !utf8.Valid(got) {
				t.Errorf("%q: not JSON: %q", value, got)
			}
		}
	})
}

// FuzzString compares the escaper with the standard library's reading of what it wrote.
func FuzzString(f *testing.F) {
	for _, seed := range []string{"", "plain text longer than a word", "q\"b\\c\x00\x1f\n\r\t\b\f\x7f", "é🦊\u2028", "\xff\xc3\xe2\x82", "1234567\xe2\x82\"", "\xed\xa0\x80"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var got string
		if err := json.Unmarshal(form.AppendString(nil, value), &got); err != nil {
			t.Fatalf("%q: %v", value, err)
		}
		var want strings.Builder
		for s := string(value); s != ""; {
			r, n := utf8.DecodeRuneInString(s)
			want.WriteRune(r) // RuneError is U+FFFD
			s = s[n:]
		}
		if got != want.String() {
			t.Errorf("%q: got %q, want %q", value, got, want.String())
		}
	})
}

// TestMalformed refuses values that are not in the form of their type, and leaves valid JSON behind.
func TestMalformed(t *testing.T) {
	t.Parallel()
	array, composite := fuzzTypes(t)
	integer, _ := builtin(pgtype.Int8OID)
	number, _ := builtin(pgtype.Float8OID)
	date, _ := builtin(pgtype.TimestamptzOID)
	for _, c := range []struct {
		typ   *typ
		value string
	}{
		{&integer, ""}, {&integer, "-"}, {&integer, "1,2"}, {&integer, "0x1"}, {&number, "1.}"}, {&number, "much"},
		{&date, "2024-01-01\" 00:00"}, {array, ""}, {array, "{"}, {array, "{}x"}, {array, "{,}"}, {array, "[1"}, {array, `{"a`}, {array, "{{{{{{{}}}}}}}"},
		{composite, "()"}, {composite, "(1)"}, {composite, "(1,a,{},1,,,,,,,)"}, {composite, "(1,a"},
	} {
		r := &row{}
		got := string(r.appendText(nil, c.typ, []byte(c.value)))
		if r.err == nil {
			t.Errorf("%q: accepted as %s", c.value, got)
		}
	}
	r := &row{values: [][]byte{{1, 2, 3}}, columns: []column{{kind: kindTimestampBinary, typ: &date}}}
	if got := string(r.AppendJSON(nil, 0)); got != "null" || r.err == nil {
		t.Errorf("short binary: %s, %v", got, r.err)
	}
}

// TestInvalidUTF8 replaces each invalid byte, in text and in JSON alike.
func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"a\xffb", "a\uFFFDb"}, {"\xe2\x82", "\uFFFD\uFFFD"}, {"é\xc3é", "é\uFFFDé"}, {"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"}, {"12345678\x80", "12345678\uFFFD"},
	} {
		if diff := cmp.Diff(`"`+c.want+`"`, string(form.AppendString(nil, []byte(c.in)))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.in, diff)
		}
		if diff := cmp.Diff(`"`+c.want+`"`, string(form.AppendJSON(nil, []byte(`"`+c.in+`"`)))); diff != "" {
			t.Errorf("json %q (-want +got):\n%s", c.in, diff)
		}
	}
}
