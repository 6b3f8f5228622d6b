package jobs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
)

// raw splits a body as the API does.
func raw(t testing.TB, body string) jobs.Raw {
	t.Helper()
	var b struct {
		DataRequest *struct {
			MappedFields jsontext.Value `json:"mappedFields"`
			Filters      jsontext.Value `json:"filters"`
		} `json:"dataRequest"`
		Metadata jsontext.Value `json:"metadata"`
		Output   jsontext.Value `json:"output"`
	}
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		t.Fatal(err)
	}
	r := jobs.Raw{Metadata: b.Metadata, Output: b.Output}
	if b.DataRequest != nil {
		r.DataRequest = &jobs.RawDataRequest{MappedFields: b.DataRequest.MappedFields, Filters: b.DataRequest.Filters}
	}
	return r
}

func body(mapped, filters string) string {
	if filters != "" {
		filters = `, "filters": ` + filters
	}
	return fmt.Sprintf(`{"dataRequest": {"mappedFields": %s%s}, "metadata": {"source": "p"}}`, mapped, filters)
}

func TestParseRequest(t *testing.T) {
	t.Parallel()
	in := raw(t, `{"dataRequest": {"mappedFields": {"b": {"t": ["*"]}, "a": {"z": ["x", "y"], "s.q": ["x"]}},
		"filters": {"a": {"Q": {"n": {"gte": [1.0], "eq": [true, "2"]}}}}}, "metadata": {"source": " Some-Product "}}`)
	got, err := jobs.ParseRequest(in, jobs.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := jobs.Request{
		MappedFields: in.DataRequest.MappedFields, Filters: in.DataRequest.Filters, Metadata: in.Metadata,
		Source: "some-product", Format: "json", Hash: got.Hash,
		Datasources: []extract.Datasource{
			{
				Name: "a", Tables: []extract.Table{{Name: "s.q", Fields: []string{"x"}}, {Name: "z", Fields: []string{"x", "y"}}},
				Where: map[string][]source.Condition{"Q": {
					{Field: "n", Op: "eq", Values: []jsontext.Value{[]byte("true"), []byte(`"2"`)}},
					{Field: "n", Op: "gte", Values: []jsontext.Value{[]byte("1.0")}},
				}},
			},
			{Name: "b", Tables: []extract.Table{{Name: "t", Fields: []string{"*"}}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	const good = `{"d": {"t": ["x"]}}`
	many := func(n int, f string) string {
		all := make([]string, 0, n)
		for i := range n {
			all = append(all, fmt.Sprintf(f, i))
		}
		return strings.Join(all, ", ")
	}
	mapped, filters := "body.dataRequest.mappedFields", "body.dataRequest.filters"
	for _, tt := range []struct {
		name, body string
		code       problem.Code
		at         []string
	}{
		{"nothing", `{"x": 1}`, problem.MissingMember, []string{"body.dataRequest", "body.metadata"}},
		{"no mapped fields", `{"dataRequest": {}, "metadata": {"source": "p"}}`, problem.MissingMember, []string{mapped}},
		{"null", `{"dataRequest": {"mappedFields": null}, "metadata": null}`, problem.MissingMember, []string{mapped, "body.metadata"}},
		{"types come first", `{"dataRequest": {"mappedFields": {"d": null}}}`, problem.Malformed, []string{mapped + ".d"}},
		{"mapped fields", body(`[]`, ""), problem.Malformed, []string{mapped}},
		{"table", body(`{"d": {"t": "x"}}`, ""), problem.Malformed, []string{mapped + ".d.t"}},
		{"field", body(`{"d": {"t": ["x", 1]}}`, ""), problem.Malformed, []string{mapped + ".d.t[1]"}},
		{"field null", body(`{"d": {"t": [null]}}`, ""), problem.Malformed, []string{mapped + ".d.t[0]"}},
		{"filter's field", body(good, `{"d": {"t": {"x": [1]}}}`), problem.Malformed, []string{filters + ".d.t.x"}},
		{"filter's values", body(good, `{"d": {"t": {"x": {"eq": 1}}}}`), problem.Malformed, []string{filters + ".d.t.x.eq"}},
		{"metadata", `{"dataRequest": {"mappedFields": {"d": {"t": ["x"]}}}, "metadata": []}`, problem.Malformed, []string{"body.metadata"}},
		{"output", `{"dataRequest": {"mappedFields": {"d": {"t": ["x"]}}}, "metadata": {"source": "p"}, "output": {"format": "xml"}}`, problem.Malformed, []string{"body.output.format"}},
		{"compression", `{"dataRequest": {"mappedFields": {"d": {"t": ["x"]}}}, "metadata": {"source": "p"}, "output": {"compression": 1}}`, problem.Malformed, []string{"body.output.compression"}},

		{"empty", body(`{}`, ""), problem.DataRequestInvalid, []string{mapped}},
		{"no table", body(`{"d": {}, "e": {"t": ["x"]}}`, ""), problem.DataRequestInvalid, []string{mapped + ".d"}},
		{"no field", body(`{"d": {"t": [], "u": ["x"]}}`, ""), problem.DataRequestInvalid, []string{mapped + ".d.t"}},
		{"blank names", body(`{" ": {"": ["\t"]}}`, ""), problem.DataRequestInvalid, []string{mapped + ". ", mapped + ". .", mapped + ". .[0]"}},
		{"NUL", body(`{"d": {"t": ["a\u0000"]}}`, ""), problem.DataRequestInvalid, []string{mapped + ".d.t[0]"}},
		{"field twice", body(`{"d": {"t": ["x", "y", "x"]}}`, ""), problem.DataRequestInvalid, []string{mapped + ".d.t[2]"}},
		{"star and field", body(`{"d": {"t": ["*", "x"]}}`, ""), problem.DataRequestInvalid, []string{mapped + ".d.t"}},
		{"datasources", body(`{`+many(11, `"d%d": {"t": ["x"]}`)+`}`, ""), problem.DataRequestInvalid, []string{mapped}},
		{"tables", body(`{"d": {`+many(21, `"t%d": ["x"]`)+`}}`, ""), problem.DataRequestInvalid, []string{mapped + ".d"}},
		{"fields", body(`{"d": {"t": [`+many(51, `"f%d"`)+`]}}`, ""), problem.DataRequestInvalid, []string{mapped + ".d.t"}},
		{"conditions", body(good, `{"d": {"t": {`+many(51, `"f%d": {"eq": [1]}`)+`}}}`), problem.DataRequestInvalid, []string{filters + ".d.t"}},
		{"unmapped datasource", body(good, `{"e": {"t": {"x": {"eq": [1]}}}}`), problem.DataRequestInvalid, []string{filters + ".e"}},
		{"unmapped table", body(good, `{"d": {"u": {"x": {"eq": [1]}}}}`), problem.DataRequestInvalid, []string{filters + ".d.u"}},
		{"no condition", body(good, `{"d": {"t": {}}}`), problem.DataRequestInvalid, []string{filters + ".d.t"}},
		{"empty condition", body(good, `{"d": {"t": {"x": {}}}}`), problem.DataRequestInvalid, []string{filters + ".d.t.x"}},
		{"operator", body(good, `{"d": {"t": {"x": {"is": [1]}}}}`), problem.DataRequestInvalid, []string{filters + ".d.t.x.is"}},
		{"empty operator", body(good, `{"d": {"t": {"x": {"": []}}}}`), problem.DataRequestInvalid, []string{filters + ".d.t.x."}},
		{"arity", body(good, `{"d": {"t": {"x": {"between": [1], "gt": [1, 2]}}}}`), problem.DataRequestInvalid, []string{filters + ".d.t.x.between", filters + ".d.t.x.gt"}},
		{"value", body(good, `{"d": {"t": {"x": {"in": [1, null, [2]]}}}}`), problem.DataRequestInvalid, []string{filters + ".d.t.x.in[1]", filters + ".d.t.x.in[2]"}},
		{"data request before metadata", `{"dataRequest": {"mappedFields": {}}, "metadata": {}}`, problem.DataRequestInvalid, []string{mapped}},

		{"depth", `{"dataRequest": {"mappedFields": {"d": {"t": ["x"]}}}, "metadata": {"a": [[[[[]]]]]}}`, problem.MetadataTooDeep, []string{"body.metadata.a[0][0][0][0]"}},
		{"no source", `{"dataRequest": {"mappedFields": {"d": {"t": ["x"]}}}, "metadata": {"a": 1}}`, problem.MissingMember, []string{"body.metadata.source"}},
		{"blank source", `{"dataRequest": {"mappedFields": {"d": {"t": ["x"]}}}, "metadata": {"source": "  "}}`, problem.MissingMember, []string{"body.metadata.source"}},
		{"number for source", `{"dataRequest": {"mappedFields": {"d": {"t": ["x"]}}}, "metadata": {"source": 5}}`, problem.MissingMember, []string{"body.metadata.source"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := jobs.ParseRequest(raw(t, tt.body), jobs.Limits{})
			var p *problem.Error
			if !errors.As(err, &p) {
				t.Fatalf("error %v", err)
			}
			at := make([]string, 0, len(p.Fields))
			for _, f := range p.Fields {
				at = append(at, f.Location)
			}
			if diff := cmp.Diff(tt.at, at); p.Code != tt.code || diff != "" {
				t.Errorf("%v; locations (-want +got):\n%s", p, diff)
			}
		})
	}
}

// A spelling that may mean a mapped table passes: the catalogue decides.
func TestFilterSpellings(t *testing.T) {
	t.Parallel()
	for _, spelling := range []string{"Orders", "PUBLIC.orders", "ORDERS", "x.orders"} {
		b := body(`{"d": {"orders": ["x"]}}`, `{"d": {"`+spelling+`": {"x": {"eq": [1]}}}}`)
		if _, err := jobs.ParseRequest(raw(t, b), jobs.Limits{}); err != nil {
			t.Errorf("%s: %v", spelling, err)
		}
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	hash := func(body string) string {
		t.Helper()
		r, err := jobs.ParseRequest(raw(t, body), jobs.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Hash
	}
	base := `{"dataRequest": {"mappedFields": {"d": {"t": ["x", "y"]}}, "filters": {"d": {"t": {"x": {"eq": [%s]}}}}}, "metadata": {"source": "p", "é\n": %s}}`
	of := func(value, meta string) string { return hash(fmt.Sprintf(base, value, meta)) }
	first := of("1", "null")
	if len(first) != 64 {
		t.Errorf("hash %q", first)
	}
	for _, same := range []string{
		of("1.0", "null"), of("1e0", "null"), of("10E-1", "null"), of("0.1e+1", "null"), of(" 1 ", " null"),
		hash(`{"metadata": {"\u00e9\u000a": null, "source": "p"}, "dataRequest": {"filters": {"d": {"t": {"x": {"eq": [1]}}}}, "mappedFields": {"d": {"t": ["x", "y"]}}}}`),
		hash(`{"output": null, "metadata": {"source": "p", "é\n": null}, "dataRequest": {"mappedFields": {"d": {"t": ["x", "y"]}}, "filters": {"d": {"t": {"x": {"eq": [1.00]}}}}}}`),
	} {
		if same != first {
			t.Errorf("hash %s, want %s", same, first)
		}
	}
	seen := map[string]bool{first: true}
	for _, other := range []string{
		of("-1", "null"), of("10", "null"), of(`"1"`, "null"), of("true", "null"), of("12345678901234567", "null"), of("12345678901234568", "null"),
		of("0.12345678901234567", "null"), of("0.12345678901234568", "null"), of("1e400", "null"), of("1e401", "null"), of("1e-99999999999999999999", "null"),
		of("0", "null"), of("1", "false"), of("1", "[1, 2]"), of("1", "[2, 1]"),
		hash(`{"dataRequest": {"mappedFields": {"d": {"t": ["y", "x"]}}, "filters": {"d": {"t": {"x": {"eq": [1]}}}}}, "metadata": {"source": "p", "é\n": null}}`),
		hash(`{"dataRequest": {"mappedFields": {"d": {"t": ["x", "y"]}}}, "metadata": {"source": "p", "é\n": null}}`),
		hash(`{"dataRequest": {"mappedFields": {"d": {"t": ["x", "y"]}}, "filters": {"d": {"t": {"x": {"eq": [1]}}}}}, "metadata": {"source": "p", "é\n": null}, "output": {}}`),
	} {
		if seen[other] {
			t.Error("two different requests have one hash")
		}
		seen[other] = true
	}
	if of("0.0", "null") != of("-0", "null") || of("0e5", "null") != of("0", "null") {
		t.Error("zeros differ")
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add(`{"d": {"t": ["x"]}}`, `{"d": {"t": {"x": {"eq": [1]}}}}`, `{"source": "p", "n": 1e5}`)
	f.Add(`{"d": null}`, `{"d": {"T": {"x": {"in": [1.50, "a", null]}}}}`, `{}`)
	f.Fuzz(func(t *testing.T, mapped, filters, metadata string) {
		in := jobs.Raw{DataRequest: &jobs.RawDataRequest{MappedFields: []byte(mapped), Filters: []byte(filters)}, Metadata: []byte(metadata)}
		r, err := jobs.ParseRequest(in, jobs.Limits{})
		var p *problem.Error
		switch {
		case err != nil && !errors.As(err, &p) && jsontext.Value(metadata).IsValid():
			t.Errorf("error without a code: %v", err)
		case err == nil && (r.Hash == "" || r.Source == "" || len(r.Datasources) == 0):
			t.Errorf("request %+v", r)
		}
	})
}
