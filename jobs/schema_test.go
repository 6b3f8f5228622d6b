package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/testkit"
)

func numbered(format string, n int) []string {
	out := make([]string, 0, n)
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}

// mapping is mappedFields with as many of everything.
func mapping(datasources, tables, fields int) string {
	all := map[string]map[string][]string{}
	for _, d := range numbered("d%02d", datasources) {
		all[d] = map[string][]string{}
		for _, t := range numbered("t%02d", tables) {
			all[d][t] = numbered("f%02d", fields)
		}
	}
	return string(must(json.Marshal(all)))
}

func TestParseSchema(t *testing.T) {
	t.Parallel()
	const at = "body.mappedFields"
	for name, tt := range map[string]struct {
		mapped string
		code   problem.Code
		fields []problem.Field
	}{
		"good":             {mapped: `{"d":{"t":["a","b"],"u":["*"]}}`},
		"at every limit":   {mapped: mapping(10, 20, 50)},
		"absent":           {"", problem.MissingMember, []problem.Field{{Location: at, Message: "is required"}}},
		"null":             {"null", problem.MissingMember, []problem.Field{{Location: at, Message: "is required"}}},
		"list":             {"[]", problem.Malformed, []problem.Field{{Location: at, Message: "an array is not accepted here"}}},
		"table is null":    {`{"d":{"t":null}}`, problem.Malformed, []problem.Field{{Location: at + ".d.t", Message: "null is not accepted here"}}},
		"field is number":  {`{"d":{"t":["a",1]}}`, problem.Malformed, []problem.Field{{Location: at + ".d.t[1]", Message: "a number is not accepted here"}}},
		"datasources":      {mapping(11, 1, 1), problem.SchemaTooLarge, []problem.Field{{Location: at, Message: "has more than 10 datasources"}}},
		"tables":           {mapping(1, 21, 1), problem.SchemaTooLarge, []problem.Field{{Location: at + ".d00", Message: "has more than 20 tables"}}},
		"fields":           {mapping(1, 1, 51), problem.SchemaTooLarge, []problem.Field{{Location: at + ".d00.t00", Message: "has more than 50 fields"}}},
		"limit before":     {strings.Replace(mapping(11, 1, 1), `"f00"`, `""`, 1), problem.SchemaTooLarge, []problem.Field{{Location: at, Message: "has more than 10 datasources"}}},
		"empty":            {`{}`, problem.DataRequestInvalid, []problem.Field{{Location: at, Message: "must not be empty"}}},
		"no table":         {`{"d":{}}`, problem.DataRequestInvalid, []problem.Field{{Location: at + ".d", Message: "must have a table"}}},
		"no field":         {`{"d":{"t":[]}}`, problem.DataRequestInvalid, []problem.Field{{Location: at + ".d.t", Message: "must have a field"}}},
		"blank datasource": {`{" ":{"t":["a"]}}`, problem.DataRequestInvalid, []problem.Field{{Location: at + ". ", Message: "has a blank or impossible name"}}},
		"blank table":      {`{"d":{"":["a"]}}`, problem.DataRequestInvalid, []problem.Field{{Location: at + ".d.", Message: "has a blank or impossible name"}}},
		"blank field":      {`{"d":{"t":["a","\t"]}}`, problem.DataRequestInvalid, []problem.Field{{Location: at + ".d.t[1]", Message: "has a blank or impossible name"}}},
		"twice":            {`{"d":{"t":["a","a"]}}`, problem.DataRequestInvalid, []problem.Field{{Location: at + ".d.t[1]", Message: "is there twice"}}},
		"all and more":     {`{"d":{"t":["*","a"]}}`, problem.DataRequestInvalid, []problem.Field{{Location: at + ".d.t", Message: `"*" must stand alone`}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := jobs.ParseSchema([]byte(tt.mapped))
			checkProblem(t, err, tt.code, tt.fields)
		})
	}
}

// checkProblem compares an error with its code, none for no error, and its fields.
func checkProblem(t *testing.T, err error, code problem.Code, fields []problem.Field) {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	p, ok := errors.AsType[*problem.Error](err)
	if !ok || p.Code != code {
		t.Fatalf("error %v, want %s", err, code)
	}
	if diff := cmp.Diff(fields, p.Fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func (p *plant) validate(mapped string) error {
	p.t.Helper()
	req, err := jobs.ParseSchema([]byte(mapped))
	if err != nil {
		p.t.Fatal(err)
	}
	l := p.lease()
	defer l.Release()
	return p.service.ValidateSchema(context.Background(), l, req)
}

func TestValidateSchema(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable, `CREATE SCHEMA s`, `CREATE TABLE s.deep ("Wert" int, wert int, "Größe" text)`,
		`CREATE VIEW "Order View" AS SELECT 1 AS "select"`)
	p.connect("other", "another-product", p.source)
	p.connect("down", product, testkit.Database{Host: "127.0.0.1", Port: closedPort(t), Name: "x", Owner: "x", Password: "x"})
	p.connect("locked", product, testkit.Database{Host: p.source.Host, Port: p.source.Port, Name: p.source.Name, Owner: p.source.Owner, Password: "wrong"})
	field := func(location, message string, names ...string) problem.Field {
		value := map[string]string{}
		for i, name := range names {
			value[[]string{"dataSourceId", "table", "field"}[i]] = name
		}
		return problem.Field{Location: "body.mappedFields." + location, Message: message, Value: value}
	}
	for name, tt := range map[string]struct {
		mapped string
		code   problem.Code
		fields []problem.Field
	}{
		"all right": {mapped: `{"src":{"small":["id","note"],"s.deep":["*"],"Order View":["select"]},"other":{"public.small":["*"]}}`},
		"other spellings": {
			mapped: `{"src":{"PUBLIC.Small":["ID","Note"],"S.DEEP":["Wert","wert","größe"],"order view":["SELECT"]}}`,
		},
		"ambiguous field":      {`{"src":{"s.deep":["WERT"]}}`, problem.SchemaMismatch, []problem.Field{field("src.s.deep.WERT", "FIELD_NOT_FOUND", "src", "s.deep", "WERT")}},
		"bare in other schema": {`{"src":{"deep":["wert"]}}`, problem.SchemaMismatch, []problem.Field{field("src.deep", "TABLE_NOT_FOUND", "src", "deep")}},
		"none exists":          {`{"nope":{"t":["*"]},"SRC":{"small":["*"]}}`, problem.SchemaNoDatasource, nil},
		"everything at once": {
			`{"src":{"small":["id","nope","ID2"],"gone":["a","b"]},"nope":{"t":["*"]},"down":{"t":["*"]},"locked":{"small":["*"]},"other":{"small":["id"]}}`,
			problem.SchemaMismatch, []problem.Field{
				field("down", "DATA_SOURCE_DOWN", "down"),
				field("locked", "DATA_SOURCE_DOWN", "locked"),
				field("nope", "DATA_SOURCE_NOT_FOUND", "nope"),
				field("src.gone", "TABLE_NOT_FOUND", "src", "gone"),
				field("src.small.ID2", "FIELD_NOT_FOUND", "src", "small", "ID2"),
				field("src.small.nope", "FIELD_NOT_FOUND", "src", "small", "nope"),
			},
		},
		"two spellings": {`{"src":{"small":["id","ID"],"public.small":["*"]}}`, problem.DataRequestInvalid, []problem.Field{
			{Location: "body.mappedFields.src.small", Message: "the table is requested under two names"},
		}},
		"two spellings of a field": {`{"src":{"small":["id","ID"]}}`, problem.DataRequestInvalid, []problem.Field{
			{Location: "body.mappedFields.src.small.ID", Message: "the field is requested under two names"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkProblem(t, p.validate(tt.mapped), tt.code, tt.fields)
		})
	}
}

// One host that is not allowed refuses the whole, whatever is wrong with the rest.
func TestValidateSchemaHostNotAllowed(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	p.connect("other", product, p.source)
	l := p.lease()
	defer l.Release()
	if err := l.DB(t.Context()).Exec(`UPDATE connections SET host = '169.254.169.254' WHERE config_name = 'src'`).Error; err != nil {
		t.Fatal(err)
	}
	checkProblem(t, p.validate(`{"src":{"small":["*"]},"other":{"gone":["*"]},"nope":{"t":["*"]}}`), problem.HostNotAllowed,
		[]problem.Field{{Location: "body.mappedFields.src", Message: "the host is not allowed"}})
}

// A database that does not answer in time is down, and does not hold up the others.
func TestValidateSchemaIsBounded(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	silent := must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	defer silent.Close()
	port := silent.Addr().(*net.TCPAddr).Port
	for _, name := range []string{"silent-a", "silent-b", "silent-c"} {
		p.connect(name, product, testkit.Database{Host: "127.0.0.1", Port: port, Name: "x", Owner: "x", Password: "x"})
	}
	const limit = 2 * time.Second // one after the other they would take three times that
	p.service = must(jobs.NewService(jobs.ServiceOptions{Queue: p.queue, Connections: p.conns, Keys: p.keys, CheckTimeout: limit}))
	begun := time.Now()
	err := p.validate(`{"silent-a":{"t":["*"]},"silent-b":{"t":["*"]},"silent-c":{"t":["*"]}}`)
	if took := time.Since(begun); took > 5*limit/2 {
		t.Errorf("took %s", took)
	}
	var want []problem.Field
	for _, name := range []string{"silent-a", "silent-b", "silent-c"} {
		want = append(want, problem.Field{
			Location: "body.mappedFields." + name, Message: "DATA_SOURCE_DOWN", Value: map[string]string{"dataSourceId": name},
		})
	}
	checkProblem(t, err, problem.SchemaMismatch, want)
}
