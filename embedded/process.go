package embedded

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// runLocked runs cmd to its end and returns its combined output. The calling goroutine keeps its thread
// meanwhile: the kernel's parent-death signal is tied to the thread that forked, not to the process.
func runLocked(cmd *exec.Cmd) ([]byte, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.CombinedOutput()
}

// process is a running program.
type process struct {
	pid  int
	done chan struct{} // closed once it has been reaped
	err  error         // of Wait; valid after done
}

// launch starts cmd from a goroutine that keeps its thread until the program has ended, for the same reason as
// runLocked.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	return p, <-started
}

// alive tells whether the program still runs.
func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// end sends one signal after the other, each with its patience, until the program has ended. It returns the
// number of signals that it took.
func (p *process) end(steps ...step) int {
	for i, s := range steps {
		if !p.alive() {
			return i
		}
		_ = syscall.Kill(p.pid, s.signal)
		select {
		case <-p.done:
			return i + 1
		case <-time.After(s.patience):
		}
	}
	<-p.done // the last signal is SIGKILL
	return len(steps)
}

// step is a signal and how long to wait for its effect.
type step struct {
	signal   syscall.Signal
	patience time.Duration
}
