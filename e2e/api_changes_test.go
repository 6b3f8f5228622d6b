package e2e

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func patch(id, body string, headers ...string) call {
	return call{method: http.MethodPatch, path: managed + "/" + id, body: body, headers: headers}
}

func remove(id string, headers ...string) call {
	return call{method: http.MethodDelete, path: managed + "/" + id, headers: headers}
}

// testPatch is PATCH in section 6.
func testPatch(t *testing.T, s *apiSuite) {
	c := s.admin()
	t.Run("merge", func(t *testing.T) {
		t.Parallel()
		made := c.create(t, ledger, object{"schema": "reporting", "metadata": object{"a": 1, "b": object{"c": 2, "d": 3}}})
		step := func(body string, change func(*connection)) {
			t.Helper()
			got := c.succeeds(t, 200, patch(made.ID, body))
			var now connection
			got.Decode(t, &now)
			change(&made)
			made.UpdatedAt = now.UpdatedAt
			if diff := cmp.Diff(made, now); diff != "" {
				t.Errorf("%s: %s", body, diff)
			}
			read := c.succeeds(t, 200, get(managed+"/"+made.ID))
			if string(read.Body) != string(got.Body) || read.Header.Get("ETag") != got.Header.Get("ETag") {
				t.Errorf("%s: read %s, answered %s", body, read.Body, got.Body)
			}
		}
		step(`{"port":7}`, func(c *connection) { c.Port = 7 })
		step(`{"unknown":1,"userName":" trimmed "}`, func(c *connection) { c.UserName = "trimmed" })
		step(`{"metadata":{"b":{"c":null,"e":[null]},"a":null}}`, func(c *connection) {
			c.Metadata = object{"b": object{"d": 3.0, "e": []any{nil}}}
		})
		step(`{"metadata":{"b":"x"}}`, func(c *connection) { c.Metadata = object{"b": "x"} })
		step(`{"ssl":{"mode":"require"}}`, func(c *connection) { c.SSL.Mode = "require" })
		step(`{"schema":null,"ssl":null,"metadata":null}`, func(c *connection) { c.Schema, c.SSL, c.Metadata = nil, nil, nil })
		step(`{"type":"MYSQL","ssl":{"mode":"preferred"}}`, func(c *connection) { c.Type, c.SSL = "MYSQL", &struct{ Mode string }{"preferred"} })
		name := unique("renamed")
		step(`{"configName":"`+name+`"}`, func(c *connection) { c.ConfigName = name })
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		made := c.create(t, ledger, object{"ssl": object{"mode": "prefer"}})
		taken := c.create(t, ledger, nil)
		for _, name := range []string{"configName", "type", "host", "port", "databaseName", "userName", "password"} {
			c.fails(t, "FET-0402", patch(made.ID, `{"`+name+`":null}`), "body."+name)
		}
		for _, tc := range []struct{ body, code, location string }{
			{`{}`, "FET-0001", "body"}, {``, "FET-0001", "body"}, {`{"unknown":1}`, "FET-0001", "body"}, {`[]`, "FET-0001", "body"},
			{`{"id":"x","createdAt":null}`, "FET-0001", "body"}, {`{"port":"1"}`, "FET-0001", "body.port"}, {`{"port":0}`, "FET-0001", "body.port"},
			{`{"host":"10.0.0.1"}`, "FET-0414", "body.host"}, {`{"host":"127.1"}`, "FET-0001", "body.host"},
			{`{"type":"MYSQL"}`, "FET-0413", "body.ssl.mode"}, {`{"ssl":{"mode":"strict"}}`, "FET-0413", "body.ssl.mode"},
			{`{"ssl":{"mode":null,"ca":"x"}}`, "FET-0402", "body.ssl.mode"}, {`{"ssl":{"cert":"x"}}`, "FET-0402", "body.ssl.key"},
			{`{"ssl":{"ca":"x"}}`, "FET-0001", "body.ssl.ca"}, {`{"ssl":[]}`, "FET-0001", "body.ssl"}, {`{"metadata":1}`, "FET-0001", "body.metadata"},
			{`{"userName":""}`, "FET-0402", "body.userName"}, {`{"configName":"a b"}`, "FET-0001", "body.configName"},
			{`{"port":1,"port":2}`, "FET-0001", "body.port"},
		} {
			c.fails(t, tc.code, patch(made.ID, tc.body), tc.location)
		}
		c.fails(t, "FET-1002", patch(made.ID, `{"configName":"`+taken.ConfigName+`"}`), "body.configName")
		c.fails(t, "FET-1002", patch(made.ID, `{"configName":"`+internalDown+`"}`), "body.configName")
		c.fails(t, "FET-0402", patch(made.ID, `{"userName":null,"port":0}`), "body.userName") // missing before formats
		c.fails(t, "FET-0414", patch(made.ID, `{"host":"10.0.0.1","userName":null}`), "body.host")
		c.succeeds(t, 200, patch(made.ID, `{"configName":"`+made.ConfigName+`"}`)) // its own name
	})
	t.Run("If-Match", func(t *testing.T) {
		t.Parallel()
		made := c.create(t, ledger, nil)
		old := c.succeeds(t, 200, get(managed+"/"+made.ID)).Header.Get("ETag")
		current := c.succeeds(t, 200, patch(made.ID, `{"port":5}`, "If-Match", old)).Header.Get("ETag")
		if current == old {
			t.Errorf("the ETag is still %s", old)
		}
		for _, tag := range []string{old, `"nonsense"`, `W/` + current} {
			c.fails(t, "FET-1090", patch(made.ID, `{"port":6}`, "If-Match", tag), "header.If-Match")
			c.fails(t, "FET-1090", remove(made.ID, "If-Match", tag), "header.If-Match")
		}
		c.fails(t, "FET-1090", patch(made.ID, `{"host":"10.0.0.1","port":0}`, "If-Match", old), "header.If-Match") // before the rest
		c.fails(t, "FET-0001", patch(made.ID, `{"port":"x"}`, "If-Match", old), "body.port")                       // but after the parse
		c.succeeds(t, 200, patch(made.ID, `{"port":6}`, "If-Match", `"x", `+current))
		c.succeeds(t, 200, patch(made.ID, `{"port":7}`, "If-Match", "*"))
		c.succeeds(t, 200, patch(made.ID, `{"port":8}`))
		last := c.succeeds(t, 200, get(managed+"/"+made.ID)).Header.Get("ETag")
		c.succeeds(t, 204, remove(made.ID, "If-Match", last))
	})
}

// testAssignAndDelete are the two one-way changes.
func testAssignAndDelete(t *testing.T, s *apiSuite) {
	c := s.admin()
	loose := c.unassigned(t)
	if loose.ProductName == nil { // as it was created
		t.Fatal("the fixture had no product from the start")
	}
	var read connection
	c.succeeds(t, 200, get(managed+"/"+loose.ID)).Decode(t, &read)
	if read.ProductName != nil {
		t.Errorf("product %q", *read.ProductName)
	}
	c.fails(t, "FET-1014", post("/v1/fetcher", request(t, ledger, loose.ConfigName, "order", "select")), "body.dataRequest.mappedFields."+loose.ConfigName)
	assign := func(product string) call { return post(managed+"/"+loose.ID+"/assign", "", "X-Product-Name", product) }
	// Of many at once one wins.
	const many = 8
	won := make(chan string, many)
	done := make(chan struct{})
	for i := range many {
		go func() {
			defer func() { done <- struct{}{} }()
			product := "p" + string(rune('a'+i))
			switch got := c.do(t, assign(product)); got.Status {
			case http.StatusOK:
				if got.Header.Get("ETag") == "" {
					t.Error("no ETag")
				}
				won <- product
			case http.StatusConflict:
			default:
				t.Errorf("%d: %s", got.Status, got.Body)
			}
		}()
	}
	for range many {
		<-done
	}
	close(won)
	var winners []string
	for product := range won {
		winners = append(winners, product)
	}
	c.succeeds(t, 200, get(managed+"/"+loose.ID)).Decode(t, &read)
	if len(winners) != 1 || read.ProductName == nil || *read.ProductName != winners[0] {
		t.Errorf("winners %v, product %v", winners, read.ProductName)
	}
	c.fails(t, "FET-1015", assign(winners[0]))
	c.fails(t, "FET-1016", post("/v1/fetcher", request(t, "elsewhere", loose.ConfigName, "order", "select")), "body.dataRequest.mappedFields."+loose.ConfigName)
	c.succeeds(t, 202, post("/v1/fetcher", request(t, "  "+winners[0]+" ", loose.ConfigName, "order", "select")))

	gone := c.create(t, ledger, nil)
	path := managed + "/" + gone.ID
	if got := c.succeeds(t, 204, remove(gone.ID)); len(got.Body) != 0 {
		t.Errorf("204 with a body: %s", got.Body)
	}
	for _, r := range []call{
		remove(gone.ID), get(path), patch(gone.ID, `{"port":1}`), post(path+"/test", ""), get(path + "/schema"),
		post(path+"/assign", "", "X-Product-Name", ledger),
	} {
		c.fails(t, "FET-1001", r)
	}
	c.fails(t, "FET-1020", post("/v1/fetcher", request(t, ledger, gone.ConfigName, "order", "select")), "body.dataRequest.mappedFields."+gone.ConfigName)
}
