//go:build !linux

package embedded

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// dieWithParent does nothing here: the kernel has no such service, and a server that outlives us is stopped at the
// next start.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// serversOn lists the server that works in dataDir, if any, by its pid file and, since ids are reused, its command
// line.
func serversOn(dataDir string) []int {
	data, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil {
		return nil
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	pid, err := strconv.Atoi(string(bytes.TrimSpace(first)))
	if err != nil || pid <= 0 {
		return nil
	}
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil || !bytes.Contains(out, []byte(dataDir)) {
		return nil
	}
	return []int{pid}
}

// openFiles has no answer here.
func openFiles() []string { return nil }
