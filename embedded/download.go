package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// downloader fetches binaries once and keeps them.
type downloader struct {
	cache   string // may be empty
	url     string // may be empty
	account account
}

// fetch returns the directory of the downloaded programs. It returns when ctx ends, although the library that
// downloads can't be interrupted and goes on until its transfer ends.
func (d downloader) fetch(ctx context.Context) (string, error) {
	cache, err := d.cacheDir()
	if err != nil {
		return "", err
	}
	home := filepath.Join(cache, "pgsql")
	bin := filepath.Join(home, "bin")
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	// The server's user must be able to run what lies here.
	if err := os.MkdirAll(cache, 0o755); err != nil { // #nosec G301 -- see above
		return "", fmt.Errorf("binary cache: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- d.install(cache, home) }()
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("download postgres: %w", ctx.Err())
	case err := <-done:
		return bin, err
	}
}

// install puts a complete installation into home or nothing.
func (d downloader) install(cache, home string) error {
	scratch, err := os.MkdirTemp(cache, "scratch-")
	if err != nil {
		return fmt.Errorf("binary cache: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	unpacked := filepath.Join(scratch, "pgsql")
	if err = d.extract(cache, scratch, unpacked); err != nil {
		return err
	}
	err = os.Rename(unpacked, home)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil // another process was faster
	}
	if err != nil {
		return fmt.Errorf("binary cache: %w", err)
	}
	return nil
}

// extract downloads and unpacks. The library offers that only as the first half of its Start; the second half,
// initdb, is made to end at once by an encoding that doesn't exist, because running the server is our business.
func (d downloader) extract(cache, scratch, target string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	config := embeddedpostgres.DefaultConfig().
		Port(uint32(port)). // #nosec G115 -- a port
		CachePath(cache).
		BinariesPath(target).
		RuntimePath(filepath.Join(scratch, "run")).
		DataPath(filepath.Join(scratch, "data")).
		Encoding("none").
		Logger(io.Discard)
	if d.url != "" {
		config = config.BinaryRepositoryURL(d.url)
	}
	startErr := embeddedpostgres.NewDatabase(config).Start()
	removeLibraryLogs()
	if startErr == nil {
		return errors.New("download postgres: the downloaded initdb accepted an unknown encoding")
	}
	if _, err := os.Stat(filepath.Join(target, "bin", "postgres")); err != nil {
		return fmt.Errorf("download postgres: %w", startErr)
	}
	return nil
}

// removeLibraryLogs deletes the log that the library makes in the temporary directory and forgets. Those of other
// processes are left alone.
func removeLibraryLogs() {
	for _, name := range openFiles() {
		if strings.HasPrefix(filepath.Base(name), "embedded_postgres_log") {
			_ = os.Remove(name)
		}
	}
}

func (d downloader) cacheDir() (string, error) {
	if d.cache != "" {
		return filepath.Abs(d.cache)
	}
	if d.account.dropped {
		return "/var/cache/fetcher/postgres", nil // root's own cache is closed to the server's user
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("binary cache: %w", err)
	}
	return filepath.Join(base, "fetcher", "postgres"), nil
}
