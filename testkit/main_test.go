package testkit

import (
	"fmt"
	"os"
	"testing"
)

// childMode names the variable that turns the test binary into one that uses a server and then ends badly.
const childMode = "FETCHER_TESTKIT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		Main(m)
	}
	MainNoLeaks(m)
}

// TestChild is the child's only test.
func TestChild(t *testing.T) {
	mode := os.Getenv(childMode)
	if mode == "" {
		t.Skip("only in a child process")
	}
	dsn := Postgres(t).NewDatabase(t)
	fmt.Printf("ready %d %s %s\n", shared.running.PID(), shared.dir.path, dsn)
	endBadly(t, mode)
}

// TestChildS3 is TestChild with the other server.
func TestChildS3(t *testing.T) {
	mode := os.Getenv(childMode)
	if mode == "" {
		t.Skip("only in a child process")
	}
	S3(t)
	fmt.Printf("ready %d %s %s\n", sharedBuckets.server.keeper.Process.Pid, sharedBuckets.dir.path, sharedBuckets.server.address)
	endBadly(t, mode)
}

// TestChildMongoDB is TestChild with FerretDB.
func TestChildMongoDB(t *testing.T) {
	mode := os.Getenv(childMode)
	if mode == "" {
		t.Skip("only in a child process")
	}
	s := MongoDB(t)
	fmt.Printf("ready %d %s %s\n", s.kept.keeper.Process.Pid, s.dir.path, s.address())
	endBadly(t, mode)
}

func endBadly(t *testing.T, mode string) {
	t.Helper()
	switch mode {
	case "panic":
		done := make(chan struct{})
		go func() {
			defer close(done)
			panic("as a test may")
		}()
		<-done
	case "fail":
		t.Fatal("as a test may")
	case "hang":
		select {} // until killed, or the time limit of the tests
	}
}
