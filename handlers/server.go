package handlers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of every connection. Streams that take longer than writeTimeout extend it as they get along.
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 120 * time.Second
	writeTimeout      = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// ServerOptions configure NewServer.
type ServerOptions struct {
	Address    string // host:port; port 0 takes a free one
	Handler    http.Handler
	Health     *Health       // is told to drain first; nil: nobody is
	TLSCert    string        // PEM files; both or neither
	TLSKey     string        //
	DrainDelay time.Duration // between readiness saying so and the listener closing
	Grace      time.Duration // for requests to finish after that; 0: 30 s
	Logger     *slog.Logger
}

// Server is one listening address with the API's time limits and an orderly end.
type Server struct {
	opts     ServerOptions
	http     *http.Server
	listener net.Listener
}

// NewServer returns a server that does not listen yet.
func NewServer(opts ServerOptions) (*Server, error) {
	if (opts.TLSCert == "") != (opts.TLSKey == "") {
		return nil, errors.New("a TLS certificate and its key come together")
	}
	if opts.Grace <= 0 {
		opts.Grace = 30 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: opts, http: &http.Server{
		Handler:           opts.Handler,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		WriteTimeout:      writeTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug),
	}}
	if opts.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(opts.TLSCert, opts.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("load TLS certificate: %w", err)
		}
		s.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	}
	return s, nil
}

// Listen opens the address. Connections queue from now on and are answered once Serve runs.
func (s *Server) Listen(ctx context.Context) error {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", s.opts.Address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.listener = listener
	return nil
}

// Addr is where the server listens, after Listen.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve answers requests until ctx ends, then drains: readiness turns 503, DrainDelay passes, the listener closes,
// requests get Grace to finish, and what is left is cut off. It returns nil after an orderly end.
func (s *Server) Serve(ctx context.Context) error {
	if s.listener == nil {
		if err := s.Listen(ctx); err != nil {
			return err
		}
	}
	failed := make(chan error, 1)
	go func() { failed <- s.serve() }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	err := s.drain(context.WithoutCancel(ctx), failed)
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	return nil
}

func (s *Server) serve() error {
	if s.http.TLSConfig != nil {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}

func (s *Server) drain(ctx context.Context, failed <-chan error) error {
	if s.opts.Health != nil {
		s.opts.Health.Drain()
	}
	timer := time.NewTimer(s.opts.DrainDelay)
	defer timer.Stop()
	select {
	case err := <-failed:
		return err
	case <-timer.C:
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Grace)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		s.opts.Logger.WarnContext(ctx, "requests did not finish in time and are cut off")
		err = s.http.Close()
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
