package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// IdentityService is an identity service whose behaviour a test controls: discovery, a key set, decisions. Every
// method is safe for concurrent use. It ends with its test.
type IdentityService struct {
	t       testing.TB
	address string

	mu        sync.Mutex
	server    *http.Server
	served    chan struct{}
	unhang    chan struct{} // closed to let hanging requests go
	keys      []*signingKey // published; the last one signs
	withdrawn []*signingKey
	decide    func(AuthorizeCall) bool
	discovery endpoint
	jwks      endpoint
	authorize endpoint
	calls     []AuthorizeCall
}

// Behaviour is how one endpoint answers. The zero value is: as it should.
type Behaviour struct {
	Status int    // answer with this status instead
	Body   string // and this body; without Status: 200
	Hang   bool   // don't answer until the behaviour is set again, the caller leaves or the service goes down
}

// AuthorizeCall is one question that the service was asked.
type AuthorizeCall struct {
	Token    string `json:"-"` // the Authorization header as it came
	Subject  string `json:"sub"`
	Resource string `json:"resource"`
	Action   string `json:"action"`
	Product  string `json:"product"`
}

type endpoint struct {
	behaviour Behaviour
	requests  int
}

// Issuer starts an identity service for tb on a loopback port. It holds one ES256 key and allows everything.
func Issuer(tb testing.TB) *IdentityService {
	tb.Helper()
	i := &IdentityService{t: tb, unhang: make(chan struct{}), decide: func(AuthorizeCall) bool { return true }}
	i.AddKey("ES256")
	if err := i.listen("127.0.0.1:0"); err != nil {
		tb.Fatalf("testkit: identity service: %v", err)
	}
	tb.Cleanup(i.Down)
	return i
}

// URL is the base address and the issuer that tokens name.
func (i *IdentityService) URL() string { return "http://" + i.address }

// KeysURL is the address of the key set.
func (i *IdentityService) KeysURL() string { return i.URL() + "/.well-known/jwks.json" }

// Down closes the port and every connection, as a crash would. It does nothing to a service that is down.
func (i *IdentityService) Down() {
	i.mu.Lock()
	server, served := i.server, i.served
	i.server, i.served = nil, nil
	i.letGo()
	i.mu.Unlock()
	if server != nil {
		_ = server.Close()
		<-served
	}
}

// Up opens the same port again.
func (i *IdentityService) Up() {
	i.t.Helper()
	if err := i.listen(i.address); err != nil {
		i.t.Fatalf("testkit: identity service: %v", err)
	}
}

// SetDiscovery changes how the discovery document answers; Behaviour{Status: 404} is a service without one.
func (i *IdentityService) SetDiscovery(b Behaviour) { i.set(&i.discovery, b) }

// SetKeys changes how the key set answers.
func (i *IdentityService) SetKeys(b Behaviour) { i.set(&i.jwks, b) }

// SetAuthorize changes how questions are answered.
func (i *IdentityService) SetAuthorize(b Behaviour) { i.set(&i.authorize, b) }

// Decide changes what questions are answered. f must be safe for concurrent use.
func (i *IdentityService) Decide(f func(AuthorizeCall) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.decide = f
}

// Deny answers every question with no.
func (i *IdentityService) Deny() { i.Decide(func(AuthorizeCall) bool { return false }) }

// Allow answers every question with yes.
func (i *IdentityService) Allow() { i.Decide(func(AuthorizeCall) bool { return true }) }

// DiscoveryFetches counts requests for the discovery document, also those that weren't served as they should.
func (i *IdentityService) DiscoveryFetches() int { return i.count(&i.discovery) }

// KeysFetches counts requests for the key set.
func (i *IdentityService) KeysFetches() int { return i.count(&i.jwks) }

// AuthorizeRequests counts questions, answered or not.
func (i *IdentityService) AuthorizeRequests() int { return i.count(&i.authorize) }

// AuthorizeCalls returns the questions in the order in which they were read.
func (i *IdentityService) AuthorizeCalls() []AuthorizeCall {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]AuthorizeCall(nil), i.calls...)
}

func (i *IdentityService) set(e *endpoint, b Behaviour) {
	i.mu.Lock()
	defer i.mu.Unlock()
	e.behaviour = b
	i.letGo()
}

// letGo ends what hangs; it may hang again under the behaviour that holds by then. The caller holds the mutex.
func (i *IdentityService) letGo() {
	close(i.unhang)
	i.unhang = make(chan struct{})
}

func (i *IdentityService) count(e *endpoint) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return e.requests
}

func (i *IdentityService) listen(address string) error {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp4", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /.well-known/openid-configuration", i.serve(&i.discovery, i.answerDiscovery))
	mux.Handle("GET /.well-known/jwks.json", i.serve(&i.jwks, i.answerKeys))
	mux.Handle("POST /v1/authorize", i.serve(&i.authorize, i.answerAuthorize))
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.address == "" { // else it is the same, and may be being read
		i.address = listener.Addr().String()
	}
	i.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	i.served = make(chan struct{})
	go func(server *http.Server, served chan struct{}) {
		defer close(served)
		_ = server.Serve(listener) // ends with ErrServerClosed
	}(i.server, i.served)
	return nil
}

// serve counts the request and applies the endpoint's behaviour before it lets it answer as it should.
func (i *IdentityService) serve(e *endpoint, answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // until then the server doesn't notice a caller that leaves
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		b, ok := i.behaviour(r.Context(), e)
		if !ok {
			return
		}
		if b == (Behaviour{}) {
			answer(w, r)
			return
		}
		if b.Status != 0 {
			w.WriteHeader(b.Status)
		}
		_, _ = io.WriteString(w, b.Body)
	})
}

// behaviour counts a request and returns how to answer it, not before the endpoint stops hanging; false when the
// caller has left by then.
func (i *IdentityService) behaviour(ctx context.Context, e *endpoint) (Behaviour, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	e.requests++
	for e.behaviour.Hang {
		unhang := i.unhang
		i.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-unhang:
		}
		i.mu.Lock()
		if ctx.Err() != nil {
			return Behaviour{}, false
		}
	}
	return e.behaviour, true
}

func (i *IdentityService) answerDiscovery(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]string{"issuer": i.URL(), "jwks_uri": i.KeysURL()})
}

func (i *IdentityService) answerAuthorize(w http.ResponseWriter, r *http.Request) {
	var call AuthorizeCall
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	call.Token = r.Header.Get("Authorization")
	i.mu.Lock()
	i.calls = append(i.calls, call)
	decide := i.decide
	i.mu.Unlock()
	writeJSON(w, map[string]bool{"authorized": decide(call)})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(http.ErrAbortHandler) // the caller has left
	}
}
