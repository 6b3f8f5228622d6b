package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"
)

// Errors of the Postgres server.
var (
	// ErrInUse says that another live process holds the data directory.
	ErrInUse = errors.New("data directory is in use by another process")
	// ErrNoBinaries says that no working Postgres installation was found; the error it comes in says what was tried.
	ErrNoBinaries = errors.New("no working Postgres binaries")
	// ErrStopped says that the server ended although nobody asked it to.
	ErrStopped = errors.New("server stopped unexpectedly")
)

// PostgresOptions say where and how to run a server. Only Dir is required.
type PostgresOptions struct {
	// Dir holds everything of this server and is created if need be. Only one live process may use it.
	Dir string
	// BinDir holds initdb and postgres and is tried first. It may be empty.
	BinDir string
	// CacheDir keeps downloaded binaries; by default fetcher/postgres in the user's (for root: the system's) cache.
	CacheDir string
	// NoDownload leaves out the download of binaries when there are none on this machine.
	NoDownload bool
	// DownloadURL is the binary repository, by default that of fergusstrange/embedded-postgres.
	DownloadURL string
	// MaxConnections is the server's limit, 200 by default.
	MaxConnections int
	// Unsafe trades durability for speed: a crash of the machine may lose the data. For tests.
	Unsafe bool
	// Parameters are further server settings; they win over those set here.
	Parameters map[string]string
	// StartTimeout bounds the whole of StartPostgres but for a download; 60 s by default.
	StartTimeout time.Duration
	// Logger gets progress at debug level, fall-backs at info and warn; nil discards.
	Logger *slog.Logger
}

const (
	defaultMaxConnections = 200
	defaultStartTimeout   = 60 * time.Second
	superuser             = "postgres" // also the name of its database
)

// Names of the programs of an installation.
const (
	serverProgram = "postgres"
	initProgram   = "initdb"
)

func (o PostgresOptions) withDefaults() (PostgresOptions, error) {
	if o.Dir == "" {
		return o, errors.New("embedded postgres: no data directory given")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("embedded postgres: data directory: %w", err)
	}
	o.Dir = dir
	if o.MaxConnections <= 0 {
		o.MaxConnections = defaultMaxConnections
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
