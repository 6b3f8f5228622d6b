package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secretText is a value that must show nowhere, but in good answers of the operations that exist to show it.
type secretText struct {
	name  string
	value string
	shown []string // ids of operations
}

// newSecret is letters and digits that are found in whatever quotes a text, followed by characters that every way of
// writing a text writes differently.
func newSecret() (whole, core string) {
	core = rand.Text()
	return core + "\"\\&/é", core
}

// formsOf are the texts in which a value would show: as it is, or as JSON, URLs, Go, hexadecimal digits and base64 write
// it, the last at any place in a longer text.
func formsOf(value string) []string {
	digits := hex.EncodeToString([]byte(value))
	forms := []string{
		value, inJSON(value, true), inJSON(value, false), strings.TrimSuffix(strings.TrimPrefix(strconv.Quote(value), `"`), `"`),
		url.QueryEscape(value), url.PathEscape(value), digits, strings.ToUpper(digits),
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before), value...))
			text = text[(before*8+5)/6:]
			if (before+len(value))%3 != 0 { // the last character also holds bits of what follows
				text = text[:len(text)-1]
			}
			forms = append(forms, text)
		}
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// inJSON is a text as it stands between the quotes of a JSON string.
func inJSON(value string, forHTML bool) string {
	var quoted bytes.Buffer
	enc := json.NewEncoder(&quoted)
	enc.SetEscapeHTML(forHTML)
	if err := enc.Encode(value); err != nil {
		panic(err) // every string can be encoded
	}
	return strings.TrimSuffix(strings.TrimPrefix(quoted.String(), `"`), "\"\n")
}

// trace is one thing that somebody else can read: a log, an answer, a dump.
type trace struct {
	sink      string
	from      string // what of it
	operation string // of a good answer: which
	content   []byte
}

// found names the secrets that show in the traces, each with the sink and what of it.
func found(traces []trace, secrets []secretText) []string {
	var out []string
	for _, s := range secrets {
		for _, form := range formsOf(s.value) {
			needle := []byte(form)
			for _, tr := range traces {
				if bytes.Contains(tr.content, needle) && (tr.operation == "" || !slices.Contains(s.shown, tr.operation)) {
					out = append(out, fmt.Sprintf("%s in %s of %s", s.name, tr.sink, tr.from))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The search finds every form of a value, wherever it stands in a longer text.
func TestRedactionSearch(t *testing.T) {
	t.Parallel()
	whole, core := newSecret()
	for _, value := range []string{whole, core} {
		s := []secretText{{name: "it", value: value}}
		for name, written := range map[string]string{
			"plain": value, "json": text(t, value), "JSON for no HTML": inJSON(value, false), "query": url.QueryEscape(value), "path": url.PathEscape(value), "go": fmt.Sprintf("%q", value),
			"hex": hex.EncodeToString([]byte("ab" + value + "c")), "upper hex": fmt.Sprintf("%X", "ab"+value),
		} {
			if diff := cmp.Diff([]string{"it in a of b"}, found([]trace{{sink: "a", from: "b", content: []byte("x " + written + " y")}}, s)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		for before := range 4 {
			for after := range 4 {
				for name, encoding := range map[string]*base64.Encoding{"std": base64.StdEncoding, "url": base64.RawURLEncoding} {
					text := encoding.EncodeToString([]byte(strings.Repeat("\xff", before) + value + strings.Repeat("\xff", after)))
					if len(found([]trace{{content: []byte(text)}}, s)) != 1 {
						t.Errorf("base64 %s, %d before and %d after: not found in %s", name, before, after, text)
					}
				}
			}
		}
	}
	good := trace{sink: "answer", from: "x", operation: "get-x", content: []byte(whole)}
	if got := found([]trace{good}, []secretText{{"it", whole, []string{"get-x"}}}); len(got) != 0 {
		t.Errorf("where it is to be shown: %v", got)
	}
	if got := found([]trace{good}, []secretText{{"it", whole, []string{"get-y"}}}); len(got) != 1 {
		t.Errorf("where another is to be shown: %v", got)
	}
	if other, _ := newSecret(); len(found([]trace{good}, []secretText{{name: "it", value: other}})) != 0 {
		t.Error("found what is not there")
	}
}
