package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MySQLDSN names the variable with the address of an administrator, in the form of the Go driver, on a server that
// tests for MySQL run against besides their own.
const MySQLDSN = "TEST_MYSQL_DSN"

// loopback is where servers listen.
const loopback = "127.0.0.1"

const (
	mariaStartTime = 2 * time.Minute
	mariaPorts     = 5 // how many ports are tried: a free one may be taken before the server gets to it
)

// MariaDB returns the server shared by the tests of this process, which starts with the first call. A test that asks
// for it where none is installed is skipped.
func MariaDB(tb testing.TB) *MySQLServer {
	tb.Helper()
	if _, _, err := mariaPrograms(); err != nil {
		tb.Skipf("testkit: %v", err)
	}
	s, err := sharedMaria.start(tb)
	if err != nil {
		tb.Fatalf("testkit: MariaDB: %v", err)
	}
	return s
}

// LiveMySQL returns the server at TEST_MYSQL_DSN, or skips the test.
func LiveMySQL(tb testing.TB) *MySQLServer {
	tb.Helper()
	dsn := os.Getenv(MySQLDSN)
	if dsn == "" {
		tb.Skip("without a server at " + MySQLDSN)
	}
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		tb.Fatalf("testkit: %s is malformed", MySQLDSN) // the parser's text may quote it
	}
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		tb.Fatalf("testkit: %s has no port", MySQLDSN)
	}
	s := &MySQLServer{Host: host, user: c.User, password: c.Passwd}
	s.Port, _ = strconv.Atoi(port)
	return s
}

// sharedMariaDB is started at most once per process.
type sharedMariaDB struct {
	once   sync.Once
	dir    *tempDir
	kept   *keptServer
	server *MySQLServer
	err    error
}

// sharedMaria is a global for the same reason as shared.
var sharedMaria sharedMariaDB

func (s *sharedMariaDB) start(tb testing.TB) (*MySQLServer, error) {
	tb.Helper()
	s.once.Do(func() {
		if s.dir, s.err = newTempDir(); s.err != nil {
			return
		}
		s.server = &MySQLServer{Host: loopback, user: "admin", password: rand.Text(), Authority: NewAuthority(tb, "test authority")}
		s.kept, s.err = startMaria(tb, s.dir.path, s.server)
	})
	return s.server, s.err
}

// stop ends what start began; a later start returns an error.
func (s *sharedMariaDB) stop() error {
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

// mariaPrograms finds the server and what makes its first files.
func mariaPrograms() (server, install string, err error) {
	find := func(name string) string {
		for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin") {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode()&0o111 != 0 {
				return filepath.Join(dir, name)
			}
		}
		return ""
	}
	server, install = find("mariadbd"), find("mariadb-install-db")
	if server == "" || install == "" {
		return "", "", errors.New("mariadbd is not installed")
	}
	return server, install, nil
}

// mariaUser is who the server runs as: it refuses to be root, and leaves that itself.
func mariaUser() []string {
	if os.Geteuid() != 0 {
		return nil
	}
	name := "nobody"
	if _, err := user.Lookup("mysql"); err == nil {
		name = "mysql"
	}
	return []string{"--user=" + name}
}

// startMaria makes the server's files in dir and starts it there.
func startMaria(tb testing.TB, dir string, s *MySQLServer) (*keptServer, error) {
	tb.Helper()
	server, install, err := mariaPrograms()
	if err != nil {
		return nil, err
	}
	data, temporary := filepath.Join(dir, "data"), filepath.Join(dir, "tmp")
	// The server's user writes here, too.
	if err = errors.Join(os.Mkdir(temporary, 0o700), os.Chmod(temporary, os.ModeSticky|0o777)); err != nil {
		return nil, err
	}
	making := exec.CommandContext(context.Background(), install, slices.Concat([]string{
		"--no-defaults", "--datadir=" + data, "--skip-test-db", "--auth-root-authentication-method=normal", "--skip-name-resolve",
		"--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0",
	}, mariaUser())...)
	making.Env = append(os.Environ(), "TMPDIR="+temporary)
	out, err := making.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("make its files: %w\n%s", err, out)
	}
	arguments, err := mariaFiles(tb, data, s)
	if err != nil {
		return nil, err
	}
	for range mariaPorts {
		var kept *keptServer
		if s.Port, err = freePort(); err != nil {
			return nil, err
		}
		if kept, err = keep(dir, append([]string{server}, append(arguments, "--port="+strconv.Itoa(s.Port))...)); err != nil {
			return nil, err
		}
		if err = kept.await(mariaStartTime, func() error { return s.exec("SELECT 1") }); err == nil {
			return kept, nil
		}
		_ = kept.stop()
	}
	return nil, err
}

// mariaFiles writes what the server reads when it starts, and returns its arguments. The administrator is the only one
// who may come in.
func mariaFiles(tb testing.TB, data string, s *MySQLServer) ([]string, error) {
	tb.Helper()
	info, err := os.Stat(data)
	if err != nil {
		return nil, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	cert, key := s.Authority.Issue(tb, "db.example", "db.example")
	files := map[string]string{
		"ca.pem": s.Authority.PEM, "cert.pem": cert, "key.pem": key,
		"first.sql": fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s';\nGRANT ALL ON *.* TO '%s'@'%%' WITH GRANT OPTION;\nDROP USER root@localhost;\n", s.user, s.password, s.user),
	}
	for name, content := range files {
		path := filepath.Join(data, name)
		if err := errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Chown(path, int(owner.Uid), int(owner.Gid))); err != nil {
			return nil, err
		}
	}
	in := func(name string) string { return filepath.Join(data, name) }
	return slices.Concat([]string{
		"--no-defaults", "--datadir=" + data, "--tmpdir=" + data, "--socket=" + in("s"), "--pid-file=" + in("pid"), "--init-file=" + in("first.sql"),
		"--bind-address=" + loopback, "--skip-name-resolve", "--max-connections=200", "--character-set-server=utf8mb4",
		"--ssl-ca=" + in("ca.pem"), "--ssl-cert=" + in("cert.pem"), "--ssl-key=" + in("key.pem"),
		"--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--debug-no-sync", "--skip-innodb-doublewrite", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M",
		"--skip-log-bin", "--max-allowed-packet=64M", "--performance-schema=OFF",
	}, mariaUser()), nil
}

func freePort() (int, error) {
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("choose a port: %w", err)
	}
	defer func() { _ = free.Close() }()
	_, port, err := net.SplitHostPort(free.Addr().String())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

// keptServer is a program that runs until we stop it or die.
type keptServer struct {
	keeper *exec.Cmd
	life   io.Closer     // the keeper kills the server when it closes
	done   chan struct{} // closed once server and keeper have ended
	log    string        // file with the server's output
}

// keep starts a program whose files are in dir.
func keep(dir string, command []string, environment ...string) (*keptServer, error) {
	k := &keptServer{done: make(chan struct{}), log: filepath.Join(dir, "server.log")}
	output, err := os.Create(k.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	arguments := append([]string{"-c", keeperScript, "sh", filepath.Join(dir, keptFile)}, command...)
	k.keeper = exec.CommandContext(context.Background(), "/bin/sh", arguments...)
	k.keeper.Dir = "/"
	k.keeper.Env = slices.Concat(environment, []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "LC_ALL=C", "TZ=UTC"})
	k.keeper.Stdout, k.keeper.Stderr = output, output
	k.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // spared by a Ctrl-C
	if k.life, err = k.keeper.StdinPipe(); err != nil {
		return nil, err
	}
	if err := k.keeper.Start(); err != nil {
		return nil, errors.Join(err, k.life.Close())
	}
	go func() {
		_ = k.keeper.Wait() // how a killed server ended says nothing
		close(k.done)
	}()
	return k, nil
}

// await polls until the server answers.
func (k *keptServer) await(limit time.Duration, answers func() error) error {
	start := time.Now()
	for {
		err := answers()
		if err == nil {
			return nil
		}
		select {
		case <-k.done:
			return k.ended()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Since(start) > limit {
			return fmt.Errorf("the server doesn't answer: %w", err)
		}
	}
}

// stop kills the server, whose data nobody needs, and waits until it is gone. It is an error if it was gone before.
func (k *keptServer) stop() error {
	var err error
	select {
	case <-k.done:
		err = k.ended()
	default:
	}
	_ = k.life.Close() // fails if the keeper has ended: Wait closes it then
	<-k.done
	return err
}

func (k *keptServer) ended() error {
	output, err := os.ReadFile(k.log)
	return errors.Join(fmt.Errorf("the server ended by itself: %s", output), err)
}
