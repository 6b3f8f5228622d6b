package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// staleSteps are taken with servers of an earlier run.
func staleSteps() []step {
	return []step{
		{0, 2 * time.Second}, // the parent-death signal has usually done it already
		{syscall.SIGINT, 15 * time.Second},
		{syscall.SIGQUIT, 5 * time.Second},
		{syscall.SIGKILL, 5 * time.Second},
	}
}

// endServers waits for servers that still run on dataDir although their starter is gone, and stops them if they
// don't end by themselves. The caller holds the lock, so they are nobody's. Afterwards the pid file, if one is
// left, is that of a dead server and is removed: its number may by now belong to another program, which would
// keep Postgres from starting.
func endServers(ctx context.Context, dataDir string, steps []step) error {
	for _, s := range steps {
		pids := serversOn(dataDir)
		if len(pids) == 0 {
			break
		}
		if s.signal != 0 {
			signalAll(pids, s.signal)
		}
		if err := awaitNone(ctx, dataDir, s.patience); err != nil {
			return err
		}
	}
	if len(serversOn(dataDir)) > 0 {
		return errors.New("a server of an earlier run can't be stopped")
	}
	err := os.Remove(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("stale pid file: %w", err)
	}
	return nil
}

// signalAll signals every process: SIGINT to a backend only cancels its query, the postmaster among them counts.
func signalAll(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}

// awaitNone returns nil when no server is left or patience has run out; an error only when ctx ends.
func awaitNone(ctx context.Context, dataDir string, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(serversOn(dataDir)) > 0 && time.Now().Before(deadline) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for a server of an earlier run: %w", ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}
