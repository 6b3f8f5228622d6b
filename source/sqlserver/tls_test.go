package sqlserver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/tds"
)

// secured is the names of the hosts in these tests, which all lead to the server.
const (
	rightHost  = "db.example"
	wrongHost  = "other.example"
	commonHost = "common.example" // the server's certificate has it as its common name, without alternatives
)

// TestTLSModes opens sessions in every mode on servers of every kind, with certificates of a private authority.
func TestTLSModes(t *testing.T) {
	t.Parallel()
	ca, other := testkit.NewAuthority(t, "test authority"), testkit.NewAuthority(t, "another authority")
	clientCert, clientKey := ca.Issue(t, "client")
	strangerCert, strangerKey := other.Issue(t, "client")
	client := func(mode string) source.TLS {
		return source.TLS{Mode: mode, CA: ca.PEM, Cert: clientCert, Key: clientKey}
	}
	for _, c := range []struct {
		name       string
		encryption tds.Encryption
		tls        source.TLS
		host       string // empty: rightHost
		common     bool   // the certificate has only a common name
		clients    bool   // the server wants a client's certificate
		want       string // what is encrypted: nothing, login, all
		fail       source.Category
	}{
		{name: "no mode", tls: source.TLS{}, want: "login"},
		{name: "disable", tls: source.TLS{Mode: "disable"}, want: "nothing"},
		{name: "false", tls: source.TLS{Mode: "false"}, want: "login"},
		{name: "false with CA", tls: source.TLS{Mode: "false", CA: ca.PEM}, host: wrongHost, want: "login"},
		{name: "false with wrong CA", tls: source.TLS{Mode: "false", CA: other.PEM}, fail: source.CategoryTLS},
		{name: "true", tls: source.TLS{Mode: "true", CA: ca.PEM}, want: "all"},
		{name: "true by common name", tls: source.TLS{Mode: "true", CA: ca.PEM}, host: commonHost, common: true, want: "all"},
		{name: "true with wrong host", tls: source.TLS{Mode: "true", CA: ca.PEM}, host: wrongHost, fail: source.CategoryTLS},
		{name: "true with wrong CA", tls: source.TLS{Mode: "true", CA: other.PEM}, fail: source.CategoryTLS},
		{name: "true without CA", tls: source.TLS{Mode: "true"}, fail: source.CategoryTLS},

		{name: "disable where there is no TLS", encryption: tds.Unsupported, tls: source.TLS{Mode: "disable"}, want: "nothing"},
		{name: "false where there is no TLS", encryption: tds.Unsupported, tls: source.TLS{Mode: "false"}, want: "nothing"},
		{name: "true where there is no TLS", encryption: tds.Unsupported, tls: source.TLS{Mode: "true", CA: ca.PEM}, fail: source.CategoryTLS},

		{name: "disable where TLS is required", encryption: tds.Required, tls: source.TLS{Mode: "disable"}, fail: source.CategoryTLS},
		{name: "false where TLS is required", encryption: tds.Required, tls: source.TLS{Mode: "false"}, want: "all"},
		{name: "true where TLS is required", encryption: tds.Required, tls: source.TLS{Mode: "true", CA: ca.PEM}, want: "all"},

		{name: "strict", encryption: tds.Strict, tls: source.TLS{Mode: "strict", CA: ca.PEM}, want: "all"},
		{name: "strict with wrong host", encryption: tds.Strict, tls: source.TLS{Mode: "strict", CA: ca.PEM}, host: wrongHost, fail: source.CategoryTLS},
		{name: "strict with wrong CA", encryption: tds.Strict, tls: source.TLS{Mode: "strict", CA: other.PEM}, fail: source.CategoryTLS},
		{name: "strict without CA", encryption: tds.Strict, tls: source.TLS{Mode: "strict"}, fail: source.CategoryTLS},
		{name: "strict with an old server", tls: source.TLS{Mode: "strict", CA: ca.PEM}, fail: source.CategoryTLS},

		{name: "true with client certificate", clients: true, tls: client("true"), want: "all"},
		{name: "false with client certificate", clients: true, tls: client("false"), want: "login"},
		{name: "strict with client certificate", encryption: tds.Strict, clients: true, tls: client("strict"), want: "all"},
		{name: "true without client certificate", clients: true, tls: source.TLS{Mode: "true", CA: ca.PEM}, fail: source.CategoryTLS},
		{name: "strict without client certificate", encryption: tds.Strict, clients: true, tls: source.TLS{Mode: "strict", CA: ca.PEM}, fail: source.CategoryTLS},
		{name: "true with a stranger's certificate", clients: true, tls: source.TLS{Mode: "true", CA: ca.PEM, Cert: strangerCert, Key: strangerKey}, fail: source.CategoryTLS},
		{name: "key of another", tls: source.TLS{Mode: "true", CA: ca.PEM, Cert: clientCert, Key: strangerKey}, fail: source.CategoryTLS},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			names := []string{rightHost}
			if c.common {
				names = nil
			}
			config := serverTLS(t, ca, names...)
			if c.clients {
				config.ClientAuth = tls.RequireAndVerifyClientCert
				config.ClientCAs = x509.NewCertPool()
				config.ClientCAs.AppendCertsFromPEM([]byte(ca.PEM))
			}
			f := newFixtureWith(t, tds.Options{Encryption: c.encryption, TLS: config})
			p := f.params()
			p.Host, p.TLS = rightHost, c.tls
			if c.host != "" {
				p.Host = c.host
			}
			d := &recordingDialer{address: net.JoinHostPort(f.Host(), strconv.Itoa(f.Port()))}
			s, err := New().Open(context.Background(), p, d)
			if c.fail != "" {
				if e := wantError(t, err, c.fail, false); e.Hint != "" {
					t.Errorf("hint %q", e.Hint)
				}
				return
			}
			if err != nil {
				t.Fatal(cause(err))
			}
			if err := s.Ping(context.Background()); err != nil {
				t.Fatal(cause(err))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if got := d.encrypted(); got != c.want {
				t.Errorf("%s is encrypted, want %s", got, c.want)
			}
		})
	}
}

// serverTLS is a configuration of a server with the names.
func serverTLS(t *testing.T, ca *testkit.Authority, names ...string) *tls.Config {
	t.Helper()
	cert, key := ca.Issue(t, commonHost, names...)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
}

// recordingDialer leads to one address and looks for what crosses the wire in clear.
type recordingDialer struct {
	address      string
	login, query atomic.Bool // seen in clear
}

type recordingConn struct {
	net.Conn

	d *recordingDialer
}

func (d *recordingDialer) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, d.address)
	return &recordingConn{conn, d}, err
}

func (c *recordingConn) Write(b []byte) (int, error) {
	text := strings.ReplaceAll(string(b), "\x00", "")
	if strings.Contains(text, testUser) {
		c.d.login.Store(true)
	}
	if strings.Contains(text, "SELECT") {
		c.d.query.Store(true)
	}
	return c.Conn.Write(b)
}

func (d *recordingDialer) encrypted() string {
	switch {
	case d.login.Load():
		return "nothing"
	case d.query.Load():
		return "login"
	}
	return "all"
}

// TestNegativeSerial names the remedy for the certificates that old servers made for themselves.
func TestNegativeSerial(t *testing.T) {
	t.Parallel()
	f := newFixtureWith(t, tds.Options{TLS: negativeSerial(t)})
	p := f.params()
	p.TLS.Mode = "true"
	for _, mode := range []string{"false", "true"} {
		p.TLS.Mode = mode
		_, err := New().Open(context.Background(), p, &net.Dialer{})
		e := wantError(t, err, source.CategoryTLS, false)
		if !strings.Contains(e.Error(), "negative serial number") || !strings.Contains(e.Error(), "x509negativeserial=1") {
			t.Errorf("%s: %v", mode, e)
		}
	}
}

// negativeSerial makes a certificate as Go does not: it has a positive serial number replaced in one that Go made.
func negativeSerial(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0x7e), Subject: pkix.Name{CommonName: "SSL_Self_Signed_Fallback"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	var certificate struct {
		Body      asn1.RawValue
		Algorithm asn1.RawValue
		Signature asn1.BitString
	}
	if _, err = asn1.Unmarshal(der, &certificate); err != nil {
		t.Fatal(err)
	}
	serial := []byte{2, 1, 0x7e} // the first integer of one byte behind the version
	at := bytes.Index(certificate.Body.FullBytes, serial)
	if at < 0 {
		t.Fatal("no serial number in the certificate")
	}
	certificate.Body.FullBytes[at+2] = 0xfe
	if der, err = asn1.Marshal(certificate); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}
