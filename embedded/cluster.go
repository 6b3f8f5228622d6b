package embedded

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// cluster is the files of one server. Everything lies in dir, but for the data itself when the server's user can't
// reach it there.
type cluster struct {
	dir     string // ours: lock, password, port, log
	home    string // holds data; dir or its stand-in
	account account
}

func (c cluster) data() string     { return filepath.Join(c.home, "data") }
func (c cluster) lock() string     { return filepath.Join(c.dir, "lock") }
func (c cluster) password() string { return filepath.Join(c.dir, "password") }
func (c cluster) port() string     { return filepath.Join(c.dir, "port") }
func (c cluster) log() string      { return filepath.Join(c.dir, "server.log") }

// passThrough lets every user into a directory who knows what is in it, and nobody see or change that.
const passThrough = 0o711

// locate decides where the data lies and creates the directories.
func locate(ctx context.Context, dir string, a account) (cluster, error) {
	c := cluster{dir: dir, home: dir, account: a}
	// The secrets in dir have modes of their own; the server's user has to pass through.
	if err := os.MkdirAll(dir, passThrough); err != nil {
		return c, fmt.Errorf("data directory: %w", err)
	}
	dir, err := filepath.EvalSymlinks(dir) // whichever way it is named, it has one stand-in
	if err != nil {
		return c, fmt.Errorf("data directory: %w", err)
	}
	c.dir, c.home = dir, dir
	if !a.dropped {
		return c, nil
	}
	if err := os.Chmod(dir, passThrough); err != nil {
		return c, fmt.Errorf("data directory: %w", err)
	}
	if a.canReach(ctx, dir) {
		return c, nil
	}
	var problems []error
	for _, home := range standIns(dir) {
		if err := privateDir(home); err != nil {
			problems = append(problems, err)
			continue
		}
		if a.canReach(ctx, home) {
			c.home = home
			return c, nil
		}
	}
	return c, fmt.Errorf("data directory: the server's user can't reach it, nor a stand-in: %w", errors.Join(problems...))
}

// standIns are where the data may lie when dir is closed to the server's user. The name comes from dir, so the next
// start finds it again.
func standIns(dir string) []string {
	sum := sha256.Sum256([]byte(dir))
	name := "fetcher-dev-" + hex.EncodeToString(sum[:8])
	return []string{filepath.Join("/var/lib", name), filepath.Join(os.TempDir(), name)}
}

// privateDir makes path a directory that only we can write to and others can only pass through. It refuses one
// that somebody else put there, as anybody may in a temporary directory.
func privateDir(path string) error {
	if err := os.Mkdir(path, passThrough); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !ours(info) {
		return fmt.Errorf("%s is not a directory of ours", path)
	}
	return os.Chmod(path, passThrough)
}

// ours tells whether info, of Lstat, is a directory that belongs to this process's user.
func ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return info.IsDir() && ok && int(stat.Uid) == os.Geteuid()
}

// discardOrphan deals with data whose password is gone. In a stand-in it is what remains when somebody deleted the
// directory by hand, which meant the data too. In the directory itself nothing is deleted on a suspicion.
func (c cluster) discardOrphan(logger *slog.Logger) error {
	major, err := c.major()
	if err != nil || major == 0 {
		return err
	}
	if _, err := os.Stat(c.password()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if c.home == c.dir {
		return errors.New("there is data, but the password kept beside it is gone; start over to get a new server")
	}
	logger.Info("deleting data of a directory that is gone", "data", c.data())
	if err := os.RemoveAll(c.data()); err != nil {
		return fmt.Errorf("data of a deleted directory: %w", err)
	}
	return nil
}

// major returns the Postgres version of existing data, 0 when there is none.
func (c cluster) major() (int, error) {
	data, err := os.ReadFile(filepath.Join(c.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("data version: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, fmt.Errorf("data version: %w", err)
	}
	return major, nil
}

// stagingPrefix names what an interrupted initialisation leaves behind.
const stagingPrefix = "init-"

// initialise creates the data unless it exists. It works aside and renames at the end, so data is complete or
// absent. The caller holds the lock.
func (c cluster) initialise(ctx context.Context, b binaries, password string, unsafe bool) error {
	c.sweep(ctx)
	if major, err := c.major(); err != nil || major != 0 {
		return err
	}
	if err := os.RemoveAll(c.data()); err != nil { // an empty directory at best: without a version it is no data
		return fmt.Errorf("initialise: %w", err)
	}
	staging, err := os.MkdirTemp(c.home, stagingPrefix)
	if err != nil {
		return fmt.Errorf("initialise: %w", err)
	}
	defer func() { _ = os.RemoveAll(staging) }()
	if err := c.account.own(staging); err != nil {
		return err
	}
	if err := c.initdb(ctx, b, staging, password, unsafe); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(staging, "data"), c.data()); err != nil {
		return fmt.Errorf("initialise: %w", err)
	}
	return nil
}

// initdb runs the program of that name, once more with the plain C locale where the system has no C.UTF-8.
func (c cluster) initdb(ctx context.Context, b binaries, staging, password string, unsafe bool) error {
	secret := filepath.Join(staging, "secret")
	if err := writePrivate(secret, []byte(password+"\n")); err != nil {
		return err
	}
	if err := c.account.own(secret); err != nil {
		return err
	}
	var out []byte
	var err error
	for _, locale := range []string{"C.UTF-8", "C"} {
		args := []string{
			"-D", filepath.Join(staging, "data"), "-U", superuser, "--pwfile", secret,
			"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", locale,
		}
		if unsafe {
			args = append(args, "--no-sync")
		}
		cmd := c.account.command(ctx, staging, b.initdb(), args...)
		dieWithParent(cmd.SysProcAttr, syscall.SIGTERM)
		if out, err = runLocked(cmd); err == nil {
			return nil
		}
		if ctx.Err() != nil { // which is why, whatever the program's end looks like
			return fmt.Errorf("initdb: %w", ctx.Err())
		}
		if !bytes.Contains(out, []byte("locale")) {
			break
		}
	}
	return fmt.Errorf("initdb: %w: %s", err, lastLines(out))
}

// sweep removes what interrupted initialisations left, with the processes that may still be at it.
func (c cluster) sweep(ctx context.Context) {
	left, err := filepath.Glob(filepath.Join(c.home, stagingPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		_ = endServers(ctx, filepath.Join(dir, "data"), staleSteps())
		_ = os.RemoveAll(dir) // what can't be removed now is not in the way
	}
}

// lastLines keeps the end of a program's output, where the reason is.
func lastLines(out []byte) string {
	const keep = 600
	out = bytes.TrimSpace(out)
	if len(out) > keep {
		out = out[len(out)-keep:]
	}
	return string(out)
}
