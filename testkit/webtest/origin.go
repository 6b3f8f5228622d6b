package webtest

import (
	"crypto/tls"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Host is the name that origins have a certificate for, together with every name below it.
const Host = "docs.example.com"

// Seen is one request as it reached an origin.
type Seen struct {
	Method string
	Host   string // the Host header, or :authority
	Target string // the request target as it was sent
	Proto  string // HTTP/1.1 or HTTP/2.0
	Header http.Header
}

// Origin is a TLS origin on 127.0.0.1 that answers as it was told, over HTTP/1.1 or HTTP/2 as the client likes. Paths
// that nothing was said about are 404. It is safe for concurrent use.
type Origin struct {
	server *httptest.Server
	port   string

	mu       sync.Mutex
	handlers map[string]http.Handler
	seen     []Seen
	conns    int
}

// OriginOption changes an origin before it starts.
type OriginOption func(*httptest.Server)

// HTTP1Only makes an origin that doesn't offer HTTP/2.
func HTTP1Only(s *httptest.Server) { s.EnableHTTP2 = false; s.TLS.NextProtos = []string{"http/1.1"} }

// WithCertificate replaces the certificate of the origin.
func WithCertificate(cert tls.Certificate) OriginOption {
	return func(s *httptest.Server) { s.TLS.Certificates = []tls.Certificate{cert} }
}

// NewOrigin starts an origin with a certificate of ca for Host, *.Host, other.example.com and 127.0.0.1.
func NewOrigin(tb testing.TB, ca *CA, opts ...OriginOption) *Origin {
	tb.Helper()
	o := &Origin{handlers: map[string]http.Handler{}}
	o.server = httptest.NewUnstartedServer(o)
	o.server.EnableHTTP2 = true
	o.server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.issueDefault(tb)}, MinVersion: tls.VersionTLS12}
	o.server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that clients break off are what tests are about
	o.server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			o.mu.Lock()
			o.conns++
			o.mu.Unlock()
		}
	}
	for _, opt := range opts {
		opt(o.server)
	}
	o.server.StartTLS()
	o.port = strconv.Itoa(portOf(o.server.Listener))
	tb.Cleanup(func() {
		o.server.CloseClientConnections()
		o.server.Close()
	})
	return o
}

func (ca *CA) issueDefault(tb testing.TB) tls.Certificate {
	tb.Helper()
	return ca.Issue(tb, time.Time{}, Host, "*."+Host, "other.example.com", "127.0.0.1")
}

// Port returns the port the origin listens on.
func (o *Origin) Port() int { return portOf(o.server.Listener) }

// Base returns https://docs.example.com:port, the origin as an approval names it.
func (o *Origin) Base() string { return "https://" + net.JoinHostPort(Host, o.port) }

// URL returns the URL of a path that starts with a slash.
func (o *Origin) URL(path string) string { return o.Base() + path }

// Handle answers requests for the path, whatever their query, by h from now on.
func (o *Origin) Handle(path string, h http.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handlers[path] = h
}

// Page answers the path with 200, the type (none when empty) and the body from now on.
func (o *Origin) Page(path, contentType, body string) {
	o.Handle(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body)
	})
}

// Status answers the path with a status and no body from now on.
func (o *Origin) Status(path string, status int, header http.Header) {
	o.Handle(path, func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
	})
}

// Seen returns the requests so far, in the order they came.
func (o *Origin) Seen() []Seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]Seen(nil), o.seen...)
}

// Connections returns how many connections were opened to the origin so far.
func (o *Origin) Connections() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conns
}

// ServeHTTP answers as the origin was told. It is here for the server.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.seen = append(o.seen, Seen{r.Method, r.Host, r.RequestURI, r.Proto, r.Header.Clone()})
	h := o.handlers[r.URL.Path]
	o.mu.Unlock()
	if h == nil {
		h = http.NotFoundHandler()
	}
	h.ServeHTTP(w, r)
}
