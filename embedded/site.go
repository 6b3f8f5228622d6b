package embedded

import (
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

//go:embed site
var sitePages embed.FS

const (
	// siteHost is a name that stands for loopback without anybody being asked (RFC 6761).
	siteHost = "docs.localhost"

	siteOriginFile = "origin"
	siteCAFile     = "ca.pem"

	// SiteStart is the path of the site's first page.
	SiteStart = "/docs/start"
	// SitePrefix is the path below which all of the site's pages are.
	SitePrefix = "/docs"
)

// Site is a small web site for development, served over TLS on loopback under the authority of its own. Its directory
// tells where it is and holds the authority's certificate, which is made anew at every start.
type Site struct {
	dir    string
	origin string
	port   int
	server *http.Server
	served chan struct{} // closed when server has returned
}

// StartSite serves the site, on the port of its last run if that is free. It returns once connections are accepted.
func StartSite(ctx context.Context, dir string) (*Site, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("web site: %w", err)
	}
	certificate, authority, err := newCertificate(siteHost, time.Now())
	if err != nil {
		return nil, fmt.Errorf("web site: certificate: %w", err)
	}
	if err = writePrivate(filepath.Join(dir, siteCAFile), authority); err != nil {
		return nil, fmt.Errorf("web site: %w", err)
	}
	listener, err := listenSite(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("web site: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("web site: %w", err), listener.Close())
	}
	s := &Site{dir: dir, origin: "https://" + net.JoinHostPort(siteHost, port), served: make(chan struct{})}
	if address, ok := listener.Addr().(*net.TCPAddr); ok {
		s.port = address.Port
	}
	if err := writePrivate(filepath.Join(dir, siteOriginFile), []byte(s.origin+"\n")); err != nil {
		return nil, errors.Join(fmt.Errorf("web site: %w", err), listener.Close())
	}
	s.server = &http.Server{
		Handler:           http.HandlerFunc(serveSite),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}},
	}
	go func() {
		defer close(s.served)
		_ = s.server.ServeTLS(listener, "", "") // ends with ErrServerClosed
	}()
	return s, nil
}

func listenSite(ctx context.Context, dir string) (net.Listener, error) {
	var config net.ListenConfig
	if kept, err := SiteOrigin(dir); err == nil {
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(kept, "https://"))
		if l, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return l, nil
		}
	}
	return config.Listen(ctx, "tcp4", "127.0.0.1:0")
}

// serveSite answers with the embedded pages.
func serveSite(w http.ResponseWriter, r *http.Request) {
	page, err := fs.ReadFile(sitePages, path.Join("site", path.Clean("/"+r.URL.Path))+".html")
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(page)))
}

// SiteOrigin is where the site that runs, or last ran, in the directory is.
func SiteOrigin(dir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dir, siteOriginFile)) // #nosec G304 -- in our own directory
	if err != nil {
		return "", fmt.Errorf("web site: origin: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// Origin is where the site is.
func (s *Site) Origin() string { return s.origin }

// Port is the port of the origin.
func (s *Site) Port() int { return s.port }

// CAFile is the PEM file of the authority that vouches for the site.
func (s *Site) CAFile() string { return filepath.Join(s.dir, siteCAFile) }

// Stop ends the site; requests under way get until ctx ends.
func (s *Site) Stop(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.server.Close())
	}
	<-s.served
	if err != nil {
		return fmt.Errorf("web site: stop: %w", err)
	}
	return nil
}
