package oracle

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sijms/go-ora/v2/configurations"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/testkit"
)

// listener is what answers before a database does: it takes the connect descriptor and sends one packet, or nothing.
type listener struct {
	net.Listener

	reply []byte // nil: hangs up; empty: nothing

	mu          sync.Mutex
	descriptors []string
}

func newListener(t *testing.T, config *tls.Config, reply []byte) *listener {
	t.Helper()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{Listener: raw, reply: reply}
	var done sync.WaitGroup
	ended := make(chan struct{})
	done.Go(func() {
		for {
			conn, err := raw.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				defer func() { _ = conn.Close() }()
				go func() { // however the other end behaves
					<-ended
					_ = conn.Close()
				}()
				if config == nil {
					l.serve(conn)
					return
				}
				l.serve(tls.Server(conn, config))
				_, _ = io.Copy(io.Discard, conn) // closing with something unread would take an alert back
			})
		}
	})
	t.Cleanup(func() {
		_ = raw.Close()
		close(ended)
		done.Wait()
	})
	return l
}

func (l *listener) serve(conn net.Conn) {
	const header, offset = 8, 70
	var all []byte
	for packet := 0; packet < 2 && (packet == 0 || len(all) == offset); packet++ { // a long descriptor comes in a packet of its own
		head := make([]byte, header)
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		rest := make([]byte, max(0, int(binary.BigEndian.Uint16(head))-header))
		if _, err := io.ReadFull(conn, rest); err != nil {
			return
		}
		all = append(append(all, head...), rest...)
	}
	l.mu.Lock()
	if at := bytes.IndexByte(all, '('); at >= 0 {
		l.descriptors = append(l.descriptors, string(all[at:]))
	}
	l.mu.Unlock()
	if l.reply == nil {
		return
	}
	_, _ = conn.Write(l.reply)
	_, _ = io.Copy(io.Discard, conn) // until the other end closes
}

func (l *listener) params() source.Params {
	host, port, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(port)
	return source.Params{Kind: source.Oracle, Host: host, Port: n, Database: "ORCLPDB1", User: "reader", Password: "secret"}
}

// refusal is a packet that refuses a connection with an error of the listener.
func refusal(number int) []byte {
	message := fmt.Sprintf("(DESCRIPTION=(TMP=)(VSNNUM=318767104)(ERR=%d)(ERROR_STACK=(ERROR=(CODE=%d)(EMFI=4))))", number, number)
	packet := make([]byte, 12, 12+len(message))
	packet[4] = 4
	binary.BigEndian.PutUint16(packet, uint16(12+len(message)))
	binary.BigEndian.PutUint16(packet[10:], uint16(len(message)))
	return append(packet, message...)
}

// redirect is a packet that sends a client on to another address.
func redirect(protocol, host string, port int) []byte {
	address := fmt.Sprintf("(ADDRESS=(PROTOCOL=%s)(HOST=%s)(PORT=%d))", protocol, host, port)
	packet := make([]byte, 10, 10+len(address))
	packet[4] = 5
	binary.BigEndian.PutUint16(packet, uint16(10+len(address)))
	binary.BigEndian.PutUint16(packet[8:], uint16(len(address)))
	return append(packet, address...)
}

// TestListenerErrors has listeners refuse the connection.
func TestListenerErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reply     []byte
		number    int
		category  source.Category
		transient bool
	}{
		{refusal(12514), 12514, source.CategoryDatabase, false}, {refusal(12505), 12505, source.CategoryDatabase, false}, {refusal(12528), 12528, source.CategoryDatabase, true},
		{refusal(12516), 12516, source.CategoryRefused, true}, {refusal(12506), 12506, source.CategoryRefused, false},
		{nil, 0, source.CategoryRefused, true}, {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat(" ", 20<<10)), 0, source.CategoryUnsupported, false},
	} {
		l := newListener(t, nil, c.reply)
		_, err := New().Open(context.Background(), l.params(), &net.Dialer{})
		if e := wantError(t, err, c.category, c.transient); e.Number != c.number {
			t.Errorf("number %d, want %d", e.Number, c.number)
		}
	}
}

// TestSilentListener gives up when the time is over.
func TestSilentListener(t *testing.T) {
	t.Parallel()
	l := newListener(t, nil, []byte{})
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := New().Open(ctx, l.params(), &net.Dialer{})
	wantError(t, err, source.CategoryTimeout, true)
}

// TestRefusedParams refuses what would not be understood as it is meant.
func TestRefusedParams(t *testing.T) {
	t.Parallel()
	good := source.Params{Kind: source.Oracle, Host: "db.example", Port: 1521, Database: "D", User: "u", Password: "p"}
	for name, c := range map[string]struct {
		change   func(*source.Params)
		category source.Category
	}{
		"no user":       {func(p *source.Params) { p.User = "" }, source.CategoryUnsupported},
		"no password":   {func(p *source.Params) { p.Password = "" }, source.CategoryUnsupported},
		"NUL":           {func(p *source.Params) { p.Password = "a\x00b" }, source.CategoryUnsupported},
		"port":          {func(p *source.Params) { p.Port = 70000 }, source.CategoryUnsupported},
		"kind":          {func(p *source.Params) { p.Kind = source.MySQL }, source.CategoryUnsupported},
		"no service":    {func(p *source.Params) { p.Database = "" }, source.CategoryUnsupported},
		"parentheses":   {func(p *source.Params) { p.Database = "D)(SID=X" }, source.CategoryUnsupported},
		"in metadata":   {func(p *source.Params) { p.Options = map[string]string{"serviceName": "X)(HOST=y)"} }, source.CategoryUnsupported},
		"blank":         {func(p *source.Params) { p.Database = "a b" }, source.CategoryUnsupported},
		"host":          {func(p *source.Params) { p.Host = "h)(PORT=1" }, source.CategoryUnsupported},
		"mode":          {func(p *source.Params) { p.TLS.Mode = "prefer" }, source.CategoryTLS},
		"broken CA":     {func(p *source.Params) { p.TLS = source.TLS{Mode: "true", CA: "x"} }, source.CategoryTLS},
		"broken client": {func(p *source.Params) { p.TLS = source.TLS{Mode: "true", Cert: "x", Key: "y"} }, source.CategoryTLS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := good
			c.change(&p)
			_, err := New().Open(context.Background(), p, dialerFunc(func(context.Context, string, string) (net.Conn, error) {
				t.Error("dialled")
				return nil, net.ErrClosed
			}))
			wantError(t, err, c.category, false)
		})
	}
}

// TestConfig fills in any character as it is. The driver's own parser of addresses finds one server in what it makes of
// it, and nothing of this machine.
func TestConfig(t *testing.T) {
	t.Parallel()
	for _, hard := range []string{`p;w'd"{}=\ é 😀`, "a/b@c:d?e#f&g%20+", ")(HOST=evil)(", "sys", " blanks ", "\n\t"} {
		p := source.Params{Host: "db.example", Port: 1999, Database: "D", User: hard, Password: hard, Options: map[string]string{"serviceName": "Sales_1.eu-west$#"}}
		config, err := configOf(context.Background(), p, &link{})
		if err != nil || check(p) != nil {
			t.Fatal(err, check(p))
		}
		if config.UserID != hard || config.Password != hard || config.DBAPrivilege != configurations.NONE || config.AuthType != configurations.Normal {
			t.Errorf("user %q, password %q", config.UserID, config.Password)
		}
		descriptor := config.ConnectionData()
		want := "(DESCRIPTION=(ADDRESS=(PROTOCOL=tcp)(HOST=db.example)(PORT=1999))(CONNECT_DATA=(SERVICE_NAME=Sales_1.eu-west$#)(CID=(PROGRAM=fetcher)(HOST=fetcher)(USER=fetcher))))"
		if diff := cmp.Diff(want, descriptor); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		servers, err := configurations.ExtractServers(descriptor)
		if diff := cmp.Diff([]configurations.ServerAddr{{Protocol: "tcp", Addr: "db.example", Port: 1999}}, servers); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// TestGuard dials through the given dialer only, also where a listener sends the client on.
func TestGuard(t *testing.T) {
	t.Parallel()
	next := newListener(t, nil, refusal(12514))
	p := next.params()
	first := newListener(t, nil, redirect("tcp", p.Host, p.Port))
	var dialled []string
	d := dialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled = append(dialled, network+" "+address)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	_, err := New().Open(context.Background(), first.params(), d)
	wantError(t, err, source.CategoryDatabase, false)
	if diff := cmp.Diff([]string{"tcp " + first.Addr().String(), "tcp " + next.Addr().String()}, dialled); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	away := newListener(t, nil, redirect("tcp", "169.254.169.254", 80))
	_, err = New().Open(context.Background(), away.params(), dialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "169.254.") {
			return nil, dial.ErrNotAllowed
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}))
	wantError(t, err, source.CategoryNotAllowed, false)
	if _, err := (&link{}).DialContext(context.Background(), "unix", "/tmp/x"); !errors.Is(err, dial.ErrNotAllowed) {
		t.Errorf("%v", err)
	}
}

// TestEndlessRedirect stops being sent round in a circle.
func TestEndlessRedirect(t *testing.T) {
	t.Parallel()
	l := newListener(t, nil, nil)
	p := l.params()
	l.reply = redirect("tcp", p.Host, p.Port)
	dials := 0
	_, err := New().Open(context.Background(), p, dialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}))
	wantError(t, err, source.CategoryUnsupported, false)
	if dials != maxDials {
		t.Errorf("%d dials", dials)
	}
}

const rightHost = "db.example"

// TestTLSModes opens sessions in every mode. What the listener refuses then has come through TLS.
func TestTLSModes(t *testing.T) {
	t.Parallel()
	ca, other := testkit.NewAuthority(t, "test authority"), testkit.NewAuthority(t, "another authority")
	cert, key := ca.Issue(t, rightHost, rightHost)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	clientCert, clientKey := ca.Issue(t, "client")
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(ca.PEM))
	server := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	strict := server.Clone()
	strict.ClientAuth, strict.ClientCAs = tls.RequireAndVerifyClientCert, clients
	const reached = source.CategoryDatabase
	for _, c := range []struct {
		name   string
		config *tls.Config // nil: no TLS
		tls    source.TLS
		host   string
		want   source.Category
	}{
		{"no mode", nil, source.TLS{}, rightHost, reached},
		{"disable", nil, source.TLS{Mode: "disable"}, rightHost, reached},
		{"false", nil, source.TLS{Mode: "false"}, rightHost, reached},
		{"true", server, source.TLS{Mode: "true", CA: ca.PEM}, rightHost, reached},
		{"true with wrong host", server, source.TLS{Mode: "true", CA: ca.PEM}, "other.example", source.CategoryTLS},
		{"true with wrong CA", server, source.TLS{Mode: "true", CA: other.PEM}, rightHost, source.CategoryTLS},
		{"true without CA", server, source.TLS{Mode: "true"}, rightHost, source.CategoryTLS},
		{"verify", server, source.TLS{Mode: "verify", CA: ca.PEM}, rightHost, reached},
		{"verify with wrong host", server, source.TLS{Mode: "verify", CA: ca.PEM}, "other.example", source.CategoryTLS},
		{"verify with wrong CA", server, source.TLS{Mode: "verify", CA: other.PEM}, rightHost, source.CategoryTLS},
		{"enable with another host", server, source.TLS{Mode: "enable", CA: ca.PEM}, "other.example", reached},
		{"enable with wrong CA", server, source.TLS{Mode: "enable", CA: other.PEM}, rightHost, source.CategoryTLS},
		{"enable without CA", server, source.TLS{Mode: "enable"}, rightHost, source.CategoryTLS},
		{"skip-verify", server, source.TLS{Mode: "skip-verify", CA: other.PEM}, "other.example", reached},
		{"client certificate", strict, source.TLS{Mode: "verify", CA: ca.PEM, Cert: clientCert, Key: clientKey}, rightHost, reached},
		{"no client certificate", strict, source.TLS{Mode: "verify", CA: ca.PEM}, rightHost, source.CategoryTLS},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newListener(t, c.config, refusal(12514))
			p := l.params()
			p.Host, p.TLS = c.host, c.tls
			_, err := New().Open(context.Background(), p, dialerFunc(func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
			}))
			wantError(t, err, c.want, false)
			l.mu.Lock()
			defer l.mu.Unlock()
			if got := len(l.descriptors); (got == 1) != (c.want == reached) {
				t.Errorf("%d descriptors arrived", got)
			}
		})
	}
}

// TestTLSDowngrade does not follow a listener to where nothing is encrypted.
func TestTLSDowngrade(t *testing.T) {
	t.Parallel()
	ca := testkit.NewAuthority(t, "test authority")
	cert, key := ca.Issue(t, rightHost, rightHost)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	plain := newListener(t, nil, refusal(12514))
	next := plain.params()
	first := newListener(t, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, redirect("tcp", next.Host, next.Port))
	p := first.params()
	p.Host, p.TLS = rightHost, source.TLS{Mode: "verify", CA: ca.PEM}
	_, err = New().Open(context.Background(), p, dialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, rightHost) {
			address = first.Addr().String()
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}))
	wantError(t, err, source.CategoryTLS, false)
	if len(plain.descriptors) != 0 {
		t.Errorf("sent in clear: %s", plain.descriptors)
	}
}
