package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var uuidV7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// testConnections is creation and reading in section 6.
func testConnections(t *testing.T, s *apiSuite) {
	c := s.admin()
	product := []string{"X-Product-Name", ledger}
	create := func(changes object) call {
		return post(managed, text(t, s.sample(unique("made"), changes)), product...)
	}
	t.Run("all members", func(t *testing.T) {
		t.Parallel()
		name := unique("all")
		full := post(managed, text(t, s.sample("  "+name+"\t", object{
			"host": " " + s.Info.Sample.Host + " ", "schema": " reporting ", "metadata": object{"b": json.Number("1.10"), "a": []any{nil, true}},
			"password": " not trimmed ",
		})), product...)
		full.lenient = true // the document can't say that blanks around are cut off
		made := c.succeeds(t, 201, full)
		var body object
		made.Decode(t, &body)
		want := object{
			"productName": ledger, "configName": name, "type": "POSTGRESQL", "host": s.Info.Sample.Host, "port": float64(s.Info.Sample.Port),
			"databaseName": "sample", "schema": "reporting", "userName": s.Info.Sample.UserName, "ssl": object{"mode": "disable"},
			"metadata": object{"b": 1.1, "a": []any{nil, true}},
		}
		ignored := cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return slices.Contains([]string{"id", "createdAt", "updatedAt"}, k) })
		if diff := cmp.Diff(want, body, ignored); diff != "" {
			t.Error(diff)
		}
		if id, _ := body["id"].(string); !uuidV7.MatchString(id) || made.Header.Get("Location") != managed+"/"+id {
			t.Errorf("id %v, Location %q", body["id"], made.Header.Get("Location"))
		}
		for _, at := range []string{"createdAt", "updatedAt"} {
			if v, _ := body[at].(string); !strings.HasSuffix(v, "Z") {
				t.Errorf("%s %v", at, body[at])
			}
		}
		read := c.succeeds(t, 200, get(made.Header.Get("Location")))
		if string(read.Body) != string(made.Body) || read.Header.Get("ETag") == "" || read.Header.Get("ETag") != made.Header.Get("ETag") {
			t.Errorf("read %s %s, made %s %s", read.Header.Get("ETag"), read.Body, made.Header.Get("ETag"), made.Body)
		}
		if !strings.Contains(string(made.Body), "1.10") {
			t.Errorf("digits of metadata are gone: %s", made.Body)
		}
	})
	required := []string{"configName", "databaseName", "host", "password", "port", "type", "userName"}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		for _, name := range required {
			c.fails(t, "FET-0402", create(object{name: nil}), "body."+name)
			c.fails(t, "FET-0402", create(object{name: json.RawMessage("null")}), "body."+name)
			if name != "port" {
				c.fails(t, "FET-0402", create(object{name: ""}), "body."+name)
				c.fails(t, "FET-0402", create(object{name: " \t"}), "body."+name)
			}
		}
		all := []string{}
		for _, name := range required {
			all = append(all, "body."+name)
		}
		c.fails(t, "FET-0402", post(managed, `{"schema":"x"}`, product...), all...)
		c.fails(t, "FET-0402", create(object{"ssl": object{"ca": "x"}}), "body.ssl.mode")
		c.fails(t, "FET-0402", create(object{"ssl": object{"mode": "require", "cert": "x"}}), "body.ssl.key")
		c.fails(t, "FET-0402", create(object{"ssl": object{"mode": "require", "key": "canary-key"}}), "body.ssl.cert")
	})
	t.Run("formats", func(t *testing.T) {
		t.Parallel()
		for location, values := range map[string][]any{
			"configName":   {"ab", strings.Repeat("a", 101), "a b c", "a.b", "ünicode", "a\x00bc", "a/b/c", 5, true, object{}, []int{}},
			"type":         {"postgresql", "SQLITE", "POSTGRESQL\x00", 1, object{}},
			"host":         {"2852039166", "0x7f.1", "127.1", "0177.0.0.1", "[::1]", "a b", "a..b", "-a.example", "http://a", "a:1", "a/b", "a\x00", strings.Repeat("a", 256), strings.Repeat("a", 64) + ".example", 7},
			"port":         {0, -1, 65536, 1.5, "5432", json.Number("1e2"), json.Number("99999999999999999999"), true, []int{1}},
			"databaseName": {strings.Repeat("d", 256), "a\x00b", 1},
			"userName":     {strings.Repeat("u", 256), "a\x00b", false},
			"password":     {strings.Repeat("p", 1025), "canary-\x00", 12345},
			"schema":       {strings.Repeat("s", 256), "a\x00b", 1},
			"ssl":          {"disable", 1, []string{}},
			"metadata":     {"x", 1, []string{}, true},
		} {
			for _, value := range values {
				f := c.fails(t, "FET-0001", create(object{location: value}), "body."+location)
				if location == "password" && len(f.Errors) == 1 && f.Errors[0].Value != nil {
					t.Error("the value of a password is told")
				}
			}
		}
		for _, pem := range []string{"x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "-----BEGIN X-----\n-----END X-----"} {
			c.fails(t, "FET-0001", create(object{"ssl": object{"mode": "verify-ca", "ca": pem}}), "body.ssl.ca")
		}
	})
	t.Run("accepted", func(t *testing.T) {
		t.Parallel()
		for _, changes := range []object{
			{"configName": strings.Repeat("A", 90) + unique("-_")}, {"host": "under_score.example"}, {"host": "EXAMPLE.com."}, {"host": "192.0.2.1.example"},
			{"port": 1}, {"port": 65535}, {"userName": strings.Repeat("ü", 255)}, {"password": strings.Repeat("p", 1024)},
			{"ssl": object{}}, {"metadata": object{}},
		} {
			c.succeeds(t, 201, create(changes))
		}
	})
	t.Run("modes", func(t *testing.T) { testModes(t, c, create) })
	t.Run("hosts", func(t *testing.T) {
		t.Parallel()
		for _, host := range []string{
			"169.254.169.254", "168.63.129.16", "10.1.2.3", "192.168.0.1", "172.16.0.1", "100.64.0.1", "0.0.0.0", "224.0.0.1", "fd00::1", "fe80::1",
			"::ffff:10.0.0.1", "2002:0a00:0001::", "64:ff9b::a00:1", "db.internal", "printer.local", "x.svc.cluster.local", "::", "fd00:ec2::254",
		} {
			f := c.fails(t, "FET-0414", create(object{"host": host}), "body.host")
			if strings.Contains(f.Detail, host) || f.Errors != nil && f.Errors[0].Value != nil {
				t.Errorf("%s is echoed: %+v", host, f)
			}
		}
	})
	t.Run("names", func(t *testing.T) {
		t.Parallel()
		made := c.create(t, ledger, nil)
		c.fails(t, "FET-1002", post(managed, text(t, s.sample(made.ConfigName, nil)), "X-Product-Name", "other"), "body.configName")
		c.fails(t, "FET-1002", post(managed, text(t, s.sample(internalDown, nil)), product...), "body.configName")
		c.succeeds(t, 201, post(managed, text(t, s.sample(strings.ToUpper(made.ConfigName), nil)), product...))
		globex := c
		globex.token = s.Tenant("globex").Tokens["admin"]
		globex.succeeds(t, 201, post(managed, text(t, s.sample(made.ConfigName, nil)), product...))
		c.succeeds(t, 204, remove(made.ID))
		c.succeeds(t, 201, post(managed, text(t, s.sample(made.ConfigName, nil)), product...))
	})
	t.Run("internal", func(t *testing.T) { testInternal(t, s) })
}

// testModes is the table of SSL modes.
func testModes(t *testing.T, c caller, create func(object) call) {
	t.Parallel()
	modes := map[string][]string{
		"POSTGRESQL": {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"},
		"MYSQL":      {"false", "true", "skip-verify", "preferred"},
		"ORACLE":     {"disable", "false", "true", "enable", "verify", "skip-verify"},
		"MONGODB":    {"disable", "false", "true", "enable", "insecure"},
		"SQL_SERVER": {"disable", "false", "true", "strict"},
	}
	every := map[string]bool{"nonsense": true, "Disable": true, "REQUIRE": true}
	for _, list := range modes {
		for _, mode := range list {
			every[mode] = true
		}
	}
	for kind, valid := range modes {
		for mode := range every {
			r := create(object{"type": kind, "ssl": object{"mode": mode}})
			if slices.Contains(valid, mode) {
				c.succeeds(t, 201, r)
			} else {
				c.fails(t, "FET-0413", r, "body.ssl.mode")
			}
		}
	}
}

// testInternal: internal datasources are read like connections and never changed.
func testInternal(t *testing.T, s *apiSuite) {
	t.Parallel()
	c := s.admin()
	var listed struct{ Items []object }
	c.succeeds(t, 200, get(managed+"?limit=1")).Decode(t, &listed)
	id, _ := listed.Items[0]["id"].(string)
	if want := (object{
		"id": id, "configName": internalDown, "type": "POSTGRESQL", "host": "127.0.0.1", "port": 1.0, "databaseName": "d", "userName": "u",
	}); !cmp.Equal(want, listed.Items[0]) || id[14] != '5' {
		t.Errorf("listed %s", cmp.Diff(want, listed.Items[0]))
	}
	path := managed + "/" + id
	c.succeeds(t, 200, get(path))
	c.fails(t, "FET-1040", post(path+"/test", ""))
	c.fails(t, "FET-1040", get(path+"/schema"))
	c.fails(t, "FET-1001", patch(id, `{"port":2}`))
	c.fails(t, "FET-1001", remove(id))
	c.fails(t, "FET-1001", post(path+"/assign", "", "X-Product-Name", ledger))
	// Exempt from product and live test; the worker finds out.
	job := c.submit(t, request(t, "any-product", internalDown, "t", "f"))
	c.succeeds(t, http.StatusAccepted, post("/v1/fetcher/"+job+"/cancel", ""))
	globex := c
	globex.token = s.Tenant("globex").Tokens["admin"]
	globex.fails(t, "FET-1001", get(path))
	globex.fails(t, "FET-1020", post("/v1/fetcher", request(t, ledger, internalDown, "t", "f")), "body.dataRequest.mappedFields."+internalDown)
}
