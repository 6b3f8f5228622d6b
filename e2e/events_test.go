package e2e

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// hooks is a webhook receiver that answers as told.
type hooks struct {
	*httptest.Server

	mu     sync.Mutex
	status int
	bodies map[string]string // by webhook-id
}

func newHooks(t *testing.T) *hooks {
	t.Helper()
	h := &hooks{status: http.StatusOK, bodies: map[string]string{}}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.status == http.StatusOK {
			h.bodies[r.Header.Get("Webhook-Id")] = string(body)
		}
		w.WriteHeader(h.status)
	}))
	h.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

func (h *hooks) answer(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = status
}

// await waits for an event and returns its body.
func (h *hooks) await(t *testing.T, id string) string {
	t.Helper()
	for end := time.Now().Add(blackbox.StartTimeout); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		h.mu.Lock()
		body := h.bodies[id]
		h.mu.Unlock()
		if body != "" {
			return body
		}
	}
	t.Fatalf("the event %s did not come", id)
	return ""
}

// TestEventsAndKeys follows events to a webhook, through parking and replay, and then changes the master key.
func TestEventsAndKeys(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--no-worker")
	h := newHooks(t)
	roots := filepath.Join(tempDir(t), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(d.Env(t), "SSL_CERT_FILE="+roots)
	var set struct{ URL, Secret string }
	decode(t, binary.Command(t, env, "tenant", "webhook", "set", "acme", "--url", h.URL+"/in", "--output", "json"), &set)
	if shown := binary.Command(t, env, "tenant", "webhook", "show", "acme"); !strings.Contains(shown, set.Secret) || !strings.HasPrefix(set.Secret, "whsec_") {
		t.Errorf("shown: %s", shown)
	}
	worker := startWorker(t, env)
	c := d.Client("acme", "operator")
	name, _ := d.Connect(t, c, "ledger")
	job := c.Extract(t, "ledger", name, "order", "*")
	c.AwaitCompleted(t, job, blackbox.StartTimeout)
	var posted any
	decode(t, h.await(t, "fetcher.job.completed."+job), &posted)
	var listed struct{ Items []any }
	c.Expect(t, http.StatusOK, http.MethodGet, "/v1/fetcher/"+job+"/events", nil).Decode(t, &listed)
	if !reflect.DeepEqual([]any{posted}, listed.Items) {
		t.Errorf("posted %v, listed %v", posted, listed.Items)
	}

	h.answer(http.StatusNotFound)
	lost := c.Extract(t, "ledger", name, "order", "select")
	c.AwaitCompleted(t, lost, blackbox.StartTimeout)
	acme := d.Tenant("acme").DatabaseURL
	awaitCell(t, acme, `SELECT count(*) FROM event_deliveries WHERE attempts > 0 AND delivered_at IS NULL`, "1")
	psql(t, acme, `UPDATE event_deliveries SET begun_at = begun_at - interval '24 hours', next_attempt_at = now() WHERE delivered_at IS NULL`)
	psql(t, d.Info.DatabaseURL, `UPDATE event_marks SET due_at = now()`)
	awaitCell(t, d.Info.DatabaseURL, `SELECT sum(parked) FROM event_marks`, "1")
	h.answer(http.StatusOK)
	var parked []struct {
		JobID, Transport, Reason string
		Replayed                 bool
	}
	decode(t, binary.Command(t, env, "events", "replay", "--dry-run", "--output", "json"), &parked)
	if len(parked) != 1 || parked[0].JobID != lost || parked[0].Transport != "webhook" || parked[0].Reason != "answered with status 404" || parked[0].Replayed {
		t.Errorf("parked %+v", parked)
	}
	binary.Command(t, env, "events", "replay", "--tenant", "acme", "--job", lost)
	h.await(t, "fetcher.job.completed."+lost)
	binary.Command(t, env, "tenant", "webhook", "remove", "acme")
	stopWorker(t, worker)
	rotateKeys(t, d, env, c, job)
}

// rotateKeys changes the master key of a running deployment and removes the old one.
func rotateKeys(t *testing.T, d *blackbox.Dev, env []string, c blackbox.Client, job string) {
	t.Helper()
	var old string
	var rest []string
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "APP_ENC_KEY="); ok {
			old = value
		} else {
			rest = append(rest, v)
		}
	}
	fresh := base64.StdEncoding.EncodeToString([]byte("a key that is thirty-two bytes long!"))
	alone := append([]string{"APP_ENC_KEY=" + fresh, "APP_ENC_KEY_VERSION=2", "SERVER_ADDRESS=" + freeAddress(t)}, rest...)
	both := append([]string{"APP_ENC_KEYS_RETIRED=1:" + old}, alone...)
	blind := startWorker(t, alone)
	if out := blind.Output.String(); !strings.Contains(out, "a version of the master key is in use but not given") || !strings.Contains(out, `"version":1`) {
		t.Errorf("a start without the old key says: %s", out)
	}
	stopWorker(t, blind)
	var done []struct {
		TenantID                       string
		Registry, Connections, Results int
		Error                          string
	}
	decode(t, binary.Command(t, both, "keys", "rotate", "--output", "json"), &done)
	if len(done) != 3 || done[0].Registry != 2 || done[1].TenantID != "acme" || done[1].Connections < 1 || done[1].Results != 2 {
		t.Errorf("rotated %+v", done)
	}
	// A deleted tenant may come back, and would need the old key.
	binary.Command(t, both, "tenant", "create", "gone", "--provision")
	binary.Command(t, both, "tenant", "delete", "gone", "--yes")
	if said := fails(t, both, 1, "", "keys", "rotate"); !strings.Contains(said, "of: gone") {
		t.Errorf("rotation with a deleted tenant said %q", said)
	}
	binary.Command(t, both, "tenant", "delete", "gone", "--purge", "--yes")
	alone[2] = "SERVER_ADDRESS=" + freeAddress(t)
	p, err := binary.Launch(alone, "serve")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopWorker(t, p) })
	c.Base = "http://" + strings.TrimPrefix(alone[2], "SERVER_ADDRESS=")
	awaitReady(t, c.Base)
	if strings.Contains(p.Output.String(), "in use but not given") {
		t.Errorf("the old key is missed: %s", p.Output)
	}
	c.Expect(t, http.StatusOK, http.MethodGet, "/v1/fetcher/"+job+"/result", nil)
	var conns struct {
		Items []struct{ ID, ConfigName string }
	}
	c.Expect(t, http.StatusOK, http.MethodGet, "/v1/management/connections", nil).Decode(t, &conns)
	for _, conn := range conns.Items {
		if conn.ConfigName == "TestEventsAndKeys" {
			c.Expect(t, http.StatusOK, http.MethodPost, "/v1/management/connections/"+conn.ID+"/test", nil)
			return
		}
	}
	t.Errorf("connections %+v of %s", conns, d.Dir)
}

func awaitReady(t *testing.T, base string) {
	t.Helper()
	for end := time.Now().Add(blackbox.StartTimeout); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		resp, err := http.Get(base + "/readyz")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	t.Fatal("the manager is not ready")
}

// startWorker starts a worker and waits until it has started.
func startWorker(t *testing.T, env []string) *blackbox.Process {
	t.Helper()
	p, err := binary.Launch(append([]string{"LOG_LEVEL=info"}, env...), "worker")
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(blackbox.StartTimeout); !strings.Contains(p.Output.String(), `"msg":"started"`); <-time.After(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the worker did not start: %s", p.Output)
		}
	}
	return p
}

func stopWorker(t *testing.T, p *blackbox.Process) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
}

// awaitCell waits until the only cell of a query is as wanted.
func awaitCell(t *testing.T, dsn, query, want string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(blackbox.StartTimeout); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		if rows := psql(t, dsn, query); len(rows) > 1 {
			if got = rows[1][0]; got == want {
				return
			}
		}
	}
	t.Fatalf("%s: %s, want %s", query, got, want)
}
