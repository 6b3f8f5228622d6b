package connections

import (
	"bytes"
	"encoding/json"
	"maps"
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

// FuzzMerge compares with the algorithm of RFC 7396 on decoded values.
func FuzzMerge(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":1}`, `{"a":null}`}, {`{"a":{"b":[1,null]}}`, `{"a":{"b":{"c":null}},"d":"\u0000"}`}, {`{"\u0061":1}`, `{"a":{}}`},
		{` { "x" : {} } `, `{"x":{"y":{"z":null,"n":1.0}}}`}, {`{}`, `{"":""}`}, {`{"a":"x"}`, `{"b":null}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, text, patch []byte) {
		if checkObject(text) != nil || checkObject(patch) != nil || text == nil || patch == nil {
			return
		}
		got := mergeMetadata(text, patch)
		if err := checkObject(got); err != nil {
			t.Fatalf("%s with %s is %s: %v", text, patch, got, err)
		}
		if diff := cmp.Diff(reference(decoded(t, text), decoded(t, patch)), decoded(t, got)); diff != "" {
			t.Errorf("%s with %s is %s: %s", text, patch, got, diff)
		}
	})
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Skip("not for this decoder")
	}
	return v
}

// reference is the pseudocode of RFC 7396, section 2.
func reference(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if object, isObject := target.(map[string]any); isObject {
		maps.Copy(out, object)
	}
	for name, value := range changes {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = reference(out[name], value)
		}
	}
	return out
}
