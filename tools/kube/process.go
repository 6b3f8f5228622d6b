package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// process is a running program of the control plane.
type process struct {
	name string
	log  string
	done chan struct{} // closed when it has ended
	err  error         // how it ended, once done is closed
}

// start runs bin/name until the test ends. What it prints goes to a file, whose end is shown when the test fails. The
// program also ends when the test's own process is killed, where the system can do that.
func start(t *testing.T, bin, dir, name string, args ...string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	dieWithParent(cmd)
	started := make(chan error)
	go func() {
		// The parent that a child dies with is the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			if p.err = cmd.Wait(); p.err == nil {
				p.err = errors.New("exit status 0")
			}
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		stop()
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		complaints := p.complaints(10)
		stop()
		<-p.done
		if t.Failed() && len(complaints) > 0 {
			t.Logf("the last errors of %s:\n%s", name, bytes.Join(complaints, []byte("\n")))
		}
	})
	return p
}

// tail is the end of what the program printed.
func (p *process) tail(size int) []byte {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	content = bytes.TrimSpace(content)
	return content[max(0, len(content)-size):]
}

// complaints are the last lines, at most limit, that the program logged as errors.
func (p *process) complaints(limit int) [][]byte {
	var found [][]byte
	for line := range bytes.Lines(p.tail(1 << 20)) {
		if bytes.HasPrefix(line, []byte("E")) || bytes.Contains(line, []byte(`"level":"error"`)) {
			found = append(found, bytes.TrimSpace(line))
		}
	}
	return found[max(0, len(found)-limit):]
}

// ended tells how the program ended, nil while it runs.
func (p *process) ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended: %w: %s", p.name, p.err, p.tail(1000))
	default:
		return nil
	}
}

// patience is how long anything may take on a loaded machine before the test gives up.
const patience = 3 * time.Minute

// eventually waits until check returns nil, and fails the test with its last error when patience is over or a program
// of the control plane has ended.
func eventually(t *testing.T, what string, check func() error, needed ...*process) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		for _, p := range needed {
			if end := p.ended(); end != nil {
				t.Fatalf("waiting for %s: %v", what, end)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
