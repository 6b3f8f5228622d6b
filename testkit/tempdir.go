package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// tempPrefix marks directories of this package, so that later runs know what they may remove.
const tempPrefix = "fetcher-testkit-"

// tempDir is a directory that goes away with this process, even if that is killed.
type tempDir struct {
	path    string
	janitor *exec.Cmd
	life    io.Closer // the janitor waits for it to close
}

// janitorScript reads until our end of the pipe closes, by us or by our death, gives the server of the directory
// time to go, and removes it.
const janitorScript = `
trap '' INT TERM HUP
read -r _
i=0
while { [ -e "$1/postgres/data/postmaster.pid" ] || [ -e "$1/` + keptFile + `" ]; } && [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done
rm -rf -- "$1" || { sleep 1; rm -rf -- "$1"; }
`

// newTempDir makes a directory that other users may pass through: as root the server runs as another user.
func newTempDir() (*tempDir, error) {
	removeStale(os.TempDir(), time.Now().Add(-24*time.Hour))
	path, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return nil, fmt.Errorf("temporary directory: %w", err)
	}
	d := &tempDir{path: path}
	const passThrough = 0o711
	if err := errors.Join(os.Chmod(path, passThrough), d.watch()); err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return d, nil
}

// watch starts the janitor.
func (d *tempDir) watch() error {
	d.janitor = exec.CommandContext(context.Background(), "/bin/sh", "-c", janitorScript, "sh", d.path) // #nosec G204 -- our own script and directory
	d.janitor.Dir = "/"
	d.janitor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // spared by a Ctrl-C
	life, err := d.janitor.StdinPipe()
	if err != nil {
		return fmt.Errorf("temporary directory: %w", err)
	}
	d.life = life
	if err := d.janitor.Start(); err != nil {
		return fmt.Errorf("temporary directory: %w", err)
	}
	return nil
}

// remove deletes the directory and waits until it is gone.
func (d *tempDir) remove() error {
	if err := d.life.Close(); err != nil {
		return fmt.Errorf("temporary directory: %w", err)
	}
	if err := d.janitor.Wait(); err != nil {
		return fmt.Errorf("temporary directory: %w", err)
	}
	return nil
}

// removeStale deletes directories of earlier runs that were last touched before the given time.
func removeStale(parent string, before time.Time) {
	found, err := filepath.Glob(filepath.Join(parent, tempPrefix+"*"))
	if err != nil {
		return
	}
	for _, path := range found {
		info, err := os.Lstat(path)
		if err == nil && info.IsDir() && info.ModTime().Before(before) {
			_ = os.RemoveAll(path) // those of other users stay theirs
		}
	}
}
