package testkit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/embedded"
)

// Server is a Postgres server of one test, for tests that stop, restart or crash it.
type Server struct {
	*PG

	t   testing.TB
	dir *tempDir

	mu      sync.Mutex
	running *embedded.Postgres
}

// NewServer starts a server for tb alone, on the binaries of this machine, and removes it when tb ends.
func NewServer(tb testing.TB) *Server {
	tb.Helper()
	dir, err := newTempDir()
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	s := &Server{t: tb, dir: dir}
	tb.Cleanup(s.remove)
	s.Start()
	s.PG = &PG{admin: s.running.DSN("postgres")}
	return s
}

// Start starts the stopped server, on the same port if that is still free. It fails the test otherwise.
func (s *Server) Start() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		s.t.Fatal("testkit: server runs already")
	}
	pg, err := startIn(s.dir)
	if err != nil {
		s.t.Fatalf("testkit: %v", err)
	}
	if s.PG != nil && pg.DSN("postgres") != s.admin {
		_ = pg.Stop(context.Background())
		s.t.Fatal("testkit: the server's port was taken while it was down")
	}
	s.running = pg
}

// Stop shuts the server down as an operator would: connections are closed, data is kept.
func (s *Server) Stop() {
	s.t.Helper()
	if err := s.take().Stop(context.Background()); err != nil {
		s.t.Fatalf("testkit: %v", err)
	}
}

// Restart is Stop and Start.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
}

// Kill ends the server like a crash: no shutdown, no goodbye to its clients.
func (s *Server) Kill() {
	s.t.Helper()
	s.take().Kill()
}

func (s *Server) take() *embedded.Postgres {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	pg := s.running
	if pg == nil {
		s.t.Fatal("testkit: server doesn't run")
	}
	s.running = nil
	return pg
}

func (s *Server) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.running != nil {
		err = s.running.Stop(context.Background())
		s.running = nil
	}
	if err = errors.Join(err, s.dir.remove()); err != nil {
		s.t.Errorf("testkit: %v", err)
	}
}

// startIn starts a server without durability in dir.
func startIn(dir *tempDir) (*embedded.Postgres, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return embedded.StartPostgres(ctx, embedded.PostgresOptions{
		Dir:    filepath.Join(dir.path, "postgres"),
		BinDir: os.Getenv(PostgresBin),
		Unsafe: true,
	})
}
