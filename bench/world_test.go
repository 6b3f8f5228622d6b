package bench

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(bareDSN); dsn != "" {
		os.Exit(serveBare(dsn))
	}
	testkit.Main(m)
}

// world is what suites share: the size of everything, the binary, and one development gateway without a worker.
type world struct {
	t     *testing.T
	scale float64
	smoke bool
	bin   *blackbox.Binary
	dev   *blackbox.Dev
}

func newWorld(t *testing.T, scale float64, smoke bool) *world {
	t.Helper()
	dir := t.TempDir()
	binary, err := blackbox.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	// As root, the database server runs as an ordinary user and must get to its files.
	if err = os.Chmod(parent(dir), 0o755); err != nil { // #nosec G302
		t.Fatal(err)
	}
	return &world{t: t, scale: scale, smoke: smoke, bin: binary}
}

// size is n at scale, and no less than least.
func (w *world) size(n, least int) int { return max(least, int(float64(n)*w.scale)) }

func (w *world) rounds(n int) int {
	switch {
	case w.smoke:
		return 1
	case n == 0:
		return 3
	}
	return n
}

// period is how long load lasts in one round.
func (w *world) period() time.Duration {
	return max(200*time.Millisecond, time.Duration(min(1, w.scale*2)*float64(4*time.Second)))
}

// gateway returns the development gateway, which lives until the last suite is over.
func (w *world) gateway(t *testing.T) *blackbox.Dev {
	t.Helper()
	if w.dev == nil {
		d, err := w.bin.LaunchDev(w.bin.Dir()+"/dev", "--no-worker")
		if err != nil {
			t.Fatal(err)
		}
		w.t.Cleanup(func() { stop(w.t, d.Process) })
		w.dev = d
	}
	return w.dev
}

func (w *world) worker(t *testing.T, env ...string) *blackbox.Process {
	t.Helper()
	d := w.gateway(t)
	worker, err := w.bin.Launch(append(d.Env(t), env...), "worker")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, worker) })
	return worker
}

// manager starts `fetcher manager` and returns its address once it is ready.
func (w *world) manager(t *testing.T, env []string) (address string, p *blackbox.Process) {
	t.Helper()
	p, err := w.bin.Launch(append(env, "SERVER_ADDRESS=127.0.0.1:0", "READYZ_DRAIN_DELAY_SEC=0", "LOG_LEVEL=info"), "manager")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p) })
	for deadline := time.Now().Add(blackbox.StartTimeout); ; time.Sleep(time.Millisecond) {
		if address == "" {
			address = startedAddress(p.Output.String())
		} else if answer, err := http.Get("http://" + address + "/readyz"); err == nil { // #nosec G107
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return address, p
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the manager is not ready:\n%s", p.Output)
		}
	}
}

func startedAddress(log string) string {
	for line := range strings.Lines(log) {
		var entry struct {
			Msg     string `json:"msg"`
			Address string `json:"address"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "started" {
			return entry.Address
		}
	}
	return ""
}
