package connections_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/postgres"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/testkit"
)

// platform is the definition of a database that only acme may read, changed by the given functions.
func platform(d testkit.Database, change ...func(*connections.Definition)) connections.Definition {
	def := connections.Definition{Tenants: []string{tenant}, Input: input(func(in *connections.Input) {
		in.ConfigName, in.Host, in.Port = new("platform"), &d.Host, &d.Port
		in.DatabaseName, in.UserName, in.Password = &d.Name, &d.Owner, &d.Password
	})}
	for _, f := range change {
		f(&def)
	}
	return def
}

// internals is a service under the strict policy, with the definitions.
func internals(t testing.TB, definitions ...connections.Definition) *connections.Service {
	t.Helper()
	in, err := connections.NewInternals(definitions...)
	if err != nil {
		t.Fatal(err)
	}
	return service(t, connections.Options{Internal: in, Drivers: source.Drivers{source.PostgreSQL: postgres.New()}})
}

func TestInternalAsSeenByTenants(t *testing.T) {
	t.Parallel()
	d := testkit.Database{Host: "10.0.0.1", Port: 5432, Name: "ledger", Owner: "reader", Password: canary}
	s := internals(t, platform(d),
		platform(d, func(def *connections.Definition) {
			def.Input.ConfigName, def.Tenants, def.Everyone = new("all-may"), nil, true
			def.Options = map[string]string{"schema": " main "}
			def.Input.SSL = &connections.SSLInput{Mode: new("require")}
		}),
		platform(d, func(def *connections.Definition) { def.Input.ConfigName, def.Tenants = new("nobody"), nil }))
	got := s.Internal(tenant)
	for i := range got {
		if got[i].Revision <= 0 {
			t.Errorf("revision %d", got[i].Revision)
		}
		got[i].Revision = 0
	}
	want := []store.Connection{
		{
			ID: uuid.MustParse("d4182aad-ccd3-561e-8382-5415695ab394"), ConfigName: "all-may", Kind: "POSTGRESQL", Host: "10.0.0.1", Port: 5432,
			DatabaseName: "ledger", UserName: "reader", Schema: new("main"), SSLMode: new("require"),
		},
		{
			ID: uuid.MustParse("ebb02892-856f-508f-94f6-c8d94875cc35"), ConfigName: "platform", Kind: "POSTGRESQL", Host: "10.0.0.1", Port: 5432,
			DatabaseName: "ledger", UserName: "reader",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	others := s.Internal("globex")
	if len(others) != 1 || others[0].ConfigName != "all-may" || others[0].ID == got[0].ID {
		t.Errorf("globex sees %v", others)
	}
	if none := service(t, connections.Options{}).Internal(tenant); none == nil || len(none) != 0 {
		t.Errorf("without definitions: %v", none)
	}
}

// Whoever may not read a datasource can't tell it from one that does not exist.
func TestInternalGetAndResolve(t *testing.T) {
	t.Parallel()
	_, db := database(t)
	_, globex := database(t)
	d := testkit.Postgres(t).CreateDatabase(t, testkit.DatabaseOptions{})
	s := internals(t, platform(d))
	id := s.Internal(tenant)[0].ID
	c, err := s.Get(t.Context(), db, tenant, id)
	if err != nil || c.ConfigName != "platform" || !s.IsInternal(tenant, c) {
		t.Fatalf("got %v, %v", c, err)
	}
	_, err = s.Get(t.Context(), globex, "globex", id)
	_, unknown := s.Get(t.Context(), globex, "globex", uuid.New())
	if problem.CodeOf(err) != problem.NotFoundInTenant || fmt.Sprint(err) != fmt.Sprint(unknown) {
		t.Errorf("another tenant: %v; an unknown id: %v", err, unknown)
	}
	if s.IsInternal("globex", c) {
		t.Error("internal for a tenant that may not read it")
	}
	for _, tenantID := range []string{tenant, "globex"} {
		_, err = s.Create(t.Context(), db, tenantID, product, input(func(in *connections.Input) { in.ConfigName = new("platform") }))
		if diff := cmp.Diff(answer{problem.NameTaken, []string{"body.configName"}}, answerOf(t, err)); diff != "" {
			t.Error(tenantID, diff)
		}
	}
	own, err := s.Create(t.Context(), globex, "globex", product, input())
	if err != nil {
		t.Fatal(err)
	}
	// A connection from before the definition: the name means the datasource all the same.
	earlier := store.Connection{
		ID: uuid.Must(uuid.NewV7()), ConfigName: "platform", Kind: "POSTGRESQL", Host: "db", Port: 1, DatabaseName: "d", UserName: "u",
		PasswordSealed: []byte("x"), KeyVersion: 3,
	}
	if err = globex.Create(t.Context(), &earlier); err != nil {
		t.Fatal(err)
	}
	for tenantID, want := range map[string]map[string]uuid.UUID{
		tenant: {"platform": id, "orders_db": own.ID}, "globex": {"orders_db": own.ID},
	} {
		found, err := s.Resolve(t.Context(), globex, tenantID, []string{"platform", "orders_db", "nothing"})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]uuid.UUID{}
		for name, c := range found {
			got[name] = c.ID
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(tenantID, diff)
		}
	}
}

// The strict guard refuses loopback to tenants; the operator's own database is dialled there.
func TestInternalIsDialledAsConfigured(t *testing.T) {
	t.Parallel()
	d := testkit.Postgres(t).CreateDatabase(t, testkit.DatabaseOptions{})
	exec := openDB(t, d.DSN)
	for _, statement := range []string{`CREATE SCHEMA main`, `CREATE TABLE main.entry (id int, amount numeric)`, `CREATE TABLE other (x int)`} {
		if _, err := exec.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s := internals(t, platform(d, func(def *connections.Definition) { def.Options = map[string]string{"schema": "main"} }))
	c := s.Internal(tenant)[0]
	if _, err := s.Test(t.Context(), tenant, &c); err != nil {
		t.Fatal(err)
	}
	catalog, err := s.Schema(t.Context(), tenant, &c)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, table := range catalog.Tables {
		for _, column := range table.Columns {
			got[table.Name] = append(got[table.Name], column.Name)
		}
	}
	if diff := cmp.Diff(map[string][]string{"entry": {"id", "amount"}}, got); diff != "" {
		t.Error(diff)
	}
	// The row alone opens nothing to another tenant.
	if _, err = s.Test(t.Context(), "globex", &c); problem.CodeOf(err) != problem.HostNotAllowed {
		t.Errorf("another tenant: %v", err)
	}
	if _, guarded := s.Dialer("globex", &c).(*dial.Guard); !guarded {
		t.Error("another tenant gets a dialer without rules")
	}
}

func TestInternalFailuresTellNoAddress(t *testing.T) {
	t.Parallel()
	d := testkit.Postgres(t).CreateDatabase(t, testkit.DatabaseOptions{})
	for name, tc := range map[string]struct {
		change func(*testkit.Database)
		detail string
	}{
		"closed":   {func(d *testkit.Database) { d.Port = 1 }, "the connection failed: refused"},
		"password": {func(d *testkit.Database) { d.Password = canary }, "the connection failed: auth"},
		"name":     {func(d *testkit.Database) { d.Host = "canary-host.invalid" }, "the connection failed: dns"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := d
			tc.change(&broken)
			s := internals(t, platform(broken))
			c := s.Internal(tenant)[0]
			_, err := s.Test(t.Context(), tenant, &c)
			var p *problem.Error
			if !errors.As(err, &p) || p.Code != problem.SourceUnreachable || p.Detail != tc.detail {
				t.Fatalf("got %v", err)
			}
			if text := err.Error(); strings.Contains(text, "canary-host") || strings.Contains(text, canary) {
				t.Errorf("the error tells too much: %s", text)
			}
		})
	}
}

func TestDefinitionFaults(t *testing.T) {
	t.Parallel()
	p := pems()
	sound := func(change func(*connections.Definition)) connections.Definition {
		return platform(testkit.Database{Host: "db.internal", Port: 5432, Name: "d", Owner: "u", Password: "p"}, change)
	}
	ssl := func(in connections.SSLInput) func(*connections.Definition) {
		return func(d *connections.Definition) { d.Input.SSL = &in }
	}
	options := func(kind string, o map[string]string) func(*connections.Definition) {
		return func(d *connections.Definition) { d.Input.Kind, d.Options = &kind, o }
	}
	for name, tc := range map[string]struct {
		change func(*connections.Definition)
		tls    bool
		want   map[string]string
	}{
		"sound":            {func(*connections.Definition) {}, false, nil},
		"any host":         {func(d *connections.Definition) { d.Input.Host = new("169.254.169.254") }, false, nil},
		"all of it":        {ssl(connections.SSLInput{Mode: new("verify-full"), CA: &p.rsaCert, Cert: &p.rsaCert, Key: &p.rsaKey}), true, nil},
		"oracle":           {options("ORACLE", map[string]string{"serviceName": "X", "schema": "S"}), false, nil},
		"mongodb":          {options("MONGODB", map[string]string{"authSource": "a", "replicaSet": "r", "directConnection": "true"}), false, nil},
		"nothing":          {func(d *connections.Definition) { d.Input = connections.Input{} }, false, map[string]string{"body.configName": "is required", "body.type": "is required", "body.host": "is required", "body.port": "must be 1 to 65535", "body.databaseName": "is required", "body.userName": "is required", "body.password": "is required"}},
		"name":             {func(d *connections.Definition) { d.Input.ConfigName = new("a b") }, false, map[string]string{"body.configName": "must be 3 to 100 characters of A-Z, a-z, 0-9, _ and -"}},
		"kind":             {func(d *connections.Definition) { d.Input.Kind = new("postgres") }, false, map[string]string{"body.type": "must be one of POSTGRESQL, MYSQL, ORACLE, SQL_SERVER, MONGODB"}},
		"host":             {func(d *connections.Definition) { d.Input.Host = new("127.1") }, false, map[string]string{"body.host": "must be a host name or an IP address"}},
		"mode":             {ssl(connections.SSLInput{Mode: new("strict")}), false, map[string]string{"body.ssl.mode": "is not a mode of this type"}},
		"mode required":    {ssl(connections.SSLInput{CA: &p.rsaCert}), false, map[string]string{"body.ssl.mode": "is required"}},
		"key without cert": {ssl(connections.SSLInput{Mode: new("require"), Key: &p.rsaKey}), false, map[string]string{"body.ssl.cert": "is required"}},
		"cert without key": {ssl(connections.SSLInput{Mode: new("require"), Cert: &p.rsaCert}), false, map[string]string{"body.ssl.key": "is required"}},
		"other key":        {ssl(connections.SSLInput{Mode: new("require"), Cert: &p.rsaCert, Key: &p.otherKey}), false, map[string]string{"body.ssl.key": "does not belong to the certificate"}},
		"no PEM":           {ssl(connections.SSLInput{Mode: new("require"), CA: new(canary)}), false, map[string]string{"body.ssl.ca": "must be PEM with one or more certificates"}},
		"TLS demanded":     {func(*connections.Definition) {}, true, map[string]string{"body.ssl": "is required"}},
		"TLS maybe":        {ssl(connections.SSLInput{Mode: new("prefer")}), true, map[string]string{"body.ssl.mode": "may leave the connection unencrypted, which is not allowed here"}},
		"unknown option":   {options("POSTGRESQL", map[string]string{"serviceName": canary}), false, map[string]string{"options": "must be of schema"}},
		"flag":             {options("MONGODB", map[string]string{"directConnection": canary}), false, map[string]string{"options": "directConnection must be true or false"}},
		"blank option":     {options("ORACLE", map[string]string{"serviceName": " "}), false, map[string]string{"options": "serviceName must be 1 to 255 characters"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]string{}
			for _, f := range sound(tc.change).Check(tc.tls) {
				got[f.Location] = f.Message
			}
			if !maps.Equal(tc.want, got) {
				t.Error(cmp.Diff(tc.want, got))
			}
			if strings.Contains(fmt.Sprint(slices.Collect(maps.Values(got))), canary) {
				t.Errorf("a value shows in %v", got)
			}
		})
	}
	twice := sound(func(*connections.Definition) {})
	if _, err := connections.NewInternals(twice, twice); err == nil {
		t.Error("two datasources of one name")
	}
}

func TestDefinitionParams(t *testing.T) {
	t.Parallel()
	p := pems()
	d := platform(testkit.Database{Host: "db", Port: 27017, Name: "crm", Owner: "u", Password: " " + canary + " "}, func(d *connections.Definition) {
		d.Input.Kind, d.Options = new("MONGODB"), map[string]string{"replicaSet": "r", "directConnection": "true"}
		d.Input.SSL = &connections.SSLInput{Mode: new("true"), CA: &p.rsaCert, Cert: &p.ecCert, Key: &p.ecKey}
	})
	s := internals(t, d)
	c := s.Internal(tenant)[0]
	got, err := s.Params(tenant, &c)
	if err != nil {
		t.Fatal(err)
	}
	want := source.Params{
		Kind: source.MongoDB, Host: "db", Port: 27017, Database: "crm", User: "u", Password: " " + canary + " ",
		TLS:     source.TLS{Mode: "true", CA: strings.TrimSpace(p.rsaCert), Cert: strings.TrimSpace(p.ecCert), Key: strings.TrimSpace(p.ecKey)},
		Options: map[string]string{"authSource": "admin", "replicaSet": "r", "directConnection": "true"},
	}
	if diff := cmp.Diff(fields(want), fields(got)); diff != "" {
		t.Error(diff)
	}
	if text := fmt.Sprintf("%v %+v", d, c); strings.Contains(text, canary) {
		t.Errorf("the password shows in %s", text)
	}
}

// fields takes Params apart, which don't print.
func fields(p source.Params) []any {
	return []any{p.Kind, p.Host, p.Port, p.Database, p.User, p.Password, p.Schema, p.TLS, p.Options}
}
