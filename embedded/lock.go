package embedded

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock keeps two processes off one data directory. The kernel drops it when its holder dies, however it dies.
type lock struct{ file *os.File }

// acquireLock takes the lock or returns ErrInUse.
func acquireLock(path string) (*lock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // #nosec G304 -- in our own directory
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrInUse
		}
		return nil, fmt.Errorf("lock: %w", err)
	}
	return &lock{file: file}, nil
}

// release gives the lock back. Closing alone is not enough: a process that is being forked at this moment has a copy of the
// file until it runs its program, and the lock would last as long.
func (l *lock) release() {
	if l != nil {
		_ = syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
		_ = l.file.Close()
	}
}
