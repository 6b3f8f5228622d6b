package connections_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/problem"
)

func TestParseProduct(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{"billing"}, "billing"},
		{[]string{"  Billing_2-X\t"}, "billing_2-x"},
		{[]string{"a"}, "a"},
		{[]string{strings.Repeat("A", 100)}, strings.Repeat("a", 100)},
		{nil, ""},
		{[]string{""}, ""},
		{[]string{" \t "}, ""},
		{[]string{"a", "a"}, ""},
		{[]string{"billing", ""}, ""},
		{[]string{strings.Repeat("a", 101)}, ""},
		{[]string{"a b"}, ""},
		{[]string{"a.b"}, ""},
		{[]string{"a,b"}, ""},
		{[]string{"bücher"}, ""},
		{[]string{"\u212aelvin"}, ""}, // the Kelvin sign, whose lower case is an ASCII k
		{[]string{"a\x00"}, ""},
	} {
		got, err := connections.ParseProduct(c.lines)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.lines, diff)
		}
		want := answer{}
		if c.want == "" {
			want = answer{Code: problem.HeaderInvalid, Fields: []string{"header.X-Product-Name"}}
		}
		if diff := cmp.Diff(want, answerOf(t, err)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.lines, diff)
		}
	}
}
