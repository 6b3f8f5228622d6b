package source

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
)

// Encrypted is a connection on which TLS has begun.
type Encrypted struct {
	*tls.Conn

	answered bool        // the server asked for a certificate and was given what config has
	heard    atomic.Bool // the server has said something since
}

// Encrypt starts TLS as a client on conn; after an error conn is the caller's to close. In TLS 1.3 a server refuses a
// certificate only after the handshake, and its refusal may be lost when it hangs up over what was sent meanwhile. Where it
// asked for one and config answered, a connection that ends before the server has said anything counts as that refusal,
// and TLSAlert reports it.
func Encrypt(ctx context.Context, conn net.Conn, config *tls.Config) (*Encrypted, error) {
	e := &Encrypted{}
	if answer := config.GetClientCertificate; answer != nil {
		config = config.Clone()
		config.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			e.answered = true
			return answer(asked)
		}
	}
	e.Conn = tls.Client(conn, config)
	if err := e.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	e.answered = e.answered && e.ConnectionState().Version >= tls.VersionTLS13
	return e, nil
}

// Read reads what the server says.
func (e *Encrypted) Read(b []byte) (int, error) {
	n, err := e.Conn.Read(b)
	if n > 0 {
		e.heard.Store(true)
	}
	return n, e.explain(err)
}

// Write sends b.
func (e *Encrypted) Write(b []byte) (int, error) {
	n, err := e.Conn.Write(b)
	return n, e.explain(err)
}

func (e *Encrypted) explain(err error) error {
	if err == nil || !e.answered || e.heard.Load() || !ConnectionEnded(err) || TimedOut(err) || errors.Is(err, net.ErrClosed) {
		return err
	}
	return &refusedError{err}
}

// refusedError is an end of a connection that can only mean that our certificate was refused.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }
