package embedded

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"
)

// Errors of the identity service.
var (
	// ErrNoIssuer says that no identity service has run in the directory yet.
	ErrNoIssuer = errors.New("no identity service has run here")
	// ErrRunning says that the identity service was started twice.
	ErrRunning = errors.New("identity service runs already")
)

// Issuer is the identity service for development: it signs tokens, publishes its key and decides by the role that
// a token carries. Its key and its address are kept in its directory, so that another process can mint tokens that
// a running one vouches for. It is safe for concurrent use.
type Issuer struct {
	dir  string
	key  *rsa.PrivateKey
	kid  string
	jwks []byte
	now  func() time.Time

	mu     sync.Mutex
	url    string
	server *http.Server
	served chan struct{} // closed when server has returned
}

// NewIssuer opens the identity service of dir and creates its key on the first call. It doesn't listen yet.
func NewIssuer(dir string) (*Issuer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("identity service: %w", err)
	}
	path := filepath.Join(dir, keyFile)
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = createKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("identity service: key: %w", err)
	}
	return newIssuer(dir, key)
}

// OpenIssuer opens the identity service that has run in dir, to mint beside it. ErrNoIssuer if there is none.
func OpenIssuer(dir string) (*Issuer, error) {
	key, err := readKey(filepath.Join(dir, keyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoIssuer
	}
	if err != nil {
		return nil, fmt.Errorf("identity service: key: %w", err)
	}
	i, err := newIssuer(dir, key)
	if err == nil && i.url == "" {
		return nil, ErrNoIssuer
	}
	return i, err
}

const urlFile = "issuer.url"

func newIssuer(dir string, key *rsa.PrivateKey) (*Issuer, error) {
	i := &Issuer{dir: dir, key: key, kid: thumbprint(&key.PublicKey), now: time.Now}
	set, err := publicSet(key, i.kid)
	if err != nil {
		return nil, fmt.Errorf("identity service: %w", err)
	}
	i.jwks = set
	url, err := os.ReadFile(filepath.Join(dir, urlFile)) // #nosec G304 -- in our own directory
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("identity service: address: %w", err)
	}
	i.url = strings.TrimSpace(string(url))
	return i, nil
}

func publicSet(key *rsa.PrivateKey, kid string) ([]byte, error) {
	jwk, err := jwkset.NewJWKFromKey(&key.PublicKey, jwkset.JWKOptions{
		Metadata: jwkset.JWKMetadataOptions{ALG: jwkset.AlgRS256, KID: kid, USE: jwkset.UseSig},
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(jwkset.JWKSMarshal{Keys: []jwkset.JWKMarshal{jwk.Marshal()}})
}

// Start serves on listen, host:port. Empty means loopback, on the port of the last run if that is free: tokens
// carry the address, so those handed out before stay good. It returns once connections are accepted.
func (i *Issuer) Start(ctx context.Context, listen string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.server != nil {
		return ErrRunning
	}
	listener, err := i.listen(ctx, listen)
	if err != nil {
		return fmt.Errorf("identity service: %w", err)
	}
	i.url = "http://" + listener.Addr().String()
	if err := writePrivate(filepath.Join(i.dir, urlFile), []byte(i.url+"\n")); err != nil {
		return errors.Join(fmt.Errorf("identity service: %w", err), listener.Close())
	}
	i.server = &http.Server{
		Handler:           i.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	i.served = make(chan struct{})
	go func(server *http.Server, served chan struct{}) {
		defer close(served)
		_ = server.Serve(listener) // ends with ErrServerClosed
	}(i.server, i.served)
	return nil
}

func (i *Issuer) listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	if address != "" {
		return config.Listen(ctx, "tcp", address)
	}
	if kept := strings.TrimPrefix(i.url, "http://"); kept != "" {
		if l, err := config.Listen(ctx, "tcp", kept); err == nil {
			return l, nil
		}
	}
	return config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(0)))
}

// URL is the issuer: the base address, as in the claim iss. Empty if it has never run.
func (i *Issuer) URL() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.url
}

// Stop ends the service; requests under way get until ctx ends. It does nothing when the service doesn't run.
func (i *Issuer) Stop(ctx context.Context) error {
	i.mu.Lock()
	server, served := i.server, i.served
	i.server, i.served = nil, nil
	i.mu.Unlock() // requests under way ask for the address
	if server == nil {
		return nil
	}
	err := server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	<-served
	if err != nil {
		return fmt.Errorf("identity service: stop: %w", err)
	}
	return nil
}
