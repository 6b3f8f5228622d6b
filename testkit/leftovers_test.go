package testkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// ways in which a test process ends.
var ways = map[string]struct {
	mode  string
	limit string // of the child's tests
	kill  syscall.Signal
}{
	"success": {"pass", "1m", 0},
	"failure": {"fail", "1m", 0},
	"panic":   {"panic", "1m", 0},
	"timeout": {"hang", "15s", 0},
	"killed":  {"hang", "1m", syscall.SIGKILL},
	"ctrl-c":  {"hang", "1m", syscall.SIGINT},
}

// However a test process ends, its server and its directory go.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for name, tt := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runChild(t, "TestChild", tt.mode, tt.limit, tt.kill)
		})
	}
}

func TestNothingOfS3IsLeft(t *testing.T) {
	t.Parallel()
	_ = newGateway(t) // may take longer than a child has
	for name, tt := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := runChild(t, "TestChildS3", tt.mode, tt.limit, tt.kill)
			// The process that is gone is the keeper.
			eventually(t, "the server goes", func() bool {
				conn, err := net.DialTimeout("tcp", address, time.Second)
				if err == nil {
					_ = conn.Close()
				}
				return errors.Is(err, syscall.ECONNREFUSED)
			})
		})
	}
}

func TestNothingOfMongoDBIsLeft(t *testing.T) {
	t.Parallel()
	if _, err := ferretBinary(context.Background()); err != nil { // building may take longer than a child has
		t.Fatal(err)
	}
	for _, name := range []string{"success", "panic", "killed"} {
		tt := ways[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := runChild(t, "TestChildMongoDB", tt.mode, tt.limit, tt.kill)
			eventually(t, "the server goes", func() bool {
				conn, err := net.DialTimeout("tcp", address, time.Second)
				if err == nil {
					_ = conn.Close()
				}
				return errors.Is(err, syscall.ECONNREFUSED)
			})
		})
	}
}

// runChild runs one test in a child process, has it end in the given way, sees its server and directory go, and
// returns the server's address.
func runChild(t *testing.T, test, mode, limit string, kill syscall.Signal) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.timeout="+limit)
	cmd.Env = append(os.Environ(), childMode+"="+mode, DatabaseURL+"=", S3URL+"=", MongoDSN+"=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir, address string
	if _, err = fmt.Fscanf(bufio.NewReader(out), "ready %d %s %s\n", &pid, &dir, &address); err != nil {
		t.Fatalf("child didn't get ready: %v", err)
	}
	if kill != 0 {
		_ = syscall.Kill(-cmd.Process.Pid, kill) // the group, as a terminal does
	}
	err = cmd.Wait()
	if failed := err != nil; failed != (mode != "pass") {
		t.Errorf("child ended with %v", err)
	}
	eventually(t, "the directory goes", func() bool { _, err := os.Lstat(dir); return os.IsNotExist(err) })
	eventually(t, "the server goes", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	return address
}
