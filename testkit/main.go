package testkit

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, stops what they started lazily and exits. Call it as the whole of TestMain.
// It starts nothing itself.
func Main(m *testing.M) {
	code := m.Run()
	os.Exit(finish(code))
}

// MainNoLeaks is Main for packages that own goroutines: it also fails when one is left after the last test.
func MainNoLeaks(m *testing.M, allowed ...goleak.Option) {
	code := finish(m.Run())
	if code == 0 {
		if err := goleak.Find(allowed...); err != nil {
			fmt.Fprintln(os.Stderr, "testkit:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// IgnoreServer excepts the goroutines of the shared Postgres from a leak check within one test. Start the server
// before the check begins to look.
func IgnoreServer() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/fetcherhq/fetcher/embedded.launch.func1")
}

// Stop stops what tests started lazily and returns the code to exit with: for a TestMain that has more to do than Main.
func Stop(code int) int { return finish(code) }

func finish(code int) int {
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testkit: stop postgres:", err)
		code = max(code, 1)
	}
	if err := sharedBuckets.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testkit: stop S3:", err)
		code = max(code, 1)
	}
	if err := sharedRabbit.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testkit: stop RabbitMQ:", err)
		code = max(code, 1)
	}
	if err := sharedMaria.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testkit: stop MariaDB:", err)
		code = max(code, 1)
	}
	if err := sharedDialect.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testkit: stop the MySQL dialect:", err)
		code = max(code, 1)
	}
	if err := sharedMongo.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testkit: stop MongoDB:", err)
		code = max(code, 1)
	}
	return code
}
