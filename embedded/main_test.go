package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// childDir names the variable that turns the test binary into a program that runs a server in that directory until
// its input ends.
const childDir = "FETCHER_EMBEDDED_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(runChild(dir))
	}
	os.Exit(m.Run())
}

// report is what the child says once its server runs.
type report struct {
	PID     int    `json:"pid"`
	Port    int    `json:"port"`
	DataDir string `json:"dataDir"`
	UID     int    `json:"uid"`
}

func runChild(dir string) int {
	p, err := StartPostgres(context.Background(), PostgresOptions{Dir: dir, NoDownload: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r := report{PID: p.PID(), Port: p.Port(), DataDir: p.DataDir(), UID: os.Getuid()}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := p.Stop(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is a process of its own that runs a server.
type child struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
}

// startChild starts the test binary on dir, as another user if one is given.
func startChild(t *testing.T, dir string, as *syscall.Credential) *child {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if as != nil {
		binary = copyProgram(t, binary)
	}
	// Not the test's context: that ends before the clean-up, and a child killed then leaves its server to the kernel.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary)
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	c := &child{cmd: cmd}
	if c.input, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.output = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.input.Close()
		_ = cmd.Wait()
	})
	return c
}

// ready waits until the child's server runs.
func (c *child) ready(t *testing.T) report {
	t.Helper()
	var r report
	if err := json.NewDecoder(c.output).Decode(&r); err != nil {
		t.Fatalf("child didn't start: %v", err)
	}
	return r
}

// kill ends the child as hard as can be.
func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // reports the kill
}

// copyProgram puts a program where every user can run it; go test's own place is private.
func copyProgram(t *testing.T, from string) string {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(publicDir(t), "program")
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

// publicDir is a temporary directory that every user may pass through.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// serverDir is a directory for a server, removed with everything that the server may have put elsewhere.
func serverDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(publicDir(t), "postgres")
	t.Cleanup(func() {
		if err := RemovePostgres(context.Background(), dir); err != nil {
			t.Errorf("remove: %v", err)
		}
	})
	return dir
}

// start runs a server until the test ends.
func start(t *testing.T, opts PostgresOptions) *Postgres {
	t.Helper()
	opts.NoDownload = true
	p, err := StartPostgres(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	return p
}

// stop ends a server and fails the test if that was not in order.
func stop(t *testing.T, p *Postgres) {
	t.Helper()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// connect opens a connection that the test closes.
func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, dsn, statement string) {
	t.Helper()
	if _, err := connect(t, dsn).Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// query returns the single value of a statement.
func query[T any](t *testing.T, dsn, statement string) T {
	t.Helper()
	var value T
	if err := connect(t, dsn).QueryRow(t.Context(), statement).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
