package connections_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	tenant  = "acme"
	product = "billing"
	canary  = "c4n4ry-Pa55word"
)

// input is a valid connection, changed by the given functions.
func input(change ...func(*connections.Input)) connections.Input {
	in := connections.Input{
		ConfigName: new("orders_db"), Kind: new("POSTGRESQL"), Host: new("db.example.com"), Port: new(5432),
		DatabaseName: new("orders"), UserName: new("reader"), Password: new(canary),
	}
	for _, f := range change {
		f(&in)
	}
	return in
}

func keyring(t testing.TB) *secret.Keyring {
	t.Helper()
	k, err := secret.ParseKey(3, secret.GenerateKey())
	if err != nil {
		t.Fatal(err)
	}
	r, err := secret.NewKeyring(k)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// service has a new key ring and the strict policy, unless opts say otherwise.
func service(t testing.TB, opts connections.Options, allow ...string) *connections.Service {
	t.Helper()
	guard, err := dial.NewGuard(dial.Policy{Allow: allow})
	if err != nil {
		t.Fatal(err)
	}
	if opts.Keys == nil {
		opts.Keys = keyring(t)
	}
	opts.Guard = guard
	s, err := connections.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openDB(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// database is a migrated tenant database with the connections in it.
func database(t testing.TB) (*sql.DB, store.Connections) {
	t.Helper()
	db := openDB(t, testkit.Postgres(t).NewDatabase(t))
	if err := store.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	g, err := store.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	return db, store.NewConnections(g)
}

// answer is what a caller would be told.
type answer struct {
	Code   problem.Code
	Fields []string // locations
}

func answerOf(t testing.TB, err error) answer {
	t.Helper()
	if err == nil {
		return answer{}
	}
	var p *problem.Error
	if !errors.As(err, &p) {
		t.Fatalf("not a problem: %v", err)
	}
	a := answer{Code: p.Code}
	for _, f := range p.Fields {
		a.Fields = append(a.Fields, f.Location)
	}
	return a
}

// material is certificates and keys in PEM.
type material struct {
	rsaCert, rsaKey, rsaPKCS8, ecCert, ecKey, otherKey string
}

var pems = sync.OnceValue(mustMaterial)

func mustMaterial() *material {
	block := func(kind string, der []byte, err error) string {
		if err != nil {
			panic(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	o, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	rsaDER, err := x509.CreateCertificate(rand.Reader, template, template, r.Public(), r)
	m := &material{rsaCert: block("CERTIFICATE", rsaDER, err)}
	ecDER, err := x509.CreateCertificate(rand.Reader, template, template, e.Public(), e)
	m.ecCert = block("CERTIFICATE", ecDER, err)
	m.rsaKey = block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(r), nil)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(r)
	m.rsaPKCS8 = block("PRIVATE KEY", pkcs8, err)
	ec, err := x509.MarshalECPrivateKey(e)
	m.ecKey = block("EC PRIVATE KEY", ec, err)
	other, err := x509.MarshalECPrivateKey(o)
	m.otherKey = block("EC PRIVATE KEY", other, err)
	return m
}

func retryAfter(t testing.TB, err error) time.Duration {
	t.Helper()
	var p *problem.Error
	if !errors.As(err, &p) {
		t.Fatalf("not a problem: %v", err)
	}
	return p.RetryAfter
}
