package connections

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/problem"
)

// TestMergeMetadata holds the examples of RFC 7396 that have objects, and what it leaves open: the text that is kept.
func TestMergeMetadata(t *testing.T) {
	t.Parallel()
	const none = "absent"
	for name, tc := range map[string]struct{ text, patch, want string }{
		"absent":               {`{"a":1}`, none, `{"a":1}`},
		"null":                 {`{"a":1}`, `null`, none},
		"null, nothing there":  {none, `null`, none},
		"nothing there":        {none, `{"a":1}`, `{"a":1}`},
		"empty, nothing there": {none, `{}`, `{}`},
		"empty":                {`{"a":1}`, `{}`, `{"a":1}`},
		"replaced":             {`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		"added":                {`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		"removed":              {`{"a":"b"}`, `{"a":null}`, `{}`},
		"one of two removed":   {`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		"removed, not there":   {`{"a":"b"}`, `{"z":null}`, `{"a":"b"}`},
		"list replaced":        {`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		"by a list":            {`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		"deeper":               {`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		"lists do not merge":   {`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		"null in a list":       {`{"a":1}`, `{"a":[null,{"b":null}]}`, `{"a":[null,{"b":null}]}`},
		"null kept":            {`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		"object over scalar":   {`{"a":"foo"}`, `{"a":{"bb":{"ccc":null,"d":1}}}`, `{"a":{"bb":{"d":1}}}`},
		"text is kept":         {`{ "z" : 1.10, "a":{"big":12345678901234567890123 , "e":"\u00e9\/"} }`, `{"a":{"new":1e2}, "b":"\u0041"}`, `{"z":1.10,"a":{"big":12345678901234567890123,"e":"\u00e9\/","new":1e2},"b":"\u0041"}`},
		"other spelling":       {`{"\u0061":1,"b":2}`, `{"a":3}`, `{"\u0061":3,"b":2}`},
		"place is kept":        {`{"a":1,"b":2,"c":3}`, `{"c":null,"d":4,"a":{"x":1}}`, `{"a":{"x":1},"b":2,"d":4}`},
		"names in case":        {`{"a":1}`, `{"A":2}`, `{"a":1,"A":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text, patch []byte
			if tc.text != none {
				text = []byte(tc.text)
			}
			if tc.patch != none {
				patch = []byte(tc.patch)
			}
			got := none
			if merged := mergeMetadata(text, patch); merged != nil {
				got = string(merged)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if tc.text != none && string(text) != tc.text || tc.patch != none && string(patch) != tc.patch {
				t.Error("the inputs were changed")
			}
		})
	}
}

func TestMetadataDoNotGrowWithoutBound(t *testing.T) {
	t.Parallel()
	small, large := []byte(`{"a":1}`), []byte(`{"a":"`+strings.Repeat("x", maxMetadataText)+`"}`)
	if err := checkGrowth(large, large); err != nil {
		t.Errorf("a patch that fits a body: %v", err)
	}
	if err := checkGrowth(small, small); err != nil {
		t.Error(err)
	}
	if err := checkGrowth(large, small); problem.CodeOf(err) != problem.Malformed {
		t.Errorf("a patch that makes them large: %v", err)
	}
}
