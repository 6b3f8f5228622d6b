package testkit

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/fetcherhq/fetcher/embedded"
)

// DatabaseURL names the variable with the address of a server to use instead of an own one. Its role must be
// allowed to create roles and databases.
const DatabaseURL = "TEST_DATABASE_URL"

// PostgresBin names the variable with the directory of the initdb and postgres that tests run on, instead of those of
// the system: for a second version.
const PostgresBin = "TEST_POSTGRES_BIN"

// PG is a Postgres server for tests.
type PG struct {
	admin string
}

// AdminDSN is the address of the server's maintenance database for its administrator.
func (pg *PG) AdminDSN() string { return pg.admin }

// Postgres returns the server shared by the tests of this process, which starts with the first call, or the one at
// TEST_DATABASE_URL. Don't stop it; NewServer is for that.
func Postgres(tb testing.TB) *PG {
	tb.Helper()
	pg, err := shared.start()
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	return pg
}

// sharedServer is started at most once per process.
type sharedServer struct {
	once    sync.Once
	dir     *tempDir
	running *embedded.Postgres
	pg      *PG
	err     error
}

// shared is a global because its life is that of the test process, which TestMain ends.
var shared sharedServer

func (s *sharedServer) start() (*PG, error) {
	s.once.Do(func() {
		if dsn := os.Getenv(DatabaseURL); dsn != "" {
			s.pg = &PG{admin: dsn}
			return
		}
		if s.dir, s.err = newTempDir(); s.err != nil {
			return
		}
		if s.running, s.err = startIn(s.dir); s.err != nil {
			return
		}
		s.pg = &PG{admin: s.running.DSN("postgres")}
	})
	return s.pg, s.err
}

// stop ends what start began; a later start returns an error.
func (s *sharedServer) stop() error {
	s.once.Do(func() { s.err = errors.New("the tests of this process are over") })
	var err error
	if s.running != nil {
		err = s.running.Stop(context.Background())
	}
	if s.dir != nil {
		err = errors.Join(err, s.dir.remove())
	}
	return err
}
