package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/testkit"
)

// probed is the part of a readiness answer that says what is wrong.
type probed struct {
	code   int
	Checks map[string]struct {
		Status string `json:"status"`
	} `json:"checks"`
}

func probe(base, path string) (probed, error) {
	answer, err := http.Get(base + path)
	if err != nil {
		return probed{}, err
	}
	defer answer.Body.Close()
	got := probed{code: answer.StatusCode}
	return got, json.NewDecoder(answer.Body).Decode(&got)
}

// wrong lists the checks that are neither up nor without meaning.
func (p probed) wrong() map[string]string {
	wrong := map[string]string{}
	for name, check := range p.Checks {
		if !slices.Contains([]string{"up", "skipped", "n/a"}, check.Status) {
			wrong[name] = check.Status
		}
	}
	return wrong
}

// TestReadinessUnderProbes takes one dependency after the other away from a manager that is probed 500 times a second, and
// wants readiness to say which, and liveness to say nothing.
func TestReadinessUnderProbes(t *testing.T) {
	t.Parallel()
	d := shared(t)
	server := testkit.NewServer(t)
	issuer := testkit.Issuer(t)
	bucket := filepath.Join(t.TempDir(), "results")
	env := map[string]string{
		"DATABASE_URL": server.NewDatabase(t), "RESULTS_URL": "file://" + bucket, "MULTI_TENANT_ENABLED": "true",
		"PLUGIN_AUTH_ENABLED": "true", "PLUGIN_AUTH_ADDRESS": issuer.URL(), "SERVER_ADDRESS": "127.0.0.1:0", "READYZ_DRAIN_DELAY_SEC": "0",
	}
	for _, line := range d.Env(t) {
		if key, ok := strings.CutPrefix(line, "APP_ENC_KEY="); ok {
			env["APP_ENC_KEY"] = key
		}
	}
	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	tenantDSN := testkit.Postgres(t).NewDatabase(t)
	binary.Command(t, list, "tenant", "create", "probed", "--dsn", tenantDSN)
	p, err := binary.Launch(list, "manager")
	must(t, err)
	t.Cleanup(func() { must(t, p.Stop()) })
	base := started(t, p)

	stop := probeStorm(t, base, 500)
	defer stop()
	state := func(path string, code int, want map[string]string) {
		t.Helper()
		var got probed
		eventually(t, fmt.Sprintf("%s is %d with %v", path, code, want), func() bool {
			var err error
			got, err = probe(base, path)
			return err == nil && got.code == code && cmp.Equal(want, got.wrong())
		})
		if alive, err := probe(base, "/health"); err != nil || alive.code != http.StatusOK {
			t.Errorf("liveness %d, %v", alive.code, err)
		}
	}
	healthy := map[string]string{}
	state("/readyz", http.StatusOK, healthy)
	state("/readyz/tenant/probed", http.StatusOK, healthy)

	issuer.Down()
	state("/readyz", http.StatusOK, map[string]string{"identity_service": "degraded"})
	issuer.Up()
	state("/readyz", http.StatusOK, healthy)

	must(t, os.Rename(bucket, bucket+".away"))
	state("/readyz", http.StatusServiceUnavailable, map[string]string{"results_storage": "down"})
	must(t, os.Rename(bucket+".away", bucket))
	state("/readyz", http.StatusOK, healthy)

	server.Stop()
	state("/readyz", http.StatusServiceUnavailable, map[string]string{"control_database": "down", "queue": "down"})
	state("/readyz/tenant/probed", http.StatusOK, healthy) // known from before
	server.Start()
	state("/readyz", http.StatusOK, healthy)
}

// probeStorm probes the process so many times a second until stop, which fails the test if a probe was not answered at all.
func probeStorm(t *testing.T, base string, perSecond int) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var sent, failed atomic.Int64
	var probes sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	probes.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		room := make(chan struct{}, 64)
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			select {
			case room <- struct{}{}:
			default:
				continue // the machine is busy; there are enough under way
			}
			probes.Go(func() {
				defer func() { <-room }()
				sent.Add(1)
				answer, err := client.Get(base + "/readyz")
				if err != nil {
					failed.Add(1)
					return
				}
				_ = answer.Body.Close()
			})
		}
	})
	return func() {
		close(done)
		probes.Wait()
		client.CloseIdleConnections()
		t.Logf("%d probes", sent.Load())
		if failed.Load() > 0 {
			t.Errorf("%d of %d probes were not answered", failed.Load(), sent.Load())
		}
	}
}

// startedAddress is the address in the log line of a process that is up, if there is one yet.
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
