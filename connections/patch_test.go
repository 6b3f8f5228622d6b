package connections_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/store"
)

func to[T any](value T) connections.Member[T] {
	return connections.Member[T]{Given: true, Value: &value}
}

func null[T any]() connections.Member[T] { return connections.Member[T]{Given: true} }

func ssl(change func(*connections.SSLPatch)) connections.Patch {
	var p connections.SSLPatch
	change(&p)
	return connections.Patch{SSL: to(p)}
}

// full is a connection with every member.
func full(t *testing.T, s *connections.Service, rows store.Connections, name string) *store.Connection {
	t.Helper()
	c, err := s.Create(t.Context(), rows, tenant, product, input(func(in *connections.Input) {
		in.ConfigName, in.Schema, in.Metadata = &name, new("sales"), []byte(`{"team":"a","n":1.0}`)
		in.SSL = &connections.SSLInput{Mode: new("verify-full"), CA: &pems().rsaCert, Cert: &pems().ecCert, Key: &pems().ecKey}
	}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestUpdateMerges(t *testing.T) {
	t.Parallel()
	_, rows := database(t)
	m := pems()
	pem := strings.TrimSpace
	for name, tc := range map[string]struct {
		patch connections.Patch
		row   func(*store.Connection)
		reach func(*source.Params)
	}{
		"nothing of ssl": {ssl(func(*connections.SSLPatch) {}), func(*store.Connection) {}, func(*source.Params) {}},
		"name": {connections.Patch{ConfigName: to(" renamed ")},
			func(c *store.Connection) { c.ConfigName = "renamed" }, func(*source.Params) {}},
		"where it is": {connections.Patch{Host: to("other.example.com"), Port: to(6432), DatabaseName: to("db"), UserName: to("u")},
			func(c *store.Connection) {
				c.Host, c.Port, c.DatabaseName, c.UserName = "other.example.com", 6432, "db", "u"
			},
			func(p *source.Params) { p.Host, p.Port, p.Database, p.User = "other.example.com", 6432, "db", "u" }},
		"password":  {connections.Patch{Password: to(" new ")}, func(*store.Connection) {}, func(p *source.Params) { p.Password = " new " }},
		"schema":    {connections.Patch{Schema: to("s2")}, func(c *store.Connection) { c.Schema = new("s2") }, func(p *source.Params) { p.Schema = "s2" }},
		"no schema": {connections.Patch{Schema: null[string]()}, func(c *store.Connection) { c.Schema = nil }, func(p *source.Params) { p.Schema = "" }},
		"no ssl": {connections.Patch{SSL: null[connections.SSLPatch]()},
			func(c *store.Connection) { c.SSLMode = nil }, func(p *source.Params) { p.TLS = source.TLS{} }},
		"mode": {ssl(func(p *connections.SSLPatch) { p.Mode = to("require") }),
			func(c *store.Connection) { c.SSLMode = new("require") }, func(p *source.Params) { p.TLS.Mode = "require" }},
		"no ca":  {ssl(func(p *connections.SSLPatch) { p.CA = null[string]() }), func(*store.Connection) {}, func(p *source.Params) { p.TLS.CA = "" }},
		"new ca": {ssl(func(p *connections.SSLPatch) { p.CA = to(m.ecCert) }), func(*store.Connection) {}, func(p *source.Params) { p.TLS.CA = pem(m.ecCert) }},
		"no pair": {ssl(func(p *connections.SSLPatch) { p.Cert, p.Key = null[string](), null[string]() }),
			func(*store.Connection) {}, func(p *source.Params) { p.TLS.Cert, p.TLS.Key = "", "" }},
		"new pair": {ssl(func(p *connections.SSLPatch) { p.Cert, p.Key = to(m.rsaCert), to(m.rsaKey) }),
			func(*store.Connection) {}, func(p *source.Params) { p.TLS.Cert, p.TLS.Key = pem(m.rsaCert), pem(m.rsaKey) }},
		"every part of ssl": {ssl(func(p *connections.SSLPatch) {
			p.Mode, p.CA, p.Cert, p.Key = null[string](), null[string](), null[string](), null[string]()
		}), func(c *store.Connection) { c.SSLMode = nil }, func(p *source.Params) { p.TLS = source.TLS{} }},
		"metadata": {connections.Patch{Metadata: []byte(`{"team":null,"m":{"x":1}}`)},
			func(c *store.Connection) { c.Metadata = []byte(`{"n":1.0,"m":{"x":1}}`) }, func(*source.Params) {}},
		"no metadata": {connections.Patch{Metadata: []byte(`null`)}, func(c *store.Connection) { c.Metadata = nil }, func(*source.Params) {}},
		"type with its mode": {connections.Patch{Kind: to("MYSQL"), SSL: to(connections.SSLPatch{Mode: to("true")})},
			func(c *store.Connection) { c.Kind, c.SSLMode = "MYSQL", new("true") },
			func(p *source.Params) { p.Kind, p.TLS.Mode = source.MySQL, "true" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
			s := service(t, connections.Options{Now: func() time.Time { now = now.Add(time.Second); return now }})
			before := full(t, s, rows, strings.ReplaceAll(name, " ", "-")+"-0")
			wantReach, err := s.Params(tenant, before)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Update(t.Context(), rows, tenant, before.ID, nil, tc.patch)
			if err != nil {
				t.Fatal(err)
			}
			stored, err := rows.Get(t.Context(), before.ID)
			if err != nil || !cmp.Equal(got, stored) {
				t.Errorf("returned and stored differ, %v (-returned +stored):\n%s", err, cmp.Diff(got, stored))
			}
			reach, err := s.Params(tenant, stored)
			if err != nil {
				t.Fatal(err)
			}
			tc.reach(&wantReach)
			if !cmp.Equal(wantReach, reach) {
				t.Error("the parameters differ from what they should be") // the values are secrets: they are not printed
			}
			want := *before
			want.Revision, want.UpdatedAt = 2, now
			tc.row(&want)
			for _, c := range []*store.Connection{&want, stored} {
				c.PasswordSealed, c.SSLCASealed, c.SSLCertSealed, c.SSLKeySealed = nil, nil, nil, nil
			}
			if diff := cmp.Diff(&want, stored); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUpdateRefuses(t *testing.T) {
	t.Parallel()
	_, rows := database(t)
	s := service(t, connections.Options{Reserved: func(name string) bool { return name == "platform" }})
	c := full(t, s, rows, "orders")
	full(t, s, rows, "taken")
	m := pems()
	for name, tc := range map[string]struct {
		patch connections.Patch
		want  answer
	}{
		"nothing":              {connections.Patch{}, answer{problem.Malformed, []string{"body"}}},
		"metadata of a type":   {connections.Patch{Metadata: []byte(`[1]`), Host: to("localhost")}, answer{problem.Malformed, []string{"body.metadata"}}},
		"host":                 {connections.Patch{Host: to("169.254.169.254"), Password: null[string]()}, answer{problem.HostNotAllowed, []string{"body.host"}}},
		"missing":              {connections.Patch{Password: null[string](), Port: null[int](), Host: to(" "), DatabaseName: to("x\x00")}, answer{problem.MissingMember, []string{"body.host", "body.password", "body.port"}}},
		"every required":       {connections.Patch{ConfigName: null[string](), Kind: null[string](), UserName: null[string](), DatabaseName: null[string]()}, answer{problem.MissingMember, []string{"body.configName", "body.databaseName", "body.type", "body.userName"}}},
		"mode of the rest":     {ssl(func(p *connections.SSLPatch) { p.Mode = null[string]() }), answer{problem.MissingMember, []string{"body.ssl.mode"}}},
		"half a pair":          {ssl(func(p *connections.SSLPatch) { p.Key = null[string]() }), answer{problem.MissingMember, []string{"body.ssl.key"}}},
		"formats":              {connections.Patch{ConfigName: to("a b"), Port: to(0), DatabaseName: to("x\x00")}, answer{problem.Malformed, []string{"body.configName", "body.databaseName", "body.port"}}},
		"other pair":           {ssl(func(p *connections.SSLPatch) { p.Cert = to(m.rsaCert) }), answer{problem.Malformed, []string{"body.ssl.key"}}},
		"type under old mode":  {connections.Patch{Kind: to("MYSQL")}, answer{problem.SSLModeInvalid, []string{"body.ssl.mode"}}},
		"mode of another type": {ssl(func(p *connections.SSLPatch) { p.Mode = to("skip-verify") }), answer{problem.SSLModeInvalid, []string{"body.ssl.mode"}}},
		"deep metadata":        {connections.Patch{Metadata: []byte(`{"a":{"b":{"c":{"d":{"e":{}}}}}}`)}, answer{problem.MetadataTooDeep, []string{"body.metadata.a.b.c.d.e"}}},
		"name of another":      {connections.Patch{ConfigName: to("taken")}, answer{problem.NameTaken, []string{"body.configName"}}},
		"reserved name":        {connections.Patch{ConfigName: to("platform")}, answer{problem.NameTaken, []string{"body.configName"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := s.Update(t.Context(), rows, tenant, c.ID, nil, tc.patch)
			got := answerOf(t, err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("nothing was stored", func(t *testing.T) {
		if again, err := rows.Get(t.Context(), c.ID); err != nil || !cmp.Equal(c, again) {
			t.Errorf("%v: %s", err, cmp.Diff(c, again))
		}
	})
}

// TestUpdateOrder breaks one rule after the other, the gravest last.
func TestUpdateOrder(t *testing.T) {
	t.Parallel()
	db, rows := database(t)
	s := service(t, connections.Options{})
	c := full(t, s, rows, "orders")
	full(t, s, rows, "taken")
	patch := connections.Patch{ConfigName: to("taken")}
	id, match := c.ID, connections.Condition(nil)
	expect := func(code problem.Code) {
		t.Helper()
		if _, err := s.Update(t.Context(), rows, tenant, id, match, patch); problem.CodeOf(err) != code {
			t.Errorf("%v, want %s", err, code)
		}
	}
	expect(problem.NameTaken)
	patch.Port = to(0)
	expect(problem.Malformed)
	patch.UserName = null[string]()
	expect(problem.MissingMember)
	patch.Host = to("127.0.0.1")
	expect(problem.HostNotAllowed)
	match = func(c *store.Connection) bool { return c.Revision != 1 }
	expect(problem.PreconditionFailed)
	if err := s.Delete(t.Context(), rows, id, match); problem.CodeOf(err) != problem.PreconditionFailed {
		t.Errorf("delete: %v", err)
	}
	_, err := db.ExecContext(t.Context(), `INSERT INTO jobs (id, request_hash, metadata, mapped_fields, source, datasources)
		VALUES (gen_random_uuid(), 'h', '{}', '{}', 's', '{orders}')`)
	if err != nil {
		t.Fatal(err)
	}
	expect(problem.ConnectionInUse)
	if err := s.Delete(t.Context(), rows, id, match); problem.CodeOf(err) != problem.ConnectionInUse {
		t.Errorf("delete: %v", err)
	}
	id = uuid.New()
	expect(problem.NotFoundInTenant)
	if err := s.Delete(t.Context(), rows, id, match); problem.CodeOf(err) != problem.NotFoundInTenant {
		t.Errorf("delete: %v", err)
	}
	patch.Metadata = []byte("7")
	expect(problem.Malformed)
}

func TestUpdateSealsAnew(t *testing.T) {
	t.Parallel()
	_, rows := database(t)
	keys := make([]secret.Key, 0, 2)
	for version := range 2 {
		key, err := secret.ParseKey(version+1, secret.GenerateKey())
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	ring := func(current secret.Key, retired ...secret.Key) *connections.Service {
		k, err := secret.NewKeyring(current, retired...)
		if err != nil {
			t.Fatal(err)
		}
		return service(t, connections.Options{Keys: k})
	}
	first, both, second := ring(keys[0]), ring(keys[1], keys[0]), ring(keys[1])
	kept, replaced := full(t, first, rows, "kept"), full(t, first, rows, "replaced")

	got, err := both.Update(t.Context(), rows, tenant, kept.ID, nil, connections.Patch{Host: to("other.example.com")})
	if err != nil || got.KeyVersion != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	want, err := first.Params(tenant, kept)
	if err != nil {
		t.Fatal(err)
	}
	want.Host = "other.example.com"
	reach, err := second.Params(tenant, got)
	if err != nil || !cmp.Equal(want, reach) {
		t.Errorf("not everything was sealed anew: %v", err)
	}

	// The old key is lost: what needs it fails, what replaces it all does not.
	_, err = second.Update(t.Context(), rows, tenant, replaced.ID, nil, connections.Patch{Password: to("p")})
	if problem.CodeOf(err) != problem.Internal || strings.Contains(fmt.Sprint(err), canary) {
		t.Errorf("with parts under a lost key: %v", err)
	}
	_, err = second.Update(t.Context(), rows, tenant, replaced.ID, nil,
		connections.Patch{Password: to("p"), SSL: null[connections.SSLPatch]()})
	if err != nil {
		t.Errorf("everything replaced: %v", err)
	}
}

func TestUpdateIsOfOneTenant(t *testing.T) {
	t.Parallel()
	_, acme := database(t)
	_, globex := database(t)
	s := service(t, connections.Options{})
	c := full(t, s, acme, "orders")
	if _, err := s.Update(t.Context(), globex, "globex", c.ID, nil, connections.Patch{Port: to(1)}); problem.CodeOf(err) != problem.NotFoundInTenant {
		t.Errorf("update: %v", err)
	}
	if err := s.Delete(t.Context(), globex, c.ID, nil); problem.CodeOf(err) != problem.NotFoundInTenant {
		t.Errorf("delete: %v", err)
	}
	if again, err := acme.Get(t.Context(), c.ID); err != nil || !cmp.Equal(c, again) {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestTakeTest(t *testing.T) {
	t.Parallel()
	_, rows := database(t)
	s := service(t, connections.Options{})
	id := uuid.New()
	for i := range 10 {
		if err := s.TakeTest(t.Context(), rows, id); err != nil {
			t.Fatalf("test %d: %v", i, err)
		}
	}
	err := s.TakeTest(t.Context(), rows, id)
	p := answerOf(t, err)
	if p.Code != problem.RateLimited {
		t.Fatalf("the 11th: %v", err)
	}
	if after := retryAfter(t, err); after <= 0 || after > time.Minute {
		t.Errorf("retry after %v", after)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.TakeTest(ended, rows, uuid.New()); err == nil {
		t.Error("counted although the caller left")
	}
}

func TestPatchPrintsNoSecrets(t *testing.T) {
	t.Parallel()
	p := connections.Patch{Password: to(canary), SSL: to(connections.SSLPatch{Key: to(canary)})}
	for _, text := range []string{
		fmt.Sprint(p), fmt.Sprintf("%+v %#v %s", p, p, &p), fmt.Sprint(*p.SSL.Value), p.LogValue().String(), p.SSL.Value.LogValue().String(),
	} {
		if strings.Contains(text, canary) || !strings.Contains(text, "[secret]") {
			t.Errorf("%q", text)
		}
	}
}
