package connections_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

func TestCreateStoresAndReadsBack(t *testing.T) {
	t.Parallel()
	db, rows := database(t)
	now := time.Date(2026, 3, 4, 5, 6, 7, 891234567, time.FixedZone("", 3600))
	id := uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")
	s := service(t, connections.Options{
		Now: func() time.Time { return now }, NewID: func() (uuid.UUID, error) { return id, nil },
	})
	metadata := `{ "team":"späti", "n": 12345678901234567890.10, "deep":{"a":[1,null]} }`
	c, err := s.Create(t.Context(), rows, tenant, product, input(func(in *connections.Input) {
		in.ConfigName, in.Host, in.DatabaseName = new(" orders_db\t"), new(" db.example.com "), new(" orders ")
		in.UserName, in.Schema, in.Password = new(" reader "), new(" sales "), new(" "+canary+" ")
		in.Metadata = []byte(metadata)
		in.SSL = &connections.SSLInput{Mode: new(" verify-full "), CA: &pems().rsaCert, Cert: &pems().ecCert, Key: &pems().ecKey}
	}))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := rows.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, stored); diff != "" {
		t.Errorf("created and stored differ (-created +stored):\n%s", diff)
	}
	created := time.Date(2026, 3, 4, 4, 6, 7, 891234000, time.UTC)
	want := &store.Connection{
		ID: id, ConfigName: "orders_db", ProductName: new(product), Kind: "POSTGRESQL", Host: "db.example.com", Port: 5432,
		DatabaseName: "orders", Schema: new("sales"), UserName: "reader", SSLMode: new("verify-full"), KeyVersion: 3,
		Metadata: []byte(metadata), Revision: 1, CreatedAt: created, UpdatedAt: created,
	}
	bare := *stored
	bare.PasswordSealed, bare.SSLCASealed, bare.SSLCertSealed, bare.SSLKeySealed = nil, nil, nil, nil
	if diff := cmp.Diff(want, &bare); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}

	params, err := s.Params(tenant, stored)
	if err != nil {
		t.Fatal(err)
	}
	wantParams := source.Params{
		Kind: source.PostgreSQL, Host: "db.example.com", Port: 5432, Database: "orders", User: "reader", Schema: "sales",
		Password: " " + canary + " ", // not trimmed
		TLS: source.TLS{
			Mode: "verify-full", CA: strings.TrimSpace(pems().rsaCert),
			Cert: strings.TrimSpace(pems().ecCert), Key: strings.TrimSpace(pems().ecKey),
		},
	}
	if params.Kind != wantParams.Kind || !cmp.Equal(wantParams, params) {
		t.Error("the parameters differ from what was sent") // the values are secrets: they are not printed
	}

	var row string
	if err := db.QueryRowContext(t.Context(), `SELECT row(c.*)::text || encode(password_sealed, 'escape') ||
		encode(ssl_key_sealed, 'escape') FROM connections c`).Scan(&row); err != nil {
		t.Fatal(err)
	}
	for _, plain := range []string{canary, "PRIVATE KEY", "BEGIN CERTIFICATE"} {
		if strings.Contains(row, plain) {
			t.Errorf("the row holds %q in clear", plain)
		}
	}
}

func TestCreateMinimal(t *testing.T) {
	t.Parallel()
	_, rows := database(t)
	s := service(t, connections.Options{})
	for i, change := range []func(*connections.Input){
		func(*connections.Input) {},
		func(in *connections.Input) { in.SSL = &connections.SSLInput{} }, // {} is absent
		func(in *connections.Input) { in.Metadata = []byte(" null ") },
		func(in *connections.Input) { in.Metadata = []byte("{}") },
		func(in *connections.Input) { in.Kind = new("MYSQL"); in.SSL = &connections.SSLInput{Mode: new("true")} },
		func(in *connections.Input) { in.Kind = new("ORACLE") },
		func(in *connections.Input) { in.Kind = new("SQL_SERVER") },
		func(in *connections.Input) { in.Kind = new("MONGODB") },
		func(in *connections.Input) { in.Host = new("2606:4700::1111"); in.Port = new(65535) },
		func(in *connections.Input) { in.Host = new("my_db-1.Example.COM."); in.Port = new(1) },
		func(in *connections.Input) { in.Password = new(strings.Repeat("é", 1024)) },
		func(in *connections.Input) { in.UserName = new(strings.Repeat("é", 255)); in.Schema = new("s") },
	} {
		in := input(change)
		in.ConfigName = new(fmt.Sprintf("minimal-%d", i))
		c, err := s.Create(t.Context(), rows, tenant, "", in)
		if err != nil {
			t.Errorf("%d: %v", i, err)
			continue
		}
		if c.ID.Version() != 7 || c.ProductName != nil {
			t.Errorf("%d: id version %d, product %v", i, c.ID.Version(), c.ProductName)
		}
		if i == 1 && (c.SSLMode != nil || c.SSLCASealed != nil) || i == 2 && c.Metadata != nil {
			t.Errorf("%d: something absent was stored", i)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	db, rows := database(t)
	s := service(t, connections.Options{Reserved: func(name string) bool { return name == "platform" }})
	taken := answer{Code: problem.NameTaken, Fields: []string{"body.configName"}}
	named := func(name string) connections.Input {
		return input(func(in *connections.Input) { in.ConfigName = &name })
	}
	for _, c := range []struct {
		name, product string
		want          answer
	}{
		{"orders", "billing", answer{}},
		{"orders", "billing", taken},
		{" orders ", "billing", taken},
		{"orders", "shipping", taken},
		{"Orders", "billing", answer{}},
		{"platform", "billing", taken},
	} {
		_, err := s.Create(t.Context(), rows, tenant, c.product, named(c.name))
		if diff := cmp.Diff(c.want, answerOf(t, err)); diff != "" {
			t.Errorf("%s in %s (-want +got):\n%s", c.name, c.product, diff)
		}
	}
	if _, err := db.ExecContext(t.Context(), `UPDATE connections SET deleted_at = now() WHERE config_name = 'orders'`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), rows, tenant, product, named("orders")); err != nil {
		t.Errorf("after delete: %v", err)
	}
}

func TestOneOfManyConcurrentCreatesWins(t *testing.T) {
	t.Parallel()
	_, rows := database(t)
	s := service(t, connections.Options{})
	errs := make([]error, 16)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = s.Create(t.Context(), rows, tenant, product, input()) })
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, problem.New(problem.NameTaken, "")) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d creates succeeded", won)
	}
}

func TestSecretsOpenOnlyWhereTheyBelong(t *testing.T) {
	t.Parallel()
	_, rows := database(t)
	s := service(t, connections.Options{})
	create := func(name string) *store.Connection {
		c, err := s.Create(t.Context(), rows, tenant, product, input(func(in *connections.Input) {
			in.ConfigName = &name
			in.SSL = &connections.SSLInput{Mode: new("require"), CA: &pems().rsaCert, Cert: &pems().ecCert, Key: &pems().ecKey}
		}))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, b := create("first"), create("second")
	for name, change := range map[string]func(*store.Connection) string{
		"other tenant":         func(*store.Connection) string { return "globex" },
		"other connection":     func(c *store.Connection) string { c.PasswordSealed = b.PasswordSealed; return tenant },
		"other column":         func(c *store.Connection) string { c.PasswordSealed = c.SSLKeySealed; return tenant },
		"certificates swapped": func(c *store.Connection) string { c.SSLCASealed = c.SSLCertSealed; return tenant },
		"other key's field":    func(c *store.Connection) string { c.SSLKeySealed = c.PasswordSealed; return tenant },
		"wiped password":       func(c *store.Connection) string { c.PasswordSealed = nil; return tenant },
	} {
		c := *a
		_, err := s.Params(change(&c), &c)
		if !errors.Is(err, secret.ErrTampered) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := service(t, connections.Options{}).Params(tenant, a); !errors.Is(err, secret.ErrTampered) {
		t.Errorf("another master key: %v", err)
	}
	newer, err := secret.ParseKey(4, secret.GenerateKey())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := secret.NewKeyring(newer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service(t, connections.Options{Keys: keys}).Params(tenant, a); !errors.Is(err, secret.ErrUnknownKey) {
		t.Errorf("key not in the ring: %v", err)
	}
}

func TestCreatePassesStoreErrorsOn(t *testing.T) {
	t.Parallel()
	db, rows := database(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := service(t, connections.Options{}).Create(t.Context(), rows, tenant, product, input()); err == nil {
		t.Error("created on a closed database")
	}
	failing := connections.Options{NewID: func() (uuid.UUID, error) { return uuid.UUID{}, context.Canceled }}
	if _, err := service(t, failing).Create(t.Context(), rows, tenant, product, input()); !errors.Is(err, context.Canceled) {
		t.Errorf("no id: %v", err)
	}
	if _, err := service(t, connections.Options{}).Create(t.Context(), rows, "", product, input()); err == nil {
		t.Error("created for no tenant")
	}
}

func TestNewNeedsKeysAndGuard(t *testing.T) {
	t.Parallel()
	if _, err := connections.New(connections.Options{Keys: keyring(t)}); err == nil {
		t.Error("no guard accepted")
	}
	if _, err := connections.New(connections.Options{}); err == nil {
		t.Error("no keys accepted")
	}
}
