package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// testMalformed sends what nobody should. Each of these is a 4xx with a code, never a 5xx and never a success.
func testMalformed(t *testing.T, s *apiSuite) {
	c := s.admin()
	kept := c.create(t, ledger, nil)
	all := malformed(t, s, kept)
	t.Logf("%d requests", len(all))
	if len(all) < 300 {
		t.Errorf("%d requests, want at least 300", len(all))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := all[name]
		got := c.do(t, r)
		if got.Status < 400 || got.Status > 499 {
			t.Errorf("%s: %s %s %.200q: %d %.300s", name, r.method, r.path, r.body, got.Status, got.Body)
			continue
		}
		var f fault
		got.Decode(t, &f)
		if status, ok := published()[f.Code]; !ok || status != got.Status {
			t.Errorf("%s: %d %q", name, got.Status, f.Code)
		}
	}
}

// malformed is every bad request by a name.
func malformed(t *testing.T, s *apiSuite, kept connection) map[string]call {
	t.Helper()
	out := map[string]call{}
	product := []string{"X-Product-Name", ledger}
	bodied := map[string]call{
		"create": post(managed, "", product...), "patch": patch(kept.ID, ""), "job": post("/v1/fetcher", ""),
		"validate": post(managed+"/validate-schema", ""),
	}
	for where, r := range bodied {
		for what, body := range brokenJSON() {
			r.body = body
			out[where+" with "+what] = r
		}
	}
	for _, name := range []string{"configName", "type", "host", "port", "databaseName", "userName", "password", "schema", "ssl", "metadata"} {
		for _, value := range []string{`[]`, `[[]]`, `"\u0000"`, `-1`, `1e400`, `"` + strings.Repeat("x", 3000) + `"`, `{"a":{"b":{"c":{"d":{"e":{"f":1}}}}}}`, `true`} {
			if name == "metadata" && value == `{}` || name == "port" && value == `{}` {
				continue
			}
			// What is an unknown member of ssl is ignored, and leaves nothing of it.
			if name == "ssl" && strings.HasPrefix(value, "{") {
				continue
			}
			body := s.sample(unique("bad"), nil)
			delete(body, name)
			whole := strings.Replace(text(t, body), "{", `{"`+name+`":`+value+`,`, 1)
			out["create, "+name+" "+value[:min(len(value), 12)]] = post(managed, whole, product...)
			out["patch, "+name+" "+value[:min(len(value), 12)]] = patch(kept.ID, `{"`+name+`":`+value+`}`)
		}
	}
	for i, query := range []string{
		"page=a", "page=0", "page=%00", "page=１", "page=1,2", "page=+1", "limit=a", "limit=0", "limit=9999", "limit=-0", "limit=1_0", "sortOrder=x", "sortOrder=asc%20",
		"startDate=x", "startDate=2026-00-01", "startDate=2026-01-32", "startDate=10000-01-01", "endDate=-2026-01-01", "endDate=2026-01-01x", "endDate=٢٠٢٦-01-01",
		"startDate=2026-06-01&endDate=2026-05-01", "$or=1", "_x=1", "%5fx=1", "x=%", "x=%f", "%=1", "x=%c3%28", ";", strings.Repeat("q", 65), "q=" + strings.Repeat("v", 300),
	} {
		for _, path := range listings() {
			out[fmt.Sprint("query ", i, " of ", path)] = get(path + "?" + query)
		}
	}
	for i, id := range []string{
		"0", "-", "null", "undefined", "..%2f", "%2e%2e", "'", "%22", "%27%20or%201=1--", "%00", "%ff", "*", "{id}", nobodysID[:35], nobodysID + "a",
		"g1a22ef4-44e7-7853-a1ec-394dc71d3d9b", "01a22ef4_44e7_7853_a1ec_394dc71d3d9b", "%7B" + nobodysID + "%7D", "urn:uuid:" + nobodysID, strings.Repeat("a", 2000), "％",
	} {
		for _, op := range operations() {
			if strings.Contains(op.path, "{id}") && op.method != http.MethodPatch {
				out[fmt.Sprint("id ", i, " of ", op.id)] = call{method: op.method, path: at(op.path, id), headers: product}
			}
		}
	}
	for i, mapped := range []string{
		`{}`, `{"a":{}}`, `{"a":{"b":[]}}`, `{"":{"b":["c"]}}`, `{"a":{"":["c"]}}`, `{"a":{"b":[""]}}`, `{"a":{"b":["c","c"]}}`, `{"a":{"b":["*","c"]}}`, `{"a":{"b":["c"]},"a":{"b":["c"]}}`,
		`{"a":{"b":[null]}}`, `{"a":{"b":null}}`, `{"a":null}`, `{"a":{"b":["\u0000"]}}`, `{"a":{"b\u0000":["c"]}}`, `{"\u0000":{"b":["c"]}}`, `{"a":{"b":[["c"]]}}`, `{"a":{"b":{"c":1}}}`, `{"a":1}`, `"a"`, `1`,
	} {
		out[fmt.Sprint("job of ", i)] = post("/v1/fetcher", `{"dataRequest":{"mappedFields":`+mapped+`},"metadata":{"source":"ledger"}}`)
		if i != 7 { // a star beside another is no fault there, but names nothing that exists
			out[fmt.Sprint("schema of ", i)] = post(managed+"/validate-schema", `{"mappedFields":`+mapped+`}`)
		}
	}
	for i, condition := range []string{
		`null`, `[]`, `1`, `{}`, `{"eq":null}`, `{"eq":[]}`, `{"eq":1}`, `{"eq":[null]}`, `{"eq":[[1]]}`, `{"eq":[{}]}`, `{"":[1]}`, `{"$gt":[1]}`, `{"gt":[1,2]}`, `{"between":[1]}`,
		`{"in":[]}`, `{"nin":[]}`, `{"like":[1]}`, `{"like":["a","b"]}`, `{"isNull":[1]}`, `{"isNull":[]}`, `{"isNull":["true"]}`, `{"eq":["\u0000"]}`, `{"eq":[1e999]}`, `{"eq":[1.5]}`, `{"lt":["x"]}`, `{"eq":[true]}`,
		`{"eq":[99999999999999999999]}`, `{"eq":["1; DROP TABLE x"]}`, `{"like":["1%"]}`, `{"regex":[".*"]}`,
	} {
		out[fmt.Sprint("filter ", i)] = post("/v1/fetcher", `{"dataRequest":{"mappedFields":{"`+kept.ConfigName+`":{"order":["select"]}},"filters":{"`+kept.ConfigName+
			`":{"order":{"select":`+condition+`}}}},"metadata":{"source":"ledger"}}`)
	}
	for i, header := range []string{"bytes=99999999-", "bytes=5-4", "bytes=-0", "lines=1-2"} {
		out[fmt.Sprint("range ", i)] = get("/v1/fetcher/"+nobodysID+"/result", "Range", header)
	}
	return out
}

// brokenJSON is no JSON object, each in a way of its own.
func brokenJSON() map[string]string {
	return map[string]string{
		"nothing": "", "blanks": " \n\t", "null": "null", "an array": "[]", "a string": `"x"`, "a number": "1", "true": "true", "an empty object": "{}",
		"a cut object": `{"a":`, "a cut string": `{"a":"b`, "a cut array": `{"a":[1`, "trailing text": `{"a":1}x`, "two objects": `{"a":1}{"a":1}`, "a trailing comma": `{"a":1,}`, "single quotes": `{'a':1}`,
		"a bare name": `{a:1}`, "a comment": `{/**/"a":1}`, "a BOM": "\ufeff{\"a\":1}", "invalid UTF-8": "{\"a\":\"\xff\"}", "overlong UTF-8": "{\"a\":\"\xc0\xaf\"}", "UTF-16": "{\x00\"\x00a\x00",
		"a control character": "{\"a\":\"\x01\"}", "a newline in a string": "{\"a\":\"\n\"}", "a bad escape": `{"a":"\x41"}`, "a cut escape": `{"a":"\u12"}`, "a lone surrogate": `{"a":"\ud800"}`,
		"a duplicate": `{"a":1,"a":1}`, "a hidden duplicate": `{"a":1,"\u0061":1}`, "a deep duplicate": `{"a":{"b":[{"c":1,"c":2}]}}`, "NaN": `{"a":NaN}`, "Infinity": `{"a":-Infinity}`, "hex": `{"a":0x1}`, "a plus": `{"a":+1}`,
		"a leading zero": `{"a":01}`, "a bare dot": `{"a":1.}`, "a leading dot": `{"a":.1}`, "depth 101": `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "a bomb": strings.Repeat(`{"a":`, 50000),
		"a form": "a=b&c=d", "XML": "<a/>", "YAML": "a: 1", "TRUE": "TRUE", "NUL": "\x00", "a colon too many": `{"a"::1}`, "no colon": `{"a" 1}`, "no comma": `{"a":1 "b":2}`, "an unknown member": `{"nobody":"knows"}`,
	}
}
