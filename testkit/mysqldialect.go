package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

// MySQLDialect returns a server that speaks MySQL 8's protocol and dialect, for want of a MySQL that could be had. The
// tests of this process share it; it is built when there is none yet, and starts with the first call.
func MySQLDialect(tb testing.TB) *MySQLServer {
	tb.Helper()
	if testing.Short() {
		tb.Skip("testkit: the server may have to be built first")
	}
	s, err := sharedDialect.start(tb)
	if err != nil {
		tb.Fatalf("testkit: MySQL dialect: %v", err)
	}
	return s
}

// sharedMySQLDialect is started at most once per process.
type sharedMySQLDialect struct {
	once   sync.Once
	dir    *tempDir
	kept   *keptServer
	server *MySQLServer
	err    error
}

// sharedDialect is a global for the same reason as shared.
var sharedDialect sharedMySQLDialect

func (s *sharedMySQLDialect) start(tb testing.TB) (*MySQLServer, error) {
	tb.Helper()
	s.once.Do(func() {
		var binary string
		if binary, s.err = moduleBinary(context.Background(), "mysqlserver", "."); s.err != nil {
			return
		}
		if s.dir, s.err = newTempDir(); s.err != nil {
			return
		}
		// A transaction that has only seen a table may put it back as it was, over what others have written meanwhile.
		s.server = &MySQLServer{alone: new(sync.Mutex), Host: loopback, user: "admin", password: rand.Text(), noPatterns: true, Authority: NewAuthority(tb, "test authority")}
		cert, key := s.server.Authority.Issue(tb, "db.example", "db.example")
		for range mariaPorts {
			if s.server.Port, s.err = freePort(); s.err != nil {
				return
			}
			if s.server.SecurePort, s.err = freePort(); s.err != nil {
				return
			}
			command := []string{
				binary, net.JoinHostPort(s.server.Host, strconv.Itoa(s.server.Port)), net.JoinHostPort(s.server.Host, strconv.Itoa(s.server.SecurePort)),
			}
			s.kept, s.err = keep(s.dir.path, command, "ADMIN_USER="+s.server.user, "ADMIN_PASSWORD="+s.server.password, "TLS_CERT="+cert, "TLS_KEY="+key)
			if s.err != nil {
				return
			}
			if s.err = s.kept.await(time.Minute, func() error { return s.server.exec("SELECT 1") }); s.err == nil {
				return
			}
			_ = s.kept.stop()
			s.kept = nil
		}
	})
	return s.server, s.err
}

// stop ends what start began; a later start returns an error.
func (s *sharedMySQLDialect) stop() error {
	s.once.Do(func() { s.err = errors.New("the tests of this process are over") })
	var err error
	if s.kept != nil {
		err = s.kept.stop()
	}
	if s.dir != nil {
		err = errors.Join(err, s.dir.remove())
	}
	return err
}
