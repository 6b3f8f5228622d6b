package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestServerEndsWithItsKilledStarter(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	c := startChild(t, dir, nil)
	r := c.ready(t)
	dsn := childDSN(t, dir, r)
	execute(t, dsn, `CREATE TABLE kept AS SELECT 42 AS v`)
	c.kill(t)
	p := start(t, PostgresOptions{Dir: dir}) // at once: the old one may still be dying
	if got := query[int](t, p.DSN("postgres"), `SELECT v FROM kept`); got != 42 {
		t.Errorf("data = %d", got)
	}
	if p.PID() == r.PID {
		t.Error("the old server was taken over")
	}
	stop(t, p)

	c = startChild(t, dir, nil)
	r = c.ready(t)
	c.kill(t)
	eventually(t, "the server of a killed process ends", func() bool { return len(serversOn(r.DataDir)) == 0 })
}

// The server of an ordinary user, and root's in a directory of an ordinary user.
func TestServerOfAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	const nobody = 65534
	dir := publicDir(t)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "postgres")
	as := &syscall.Credential{Uid: nobody, Gid: nobody}
	c := startChild(t, dir, as)
	r := c.ready(t)
	if r.UID != nobody {
		t.Fatalf("child runs as %d", r.UID)
	}
	if got := ownerOf(t, r.DataDir); got != nobody {
		t.Errorf("data belongs to %d", got)
	}
	execute(t, childDSN(t, dir, r), `CREATE TABLE kept AS SELECT 1 AS v`)
	c.kill(t)
	c = startChild(t, dir, as)
	r = c.ready(t)
	if got := query[int](t, childDSN(t, dir, r), `SELECT v FROM kept`); got != 1 {
		t.Errorf("data = %d", got)
	}
}

func TestRootHandsTheServerToAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("for root")
	}
	p := start(t, PostgresOptions{Dir: serverDir(t), Unsafe: true})
	if got, want := ownerOf(t, p.DataDir()), serverAccount().uid; got != want || got == 0 {
		t.Errorf("data belongs to %d, want %d", got, want)
	}
	if filepath.Dir(p.DataDir()) != p.cluster.dir {
		t.Errorf("data lies in %s although its place is open", p.DataDir())
	}
	if got := ownerOf(t, filepath.Join(p.cluster.dir, "password")); got != 0 {
		t.Errorf("the password belongs to %d", got)
	}
}

func TestRootsClosedDirectory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("for root")
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(closed, "postgres")
	t.Cleanup(func() { _ = RemovePostgres(context.Background(), dir) })
	p := start(t, PostgresOptions{Dir: dir, Unsafe: true})
	home := filepath.Dir(p.DataDir())
	if home == dir {
		t.Fatalf("data lies in %s, which the server's user can't reach", home)
	}
	execute(t, p.DSN("postgres"), `CREATE TABLE kept AS SELECT 7 AS v`)
	stop(t, p)
	p = start(t, PostgresOptions{Dir: dir, Unsafe: true})
	if got := query[int](t, p.DSN("postgres"), `SELECT v FROM kept`); got != 7 {
		t.Errorf("data = %d", got)
	}
	stop(t, p)
	if err := os.RemoveAll(dir); err != nil { // by hand: the data elsewhere is forgotten, and of no use
		t.Fatal(err)
	}
	p = start(t, PostgresOptions{Dir: dir, Unsafe: true})
	if query[bool](t, p.DSN("postgres"), `SELECT to_regclass('kept') IS NOT NULL`) {
		t.Error("data of the deleted directory is back")
	}
	stop(t, p)
	if err := RemovePostgres(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(home); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", home, err)
	}
}

func TestPrivateDirRefusesAStrangersDirectory(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "target")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := privateDir(link); err == nil {
		t.Error("followed a link")
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(target, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if err := privateDir(target); err == nil {
			t.Error("took a directory of another user")
		}
	}
}

func TestInterruptedInitialisation(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	c := startChild(t, dir, nil)
	eventually(t, "initialisation begins", func() bool { return len(globbed(dir, stagingPrefix+"*", "data", "base")) > 0 })
	c.kill(t)
	if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
		t.Fatalf("the initialisation was over before it could be interrupted (%v)", err)
	}
	p := start(t, PostgresOptions{Dir: dir, Unsafe: true})
	if query[int](t, p.DSN("postgres"), `SELECT 1`) != 1 {
		t.Error("no answer")
	}
	if left := globbed(dir, stagingPrefix+"*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A pid file that names a living process of something else must not keep the server from starting.
func TestReusedProcessID(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	p := start(t, PostgresOptions{Dir: dir, Unsafe: true})
	p.Kill()
	other := serverAccount().command(t.Context(), "/", "/bin/sleep", "300")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	pidFile := filepath.Join(p.DataDir(), "postmaster.pid")
	text := fmt.Sprintf("%d\n%s\n1700000000\n%d\n\n127.0.0.1\n", other.Process.Pid, p.DataDir(), p.Port())
	if err := os.WriteFile(pidFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, PostgresOptions{Dir: dir, Unsafe: true})
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other process was disturbed: %v", err)
	}
}

// A server that doesn't end although its starter is gone is stopped, in the end by force.
func TestStubbornStaleServer(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	c := startChild(t, dir, nil)
	r := c.ready(t)
	if err := syscall.Kill(r.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.kill(t)
	if len(serversOn(r.DataDir)) == 0 {
		t.Fatal("the server is gone already")
	}
	short := 50 * time.Millisecond
	steps := []step{{0, short}, {syscall.SIGINT, short}, {syscall.SIGQUIT, short}, {syscall.SIGKILL, 10 * time.Second}}
	if err := endServers(t.Context(), r.DataDir, steps); err != nil {
		t.Fatal(err)
	}
	start(t, PostgresOptions{Dir: dir, Unsafe: true})
}

func TestEndServersReportsWhatItCantStop(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	p := start(t, PostgresOptions{Dir: dir, Unsafe: true})
	if err := endServers(t.Context(), p.DataDir(), []step{{0, time.Millisecond}}); err == nil {
		t.Error("no error although a server runs")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := endServers(ctx, p.DataDir(), []step{{0, time.Minute}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
}

func childDSN(t *testing.T, dir string, r report) string {
	t.Helper()
	password, err := keptSecret(filepath.Join(dir, "password"))
	if err != nil {
		t.Fatal(err)
	}
	return (&Postgres{password: password, port: r.Port}).DSN("postgres")
}

func ownerOf(t *testing.T, path string) int {
	t.Helper()
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		t.Fatal(err)
	}
	return int(stat.Uid)
}

func globbed(parts ...string) []string {
	found, _ := filepath.Glob(filepath.Join(parts...)) // the patterns are constant
	return found
}
