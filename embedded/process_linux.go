package embedded

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent has the kernel send sig when the forking thread, and with it this process, is gone.
func dieWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// serversOn lists the Postgres processes that work in dataDir: a server and its backends, which share its working
// directory. Process ids alone prove nothing, they are reused.
func serversOn(dataDir string) []int {
	if resolved, err := filepath.EvalSymlinks(dataDir); err == nil {
		dataDir = resolved
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cwd, err := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd"))
		if err != nil || strings.TrimSuffix(cwd, " (deleted)") != dataDir {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", entry.Name(), "exe"))
		if err != nil || filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != serverProgram {
			continue
		}
		pids = append(pids, pid)
	}
	return pids
}

// openFiles lists the files that this process has open.
func openFiles() []string {
	const fds = "/proc/self/fd"
	entries, err := os.ReadDir(fds)
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		if name, err := os.Readlink(filepath.Join(fds, entry.Name())); err == nil {
			names = append(names, name)
		}
	}
	return names
}
