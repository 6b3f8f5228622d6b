package handlers

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/problem"
)

// decoding is a body with something of every kind.
type decoding struct {
	Name  *string `json:"name"`
	Port  *int    `json:"port"`
	Inner *struct {
		Flag *bool `json:"flag"`
	} `json:"inner"`
	List []struct {
		A int `json:"a"`
	} `json:"list"`
	Free RawJSON `json:"free"`
}

func decodeText(text string, strict bool) (decoding, error) {
	var into decoding
	ex := &exchange{edge: &edge{opts: Options{StrictJSON: strict}}, body: []byte(text)}
	err := decodeBody(context.WithValue(context.Background(), exchangeKey{}, ex), &into)
	return into, err
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text     string
		code     problem.Code
		location string
	}{
		"nothing":                     {"", problem.Malformed, "body"},
		"blanks":                      {" \n\t ", problem.Malformed, "body"},
		"empty object":                {"{ }", problem.Malformed, "body"},
		"null":                        {"null", problem.Malformed, "body"},
		"array":                       {`[{"name":"x"}]`, problem.Malformed, "body"},
		"string":                      {`"name"`, problem.Malformed, "body"},
		"number":                      {`1`, problem.Malformed, "body"},
		"cut":                         {`{"name":"x"`, problem.Malformed, "body"},
		"cut in a string":             {`{"name":"x`, problem.Malformed, "body.name"},
		"single quotes":               {`{'name':'x'}`, problem.Malformed, "body"},
		"trailing comma":              {`{"name":"x",}`, problem.Malformed, "body"},
		"comment":                     {`{"name":"x"/**/}`, problem.Malformed, "body"},
		"trailing object":             {`{"name":"x"}{"name":"y"}`, problem.Malformed, "body"},
		"trailing text":               {`{"name":"x"} x`, problem.Malformed, "body"},
		"trailing number":             {`{"name":"x"} 1`, problem.Malformed, "body"},
		"byte order mark":             {"\ufeff" + `{"name":"x"}`, problem.Malformed, "body"},
		"UTF-16":                      {"{\x00\"\x00n\x00", problem.Malformed, "body"},
		"invalid UTF-8":               {"{\"name\":\"\xff\"}", problem.Malformed, "body.name"},
		"invalid UTF-8 when ignored":  {"{\"name\":\"x\",\"other\":{\"a\":\"\xff\"}}", problem.Malformed, "body.other.a"},
		"lone surrogate":              {`{"name":"\ud800"}`, problem.Malformed, "body.name"},
		"duplicate":                   {`{"name":"x","name":"y"}`, problem.Malformed, "body.name"},
		"duplicate by escape":         {`{"name":"x","n\u0061me":"y"}`, problem.Malformed, "body.name"},
		"duplicate when ignored":      {`{"name":"x","other":[{"a":1,"a":2}]}`, problem.Malformed, "body.other[0].a"},
		"duplicate in free":           {`{"free":{"a":{"b":1,"b":2}}}`, problem.Malformed, "body.free.a.b"},
		"too deep":                    {`{"free":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, problem.Malformed, "body"},
		"too deep when ignored":       {`{"name":"x","other":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, problem.Malformed, "body"},
		"leading zero":                {`{"port":01}`, problem.Malformed, "body"},
		"NaN":                         {`{"port":NaN}`, problem.Malformed, "body.port"},
		"number for string":           {`{"name":1}`, problem.Malformed, "body.name"},
		"object for string":           {`{"name":{}}`, problem.Malformed, "body.name"},
		"string for number":           {`{"port":"1"}`, problem.Malformed, "body.port"},
		"fraction for integer":        {`{"port":1.5}`, problem.Malformed, "body.port"},
		"exponent for integer":        {`{"port":1e2}`, problem.Malformed, "body.port"},
		"number beyond integers":      {`{"port":99999999999999999999}`, problem.Malformed, "body.port"},
		"string for boolean":          {`{"inner":{"flag":"true"}}`, problem.Malformed, "body.inner.flag"},
		"array for object":            {`{"inner":[]}`, problem.Malformed, "body.inner"},
		"in an array":                 {`{"list":[{"a":1},{"a":"x"}]}`, problem.Malformed, "body.list[1].a"},
		"strict, unknown":             {`{"name":"x","other":1}`, problem.UnknownMember, "body.other"},
		"strict, other case":          {`{"Name":"x"}`, problem.UnknownMember, "body.Name"},
		"strict, unknown inside":      {`{"inner":{"flag":true,"x":1}}`, problem.UnknownMember, "body.inner.x"},
		"strict, unknown in an array": {`{"list":[{"a":1,"b":2}]}`, problem.UnknownMember, "body.list[0].b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := decodeText(tc.text, strings.HasPrefix(name, "strict"))
			checkFault(t, err, tc.code, tc.location)
			if strings.Contains(err.Error(), "json:") || strings.Contains(err.Error(), "Go ") {
				t.Errorf("the answer quotes the library: %v", err)
			}
		})
	}
}

func TestDecodeAccepts(t *testing.T) {
	t.Parallel()
	text := `{"Name":"ignored","other":{"deep":[1,2,{}]},"name":"x","port":70000,
		"free": {"n":12345678901234567890.10, "e":"\u00e9\/", "b":1, "a":2}}`
	got, err := decodeText(text, false)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name == nil || *got.Name != "x" || got.Port == nil || *got.Port != 70000 {
		t.Errorf("got %v %v", got.Name, got.Port)
	}
	if diff := cmp.Diff(`{"n":12345678901234567890.10, "e":"\u00e9\/", "b":1, "a":2}`, string(got.Free)); diff != "" {
		t.Error("the free object changed:", diff)
	}
	var out strings.Builder
	if err := writeJSON(&out, got.Free); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"n":12345678901234567890.10,"e":"\u00e9\/","b":1,"a":2}`+"\n", out.String()); diff != "" {
		t.Error("the free object comes back changed:", diff)
	}
	deepest := `{"free":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `}`
	if _, err := decodeText(deepest, false); err != nil {
		t.Errorf("100 levels: %v", err)
	}
}

func TestContentType(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header http.Header
		want   bool
	}{
		"absent":         {http.Header{}, true},
		"empty":          {http.Header{"Content-Type": {""}}, true},
		"json":           {http.Header{"Content-Type": {"application/json"}}, true},
		"case":           {http.Header{"Content-Type": {"Application/JSON; Charset=UTF-8"}}, true},
		"merge patch":    {http.Header{"Content-Type": {"application/merge-patch+json"}}, true},
		"identity":       {http.Header{"Content-Encoding": {"identity"}}, true},
		"form":           {http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, false},
		"text":           {http.Header{"Content-Type": {"text/json"}}, false},
		"xml":            {http.Header{"Content-Type": {"application/xml"}}, false},
		"other charset":  {http.Header{"Content-Type": {"application/json; charset=utf-16"}}, false},
		"malformed":      {http.Header{"Content-Type": {"application/json; ="}}, false},
		"no media type":  {http.Header{"Content-Type": {"json"}}, false},
		"two lines":      {http.Header{"Content-Type": {"application/json", "application/json"}}, false},
		"gzip":           {http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, false},
		"image+json-ish": {http.Header{"Content-Type": {"image/x+json"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := isJSON(tc.header); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
