package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	wire "encoding/binary"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// testCanary gives the service secrets, and a database that tells one in its errors, and looks for them in answers to
// everything. What it looks for, and that of the server's own secrets and address nothing is told, is in caller.check.
func testCanary(t *testing.T, s *apiSuite) {
	c := s.admin()
	certificate, key := keyPair(t)
	for _, secret := range []string{certificate, key} {
		s.addSecret(strings.Split(secret, "\n")[1])
	}
	port := indiscreet(t)
	made := c.create(t, ledger, object{
		"port": port, "password": "canary-password", "ssl": object{"mode": "prefer", "ca": certificate, "cert": certificate, "key": key},
	})
	path := managed + "/" + made.ID
	c.fails(t, "FET-1040", post(path+"/test", ""))
	c.fails(t, "FET-1040", get(path+"/schema"))
	c.fails(t, "FET-1040", post("/v1/fetcher", request(t, ledger, made.ConfigName, "order", "select")), "body.dataRequest.mappedFields."+made.ConfigName)
	c.failsAnywhere(t, "FET-1060", post(managed+"/validate-schema", text(t, object{"mappedFields": object{made.ConfigName: object{"t": []string{"f"}}}})))
	for _, body := range []string{
		`{"port":6,"password":"canary-password-2"}`, `{"ssl":{"ca":null}}`, `{"ssl":null}`, `{"password":"canary-3","ssl":{"mode":"require","ca":` + text(t, certificate) + `}}`,
	} {
		c.succeeds(t, 200, patch(made.ID, body))
		c.succeeds(t, 200, get(path))
	}
	for _, body := range []string{
		`{"password":"canary-\u0000"}`, `{"password":["canary-4"]}`, `{"password":"canary-5","port":0}`, `{"ssl":{"key":"canary-6","cert":"canary-7"}}`,
		`{"ssl":{"mode":"canary-mode","key":{"canary-8":1}}}`, `{"password":"canary-9","password":"canary-9"}`, `{"password":"canary-cut`,
	} {
		if got := c.do(t, patch(made.ID, body)); got.Status != http.StatusBadRequest && !strings.Contains(body, "mode") {
			t.Errorf("%s: %d", body, got.Status)
		}
		c.do(t, post(managed, body, "X-Product-Name", ledger))
	}
	c.succeeds(t, 200, get(managed+"?limit=100"))
	c.fails(t, "FET-1002", post(managed, text(t, s.sample(made.ConfigName, object{"password": "canary-taken"})), "X-Product-Name", ledger), "body.configName")
	c.succeeds(t, 204, remove(made.ID))
	for _, secret := range s.known() {
		if strings.Contains(s.Output.String(), secret) {
			t.Errorf("the log holds a secret")
		}
	}
}

func (s *apiSuite) addSecret(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = append(s.secrets, secret)
}

// known is the secrets so far.
func (s *apiSuite) known() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.secrets)
}

// keyPair is a certificate with its key, as PEM.
func keyPair(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, content []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", sealed)
}

// indiscreet is a server that refuses every login in Postgres's protocol, with more words than it should.
func indiscreet(t *testing.T) (port int) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			refuseLogin(conn)
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

func refuseLogin(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	const sslRequest = 80877103
	for {
		var head [8]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		if wire.BigEndian.Uint32(head[4:]) == sslRequest {
			_, _ = conn.Write([]byte("N"))
			continue
		}
		if _, err := io.CopyN(io.Discard, conn, int64(wire.BigEndian.Uint32(head[:4]))-8); err != nil {
			return
		}
		words := "SFATAL\x00VFATAL\x00C28000\x00Mcanary-message at 127.0.0.1:5432\x00Dcanary-detail\x00Hcanary-hint\x00\x00"
		answer := wire.BigEndian.AppendUint32([]byte("E"), uint32(len(words)+4))
		_, _ = conn.Write(append(answer, words...))
		return
	}
}
