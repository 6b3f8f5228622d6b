package source_test

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/testkit"
)

// TestRefusalThatIsLost has a server hang up after the handshake with a reset in place of an alert, as it comes about when it
// leaves unread what the client has sent.
func TestRefusalThatIsLost(t *testing.T) {
	t.Parallel()
	ca := testkit.NewAuthority(t, "an authority")
	serverPair := pair(t, ca, "db.example")
	clientCert, clientKey := ca.Issue(t, "a client")
	for name, c := range map[string]struct {
		asks    tls.ClientAuthType
		speaks  bool
		version uint16
		refused bool
	}{
		"asked":                {tls.RequestClientCert, false, tls.VersionTLS13, true},
		"not asked":            {tls.NoClientCert, false, tls.VersionTLS13, false},
		"asked, and spoken to": {tls.RequestClientCert, true, tls.VersionTLS13, false},
		"within the handshake": {tls.RequestClientCert, false, tls.VersionTLS12, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go hangUp(listener, &tls.Config{Certificates: []tls.Certificate{serverPair}, ClientAuth: c.asks, MinVersion: c.version, MaxVersion: c.version}, c.speaks)
			p := source.Params{Host: "db.example", TLS: source.TLS{CA: ca.PEM, Cert: clientCert, Key: clientKey}}
			config, err := p.ClientTLS(source.CheckName)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			conn, err := source.Encrypt(t.Context(), raw, config)
			if err != nil {
				t.Fatal(err)
			}
			if c.speaks {
				if _, err = io.ReadFull(conn, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				if _, err = conn.Write([]byte{1}); err != nil {
					t.Fatal(err)
				}
			}
			_, err = io.Copy(io.Discard, conn)
			if !source.ConnectionEnded(err) || source.TLSAlert(err) != c.refused {
				t.Errorf("refused: %v, want %v: %v", source.TLSAlert(err), c.refused, err)
			}
		})
	}
}

func pair(t *testing.T, ca *testkit.Authority, name string) tls.Certificate {
	t.Helper()
	cert, key := ca.Issue(t, name, name)
	both, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return both
}

// hangUp takes one connection, does the handshake, says a byte if it is to, and resets.
func hangUp(listener net.Listener, config *tls.Config, speaks bool) {
	raw, err := listener.Accept()
	if err != nil {
		return
	}
	defer raw.Close()
	conn := tls.Server(raw, config)
	if conn.Handshake() != nil {
		return
	}
	if speaks {
		_, _ = conn.Write([]byte{1})
		_, _ = conn.Read(make([]byte, 1)) // what the client says once it has heard
	}
	_ = raw.(*net.TCPConn).SetLinger(0)
}
