package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testProbes is test and schema in section 6.
func testProbes(t *testing.T, s *apiSuite) {
	c := s.admin()
	t.Run("test", func(t *testing.T) {
		t.Parallel()
		made := c.create(t, ledger, nil)
		path := managed + "/" + made.ID + "/test"
		var result struct {
			Status, Message string
			LatencyMs       *float64
		}
		c.succeeds(t, 200, post(path, "")).Decode(t, &result)
		if result.Status != "success" || result.Message == "" || result.LatencyMs == nil {
			t.Errorf("got %+v", result)
		}
		for range 9 {
			c.succeeds(t, 200, post(path, ""))
		}
		c.fails(t, "FET-0008", post(path, "")) // the eleventh in a minute
		c.succeeds(t, 200, post(managed+"/"+c.create(t, ledger, nil).ID+"/test", ""))
	})
	port, _, _ := silent(t)
	for category, changes := range map[string]object{
		"dns": {"host": "nowhere.invalid"}, "refused": {"port": 1}, "timeout": {"port": port}, "tls": {"ssl": object{"mode": "require"}},
		"auth": {"password": "canary-wrong"}, "database": {"databaseName": "nowhere"},
	} {
		t.Run(category, func(t *testing.T) {
			t.Parallel()
			made := c.create(t, ledger, changes)
			path := managed + "/" + made.ID
			requests := map[string]call{
				"test": post(path+"/test", ""), "schema": get(path + "/schema"),
				"job": post("/v1/fetcher", request(t, ledger, made.ConfigName, "order", "select")),
			}
			if category == "timeout" { // each takes 10 s or more
				delete(requests, "schema")
				delete(requests, "job")
			}
			for name, r := range requests {
				if f := c.failsAnywhere(t, "FET-1040", r); !strings.Contains(f.Detail, category) {
					t.Errorf("%s: detail %q does not name the category", name, f.Detail)
				}
			}
		})
	}
	t.Run("host", func(t *testing.T) {
		t.Parallel()
		made := c.create(t, ledger, nil)
		narrow := s.manager(t, "ALLOW_PRIVATE_HOSTS=10.0.0.0/8")
		narrow.fails(t, "FET-0414", post(managed+"/"+made.ID+"/test", ""))
		narrow.fails(t, "FET-0414", get(managed+"/"+made.ID+"/schema"))
		narrow.failsAnywhere(t, "FET-0414", post("/v1/fetcher", request(t, ledger, made.ConfigName, "order", "select")))
		narrow.failsAnywhere(t, "FET-0414", post(managed+"/validate-schema", text(t, object{"mappedFields": object{made.ConfigName: object{"order": []string{"*"}}}})))
	})
	t.Run("schema", func(t *testing.T) { testSchema(t, c) })
}

type schema struct {
	ID, ConfigName, DatabaseName, Type string
	Tables                             []struct {
		Name   string
		Fields []string
	}
}

func (s schema) fields(table string) []string {
	for _, candidate := range s.Tables {
		if candidate.Name == table {
			return candidate.Fields
		}
	}
	return nil
}

func testSchema(t *testing.T, c caller) {
	t.Parallel()
	made := c.create(t, ledger, nil)
	var all schema
	c.succeeds(t, 200, get(managed+"/"+made.ID+"/schema")).Decode(t, &all)
	if all.ID != made.ID || all.ConfigName != made.ConfigName || all.DatabaseName != "sample" || all.Type != "POSTGRESQL" {
		t.Errorf("head %+v", all)
	}
	var names []string
	for _, table := range all.Tables {
		if strings.HasPrefix(table.Name, "pg_") || strings.HasPrefix(table.Name, "information_schema.") {
			t.Errorf("system object %s", table.Name)
		}
		if !slices.IsSorted(table.Fields) {
			t.Errorf("fields of %s are not sorted: %v", table.Name, table.Fields)
		}
		names = append(names, table.Name)
	}
	if !slices.IsSorted(names) {
		t.Errorf("tables are not sorted: %v", names)
	}
	for table, fields := range map[string][]string{
		"order":                     {"Total Price", "customerId", "from", "grid", "handled_in", "pickup", "placed", "quantities", "select"},
		"reporting.Weird Name":      {"$dollar", "Id", "MixedCase", "group", "naïve 🙂", `quo"te`, "with space"},
		"reporting.customer_totals": {"bookings", "id", "name", "total"},
	} {
		if diff := cmp.Diff(fields, all.fields(table)); diff != "" {
			t.Errorf("%s: %s", table, diff)
		}
	}
	var one schema
	narrow := c.create(t, ledger, object{"schema": "reporting"})
	c.succeeds(t, 200, get(managed+"/"+narrow.ID+"/schema")).Decode(t, &one)
	names = nil
	for _, table := range one.Tables {
		names = append(names, table.Name)
	}
	if diff := cmp.Diff([]string{"Weird Name", "customer_totals", "ledger"}, names); diff != "" {
		t.Error("with a schema:", diff)
	}
	var detailed struct {
		Tables []struct {
			Name   string
			Fields []struct {
				Name, Type           string
				Nullable, PrimaryKey *bool
				Position             int
			}
		}
	}
	c.succeeds(t, 200, get(managed+"/"+narrow.ID+"/schema?details=true")).Decode(t, &detailed)
	for _, table := range detailed.Tables {
		for _, field := range table.Fields {
			if field.Type == "" || field.Position < 1 || field.Nullable == nil || field.PrimaryKey == nil {
				t.Errorf("%s: %+v", table.Name, field)
			} else if table.Name == "ledger" && *field.PrimaryKey != (field.Name == "entry") {
				t.Errorf("%s: primary key %v", field.Name, *field.PrimaryKey)
			}
		}
	}
}

// testValidateSchema is validate-schema in section 6.
func testValidateSchema(t *testing.T, s *apiSuite) {
	c := s.admin()
	made, down := c.create(t, ledger, nil), c.create(t, ledger, object{"port": 1})
	loose := c.unassigned(t)
	validate := func(mapped any) call {
		return post(managed+"/validate-schema", text(t, object{"mappedFields": mapped}))
	}
	var ok struct{ Status, Message string }
	c.succeeds(t, 200, validate(object{
		made.ConfigName:  object{"order": []string{"select", "Total Price"}, "reporting.ledger": []string{"*"}, "REPORTING.weird name": []string{"id"}},
		loose.ConfigName: object{"customers": []string{"id"}},
	})).Decode(t, &ok)
	if ok.Status != "success" || ok.Message == "" {
		t.Errorf("got %+v", ok)
	}
	// A changed connection is looked at anew, whatever is known of its schema.
	moved := c.create(t, ledger, nil)
	one := object{moved.ConfigName: object{"order": []string{"select"}}}
	c.succeeds(t, 200, validate(one))
	c.succeeds(t, 200, patch(moved.ID, `{"port":1}`))
	c.fails(t, "FET-1060", validate(one), "body.mappedFields."+moved.ConfigName)

	const prefix = "body.mappedFields."
	n := made.ConfigName
	f := c.fails(t, "FET-1060", validate(object{
		n: object{"order": []string{"select", "nope", "nor this"}, "nowhere": []string{"*"}}, "unknown": object{"t": []string{"f"}},
		down.ConfigName: object{"t": []string{"f"}}, internalDown: object{"t": []string{"f"}},
	}), slices.Sorted(slices.Values([]string{
		prefix + n + ".nowhere", prefix + n + ".order.nope", prefix + n + ".order.nor this", prefix + "unknown", prefix + down.ConfigName, prefix + internalDown,
	}))...)
	want := map[string]faultyPart{
		prefix + n + ".nowhere":        {Message: "TABLE_NOT_FOUND", Value: object{"dataSourceId": n, "table": "nowhere"}},
		prefix + n + ".order.nope":     {Message: "FIELD_NOT_FOUND", Value: object{"dataSourceId": n, "table": "order", "field": "nope"}},
		prefix + n + ".order.nor this": {Message: "FIELD_NOT_FOUND", Value: object{"dataSourceId": n, "table": "order", "field": "nor this"}},
		prefix + "unknown":             {Message: "DATA_SOURCE_NOT_FOUND", Value: object{"dataSourceId": "unknown"}},
		prefix + down.ConfigName:       {Message: "DATA_SOURCE_DOWN", Value: object{"dataSourceId": down.ConfigName}},
		prefix + internalDown:          {Message: "DATA_SOURCE_DOWN", Value: object{"dataSourceId": internalDown}},
	}
	for _, part := range f.Errors {
		expected := want[part.Location]
		expected.Location = part.Location
		if diff := cmp.Diff(expected, part); diff != "" {
			t.Errorf("%s: %s", part.Location, diff)
		}
	}
	c.fails(t, "FET-1062", validate(object{"unknown": object{"t": []string{"f"}}, "neither": object{"t": []string{"f"}}}))
	many := func(n int, value any) object {
		out := object{}
		for range n {
			out[unique("m")] = value
		}
		return out
	}
	fields := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = unique("f")
		}
		return out
	}
	c.failsAnywhere(t, "FET-1061", validate(many(11, object{"t": []string{"f"}})))
	c.failsAnywhere(t, "FET-1061", validate(object{n: many(21, []string{"f"})}))
	c.failsAnywhere(t, "FET-1061", validate(object{n: object{"t": fields(51)}}))
	c.failsAnywhere(t, "FET-1062", validate(many(10, object{"t": []string{"f"}})))
	c.failsAnywhere(t, "FET-1060", validate(object{n: many(20, fields(50))}))
	for _, mapped := range []any{
		object{"": object{"t": []string{"f"}}}, object{" ": object{"t": []string{"f"}}}, object{n: object{"": []string{"f"}}},
		object{n: object{"\t": []string{"f"}}}, object{n: object{"t": []string{""}}}, object{n: object{"t": []string{"f", " "}}},
	} {
		c.failsAnywhere(t, "FET-0401", validate(mapped))
	}
	for _, body := range []string{``, `{}`, `[]`, `{"mappedFields":[]}`, `{"mappedFields":{"a":[]}}`, `{"mappedFields":{"a":{"b":"c"}}}`, `{"mappedFields":{"a":{"b":[1]}}}`, `{"mappedFields":{"a":{"b":[null]}}}`} {
		c.failsAnywhere(t, "FET-0001", post(managed+"/validate-schema", body))
	}
	c.fails(t, "FET-0402", post(managed+"/validate-schema", `{"x":1}`), "body.mappedFields")
	globex := c
	globex.token = s.Tenant("globex").Tokens["admin"]
	globex.fails(t, "FET-1062", validate(object{n: object{"order": []string{"*"}}}))
	if got := c.do(t, call{method: http.MethodGet, path: managed + "/validate-schema"}); got.Status != http.StatusNotFound && got.Status != http.StatusBadRequest && got.Status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", got.Status)
	}
}
