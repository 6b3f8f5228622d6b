package tenantid_test

import (
	"strings"
	"testing"

	"github.com/fetcherhq/fetcher/tenantid"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 128)
	for id, want := range map[string]string{
		"acme": "acme", "Acme": "Acme", "0": "0", "a_b-C9": "a_b-C9", long: long,
		"01A22ED4-8C31-7405-A762-B6EE25FA0B35": "01a22ed4-8c31-7405-a762-b6ee25fa0b35",
		"01A22ED48C317405A762B6EE25FA0B35":     "01A22ED48C317405A762B6EE25FA0B35", // undashed: an id like any other
		"":                                     "", "-a": "", "_a": "", "a b": "", "a/b": "", "../etc": "", "ä": "", long + "a": "", "a\n": "", "{01a22ed4-8c31-7405-a762-b6ee25fa0b35}": "",
	} {
		got, ok := tenantid.Canonical(id)
		if got != want || ok != (want != "") {
			t.Errorf("Canonical(%q) is %q, %v; want %q", id, got, ok, want)
		}
	}
}
