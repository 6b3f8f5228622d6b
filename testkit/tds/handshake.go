package tds

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"testing"
	"time"
)

// The values of PRELOGIN's ENCRYPTION.
const (
	encryptOff    = 0
	encryptOn     = 1
	encryptNotSup = 2
	encryptReq    = 3
	encryptStrict = 4
)

// The options of PRELOGIN.
const (
	optionVersion    = 0
	optionEncryption = 1
	optionEnd        = 0xff
	optionSize       = 5
)

var errNoDeal = errors.New("client and server do not agree on encryption")

// conn is one connection.
type conn struct {
	server *Server
	raw    net.Conn
	wire   net.Conn // what messages go over: raw, or TLS on it
	packet int      // size
	plain  bool     // encryption ends with the login

	transaction uint64 // under way; 0: none
	last        uint64 // number of the last one
}

// handshake negotiates encryption and starts it.
func (c *conn) handshake() error {
	if c.server.opts.Encryption == Strict {
		config := c.server.opts.TLS.Clone()
		config.NextProtos = []string{"tds/8.0"}
		secured := tls.Server(c.raw, config)
		if err := secured.Handshake(); err != nil {
			return err
		}
		c.wire = secured
	}
	kind, body, err := readMessage(c.wire)
	if err != nil || kind != packetPrelogin {
		return errors.Join(err, fmt.Errorf("message %d instead of PRELOGIN", kind))
	}
	asked, err := preloginEncryption(body)
	if err != nil {
		return err
	}
	said, err := c.negotiate(asked)
	if answerErr := c.answerPrelogin(said); answerErr != nil {
		return answerErr
	}
	if err != nil || said == encryptNotSup || said == encryptStrict {
		return err
	}
	c.plain = said == encryptOff
	return c.wrap()
}

// negotiate returns what the server says to what the client asked for.
func (c *conn) negotiate(asked byte) (byte, error) {
	switch c.server.opts.Encryption {
	case Unsupported:
		return encryptNotSup, nil
	case Strict:
		return encryptStrict, nil
	case Required:
		switch asked {
		case encryptNotSup:
			return encryptReq, errNoDeal
		case encryptOff:
			return encryptReq, nil
		}
		return encryptOn, nil
	}
	switch asked {
	case encryptNotSup:
		return encryptNotSup, nil
	case encryptOff:
		return encryptOff, nil
	}
	return encryptOn, nil
}

// preloginEncryption finds the byte in a PRELOGIN message.
func preloginEncryption(body []byte) (byte, error) {
	for at := 0; at+optionSize <= len(body) && body[at] != optionEnd; at += optionSize {
		offset, size := int(binary.BigEndian.Uint16(body[at+1:])), int(binary.BigEndian.Uint16(body[at+3:]))
		if body[at] == optionEncryption && size == 1 && offset < len(body) {
			return body[offset], nil
		}
	}
	return 0, errors.New("PRELOGIN without encryption")
}

func (c *conn) answerPrelogin(encryption byte) error {
	m := newMessage(c.wire, packetReply, c.packet)
	const values = 2*optionSize + 1
	body := []byte{
		optionVersion, 0, values, 0, 6,
		optionEncryption, 0, values + 6, 0, 1,
		optionEnd,
		15, 0, 0x10, 0, 0, 0, // SQL Server 2019
		encryption,
	}
	_, _ = m.Write(body)
	return m.end()
}

// wrap starts TLS inside of PRELOGIN messages and goes on with it outside of them.
func (c *conn) wrap() error {
	config := c.server.opts.TLS.Clone()
	config.MaxVersion = tls.VersionTLS12 // the newest that servers speak inside of TDS 7
	config.DynamicRecordSizingDisabled = true
	w := &wrapped{Conn: c.raw, packet: c.packet, inside: true}
	secured := tls.Server(w, config)
	if err := secured.Handshake(); err != nil {
		_ = w.flush() // the alert
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.inside = false
	c.wire = secured
	return nil
}

// wrapped carries the records of a handshake in messages.
type wrapped struct {
	net.Conn

	packet int
	inside bool
	in     []byte
	out    []byte
}

func (w *wrapped) Read(p []byte) (int, error) {
	if !w.inside {
		return w.Conn.Read(p)
	}
	if len(w.in) == 0 {
		if err := w.flush(); err != nil {
			return 0, err
		}
		kind, body, err := readMessage(w.Conn)
		if err != nil {
			return 0, err
		}
		if kind != packetPrelogin {
			return 0, fmt.Errorf("message %d within the TLS handshake", kind)
		}
		w.in = body
	}
	n := copy(p, w.in)
	w.in = w.in[n:]
	return n, nil
}

func (w *wrapped) Write(p []byte) (int, error) {
	if !w.inside {
		return w.Conn.Write(p)
	}
	w.out = append(w.out, p...)
	return len(p), nil
}

func (w *wrapped) flush() error {
	if len(w.out) == 0 {
		return nil
	}
	m := newMessage(w.Conn, packetPrelogin, w.packet)
	_, _ = m.Write(w.out)
	w.out = nil
	return m.end()
}

// selfSigned is what servers make for themselves when nobody gave them a certificate.
func selfSigned(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "SSL_Self_Signed_Fallback"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: slices.Clone([][]byte{der}), PrivateKey: key}},
	}
}
