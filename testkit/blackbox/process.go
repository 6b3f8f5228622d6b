// Package blackbox builds the real binary, starts it as a user would and talks to it over HTTP, for suites and
// measurements that must not know the code.
package blackbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// StartTimeout bounds how long a command may take to be ready, or to run to its end.
const StartTimeout = 90 * time.Second

const stopTimeout = 60 * time.Second

// Binary is a built fetcher. Its directory is where processes run and keep temporary files.
type Binary struct{ Path string }

// Build compiles the command into dir, with the race detector if the caller has it.
func Build(dir string) (*Binary, error) {
	// Servers started by root run as an ordinary user, who must get to their data below this directory.
	if err := os.Chmod(dir, 0o755); err != nil { // #nosec G302
		return nil, fmt.Errorf("opening the directory to other users: %w", err)
	}
	b := &Binary{filepath.Join(dir, "fetcher")}
	args := []string{"build", "-tags", "nomsgpack", "-o", b.Path}
	if raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "github.com/fetcherhq/fetcher/cmd/fetcher")...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the binary: %w\n%s", err, out)
	}
	return b, nil
}

// Dir is the directory of the binary.
func (b *Binary) Dir() string { return filepath.Dir(b.Path) }

// Process is one running fetcher command.
type Process struct {
	Output fmt.Stringer // standard output and error so far

	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Launch starts a command in a clean environment with the given variables.
func (b *Binary) Launch(env []string, args ...string) (*Process, error) {
	return b.LaunchAs(nil, env, args...)
}

// LaunchAs is Launch as another user when credential is not nil.
func (b *Binary) LaunchAs(credential *syscall.Credential, env []string, args ...string) (*Process, error) {
	output := &lockedBuffer{}
	p := &Process{Output: output, cmd: exec.Command(b.Path, args...), done: make(chan struct{})}
	p.cmd.Env = append(b.cleanEnv(), env...)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.Dir = b.Dir()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting fetcher %s: %w", strings.Join(args, " "), err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// cleanEnv is the environment without the variables the service reads.
func (b *Binary) cleanEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + b.Dir()}
}

// Stop asks the process to end and returns an error unless it ended well.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending SIGTERM: %w", err)
	}
	return p.Wait(stopTimeout)
}

// Wait waits for the end and returns an error unless it was a good one.
func (p *Process) Wait(limit time.Duration) error {
	select {
	case <-p.done:
	case <-time.After(limit):
		_ = p.cmd.Process.Kill()
		return fmt.Errorf("still running after %s:\n%s", limit, p.Output)
	}
	if p.err != nil {
		return fmt.Errorf("%w:\n%s", p.err, p.Output)
	}
	if strings.Contains(p.Output.String(), "DATA RACE") {
		return fmt.Errorf("the race detector found something:\n%s", p.Output)
	}
	return nil
}

// Ended reports whether the process is over.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill is kill -9.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// DevFile is dev.json.
type DevFile struct {
	API         string      `json:"api"`
	Issuer      string      `json:"issuer"`
	DatabaseURL string      `json:"databaseUrl"`
	Tenants     []DevTenant `json:"tenants"`
	Sample      Sample      `json:"sample"`
}

// DevTenant is a tenant in dev.json.
type DevTenant struct {
	ID          string            `json:"id"`
	OrgID       string            `json:"orgId"`
	DatabaseURL string            `json:"databaseUrl"`
	Tokens      map[string]string `json:"tokens"`
}

// Sample is the sample source in dev.json.
type Sample struct {
	Type         string `json:"type"`
	Host         string `json:"host"`
	Port         int    `json:"port"`
	DatabaseName string `json:"databaseName"`
	UserName     string `json:"userName"`
	Password     string `json:"password"`
}

// Dev is a running `fetcher dev`.
type Dev struct {
	*Process

	Binary *Binary
	Dir    string
	Info   DevFile
}

// LaunchDev starts `fetcher dev` in dir on a free port and waits until it is ready.
func (b *Binary) LaunchDev(dir string, args ...string) (*Dev, error) {
	return b.LaunchDevAs(nil, dir, args...)
}

// LaunchDevAs is LaunchDev as another user when credential is not nil.
func (b *Binary) LaunchDevAs(credential *syscall.Credential, dir string, args ...string) (*Dev, error) {
	return b.launchDev(credential, nil, dir, args...)
}

// LaunchDevWith is LaunchDev with variables in the environment.
func (b *Binary) LaunchDevWith(env []string, dir string, args ...string) (*Dev, error) {
	return b.launchDev(nil, env, dir, args...)
}

func (b *Binary) launchDev(credential *syscall.Credential, env []string, dir string, args ...string) (*Dev, error) {
	path := filepath.Join(dir, "dev.json")
	started := time.Now()
	p, err := b.LaunchAs(credential, env, append([]string{"dev", "--data-dir", dir, "--listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		return nil, err
	}
	d := &Dev{Process: p, Binary: b, Dir: dir}
	for time.Since(started) < StartTimeout {
		if d.read(path, started) == nil {
			return d, nil
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("fetcher dev ended: %w\n%s", errors.Join(errors.New("before it was ready"), p.err), p.Output)
		case <-time.After(20 * time.Millisecond):
		}
	}
	p.Kill()
	return nil, fmt.Errorf("fetcher dev was not ready after %s:\n%s", StartTimeout, p.Output)
}

// read takes dev.json if this process wrote it.
func (d *Dev) read(path string, started time.Time) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if st.ModTime().Before(started) {
		return errors.New("dev.json is of an earlier run")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, &d.Info)
}

// Command runs one fetcher command to its end and returns its standard output.
func (b *Binary) Command(t testing.TB, env []string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), StartTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.Path, args...)
	cmd.Env = append(b.cleanEnv(), env...)
	cmd.Dir = b.Dir()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("fetcher %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// Env is what `fetcher dev env` exports.
func (d *Dev) Env(t testing.TB) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(d.Binary.Command(t, nil, "dev", "env", "--data-dir", d.Dir)) {
		assignment, ok := strings.CutPrefix(strings.TrimSpace(line), "export ")
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(assignment, "=")
		out = append(out, name+"="+strings.Trim(value, "'"))
	}
	return out
}

// Token mints a token with `fetcher dev token`.
func (d *Dev) Token(t testing.TB, args ...string) string {
	t.Helper()
	return strings.TrimSpace(d.Binary.Command(t, nil, append([]string{"dev", "token", "--data-dir", d.Dir}, args...)...))
}

// Tenant is the tenant of that id in dev.json.
func (d *Dev) Tenant(id string) DevTenant {
	for _, tenant := range d.Info.Tenants {
		if tenant.ID == id {
			return tenant
		}
	}
	panic("no tenant " + id + " in dev.json")
}
