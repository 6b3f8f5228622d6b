package connections_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
)

func TestMetadataLimits(t *testing.T) {
	t.Parallel()
	s2000, k100 := strings.Repeat("é", 2000), strings.Repeat("é", 100)
	at := func(code problem.Code, locations ...string) answer { return answer{Code: code, Fields: locations} }
	for text, want := range map[string]answer{
		``:                                 {},
		`{}`:                               {},
		`{"a":{"b":{"c":{"d":1}}}}`:        {},
		`{"a":{"b":{"c":{"d":{"e":1}}}}}`:  {}, // the value of d is level 5
		`{"a":[[[[]]]]}`:                   {},
		`{"a":[[[[1,"x",null,true]]],{}]}`: {},
		`{"a":{"b":{"c":{"d":{"e":{}}}}}}`: at(problem.MetadataTooDeep, "body.metadata.a.b.c.d.e"),
		`{"a":{"b":{"c":{"d":{"e":[]}}}}}`: at(problem.MetadataTooDeep, "body.metadata.a.b.c.d.e"),
		`{"a":[[[[[]]]]]}`:                 at(problem.MetadataTooDeep, "body.metadata.a[0][0][0][0]"),
		`{"a":[1,[2,{"b":[{}]}]]}`:         at(problem.MetadataTooDeep, "body.metadata.a[1][1].b[0]"),
		`{"a":{"b":{"c":{"d":{"e":{"f":{}}}}}}, "z":[[[[[]]]]]}`: at(problem.MetadataTooDeep, "body.metadata.a.b.c.d.e", "body.metadata.z[0][0][0][0]"),
		`{"a":"` + s2000 + `"}`:                                  {},
		`{"a":"` + s2000 + `x"}`:                                 at(problem.MetadataValueTooLong, "body.metadata.a"),
		`{"a":["","` + s2000 + `x"]}`:                            at(problem.MetadataValueTooLong, "body.metadata.a[1]"),
		`{"a":"` + strings.Repeat(`\u00e9`, 2000) + `"}`:         {}, // characters, not bytes of the text
		`{"` + k100 + `":1}`:                                     {},
		`{"` + k100 + `x":1}`:                                    at(problem.MetadataKeyTooLong, "body.metadata."+k100+"…"),
		`{"a":{"` + k100 + `x":1}}`:                              at(problem.MetadataKeyTooLong, "body.metadata.a."+k100+"…"),
		`{"n":` + strings.Repeat("9", 3000) + `}`:                {}, // a number is no string
		// Several kinds at once: the first of the codes.
		`{"a":"` + s2000 + `x","` + k100 + `x":1}`: at(problem.MetadataValueTooLong, "body.metadata.a", "body.metadata."+k100+"…"),
		`{"` + k100 + `x":[[[[[]]]]]}`:             at(problem.MetadataTooDeep, "body.metadata."+k100+"…", "body.metadata."+k100+"…[0][0][0][0]"),
		`[]`:                                       at(problem.Malformed, "body.metadata"), `"x"`: at(problem.Malformed, "body.metadata"), `{"a":}`: at(problem.Malformed, "body.metadata"),
		`null`: at(problem.Malformed, "body.metadata"),
	} {
		var raw []byte
		if text != "" {
			raw = []byte(text)
		}
		if diff := cmp.Diff(want, answerOf(t, connections.CheckMetadata(raw))); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", text, diff)
		}
	}
	s := service(t, connections.Options{})
	for want, text := range map[problem.Code]string{
		problem.MetadataTooDeep: `{"a":[[[[[]]]]]}`, problem.MetadataValueTooLong: `{"a":"` + s2000 + `x"}`, problem.MetadataKeyTooLong: `{"` + k100 + `x":1}`,
	} {
		if got := answerOf(t, refuse(t, s, input(set("metadata", text)))); got.Code != want {
			t.Errorf("create answers %v, not %s", got, want)
		}
	}
}

func TestFaultsAreBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"a":0`)
	for i := range 500 {
		fmt.Fprintf(&b, `,"%s%d":1`, strings.Repeat("k", 101), i)
	}
	b.WriteString("}")
	got := answerOf(t, connections.CheckMetadata([]byte(b.String())))
	if got.Code != problem.MetadataKeyTooLong || len(got.Fields) != 50 {
		t.Errorf("%s with %d fields", got.Code, len(got.Fields))
	}
}

func TestKindOptions(t *testing.T) {
	t.Parallel()
	_, rows := database(t)
	s := service(t, connections.Options{})
	for i, c := range []struct {
		kind     source.Kind
		metadata string
		want     map[string]string
		bad      []string
	}{
		{source.Oracle, ``, map[string]string{"serviceName": "orders"}, nil},
		{source.Oracle, `{"serviceName":null}`, map[string]string{"serviceName": "orders"}, nil},
		{source.Oracle, `{"serviceName":" XEPDB1 ","authSource":5}`, map[string]string{"serviceName": "XEPDB1"}, nil},
		{source.Oracle, `{"serviceName":5}`, nil, []string{"body.metadata.serviceName"}},
		{source.Oracle, `{"serviceName":" "}`, nil, []string{"body.metadata.serviceName"}},
		{source.Oracle, `{"serviceName":"a\u0000b"}`, nil, []string{"body.metadata.serviceName"}},
		{source.MongoDB, ``, map[string]string{"authSource": "admin"}, nil},
		{
			source.MongoDB, `{"authSource":"users","replicaSet":"rs0","directConnection":true}`,
			map[string]string{"authSource": "users", "replicaSet": "rs0", "directConnection": "true"}, nil,
		},
		{source.MongoDB, `{"directConnection":false}`, map[string]string{"authSource": "admin", "directConnection": "false"}, nil},
		{source.MongoDB, `{"directConnection":null,"replicaSet":null}`, map[string]string{"authSource": "admin"}, nil},
		{
			source.MongoDB, `{"authSource":["x"],"replicaSet":"","directConnection":"true"}`, nil,
			[]string{"body.metadata.authSource", "body.metadata.directConnection", "body.metadata.replicaSet"},
		},
		{source.PostgreSQL, `{"serviceName":5,"directConnection":"x"}`, nil, nil},
	} {
		in := input(set("type", string(c.kind)), set("configName", fmt.Sprintf("kind-%d", i)), set("metadata", c.metadata))
		created, err := s.Create(t.Context(), rows, tenant, product, in)
		want := answer{}
		if c.bad != nil {
			want = answer{Code: problem.Malformed, Fields: c.bad}
		}
		if diff := cmp.Diff(want, answerOf(t, err)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.kind, c.metadata, diff)
		}
		if err != nil {
			continue
		}
		params, err := s.Params(tenant, created)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, params.Options); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.kind, c.metadata, diff)
		}
	}
}

func FuzzCheckMetadata(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"c"}]}`))
	f.Add([]byte(`{"a":{"b":{"c":{"d":{"e":{}}}}}}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, text []byte) {
		err := connections.CheckMetadata(text)
		if err == nil {
			return
		}
		var p *problem.Error
		if !errors.As(err, &p) || p.Code.Info().Status != 400 || len(p.Fields) == 0 {
			t.Fatalf("%q gives %v", text, err)
		}
	})
}
