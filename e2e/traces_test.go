package e2e

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// spanCollector takes traces as OTLP collectors do, by HTTP with protobuf.
type spanCollector struct {
	url string

	mu      sync.Mutex
	spans   map[string]collected // by id
	headers []string             // of Authorization
}

type collected struct{ trace, parent, name, service string }

func newSpanCollector(t *testing.T) *spanCollector {
	t.Helper()
	c := &spanCollector{spans: map[string]collected{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var batch collector.ExportTraceServiceRequest
		if err == nil && r.URL.Path == "/v1/traces" {
			err = proto.Unmarshal(body, &batch)
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.headers = append(c.headers, r.Header.Get("Authorization"))
		for _, resource := range batch.GetResourceSpans() {
			service := ""
			for _, a := range resource.GetResource().GetAttributes() {
				if a.GetKey() == "service.name" {
					service = a.GetValue().GetStringValue()
				}
			}
			for _, scope := range resource.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					c.spans[hex.EncodeToString(s.GetSpanId())] = collected{
						hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetParentSpanId()), s.GetName(), service,
					}
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// tree is the spans of one trace with their parents, by the services they are of. Calls of our own databases and buckets, of
// which there are as many as a version needs, are left out; a parent that is one is replaced by its own.
func (c *spanCollector) tree(id string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	statement := func(name string) bool {
		return name != "" && (strings.ToUpper(name) == name || strings.HasPrefix(name, "gocloud.dev/") || slices.Contains([]string{"connect", "pool.acquire"}, name))
	}
	var out []string
	for _, s := range c.spans {
		if s.trace != id || statement(s.name) {
			continue
		}
		parent := c.spans[s.parent]
		for statement(parent.name) {
			parent = c.spans[parent.parent]
		}
		out = append(out, s.service+": "+parent.name+" > "+s.name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestOneTrace: what a caller began goes on in the manager, through the queue to a worker that is another process, to
// the external database, the upload and the event, whose receiver is told of it. Logs of both name the trace.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	spans := newSpanCollector(t)
	dir := tempDir(t)
	d, err := binary.LaunchDev(dir, "--no-worker")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	env := append(d.Env(t), "EVENTS_URL=rabbit://traces.events", "RABBIT_SERVER_URL="+testkit.Rabbit(t), "ENABLE_TELEMETRY=true",
		"OTEL_EXPORTER_OTLP_ENDPOINT="+spans.url, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20collector", "OTEL_BSP_SCHEDULE_DELAY=100")
	manager, base := launchProcess(t, "manager", append(slices.Clip(env), "OTEL_SERVICE_NAME=gateway")...)
	worker, _ := launchProcess(t, "worker", append(slices.Clip(env), "OTEL_SERVICE_NAME=jobs")...)

	const trace = "0af7651916cd43dd8448eb211c80319c"
	client := d.Client("acme", "admin")
	client.Base = base
	name, _ := d.Connect(t, client, "traces")
	var made struct{ JobID string }
	client.Expect(t, http.StatusAccepted, http.MethodPost, "/v1/fetcher", map[string]any{
		"dataRequest": map[string]any{"mappedFields": map[string]any{name: map[string]any{"public.customers": []string{"id"}}}},
		"metadata":    map[string]any{"source": "traces"},
	}, "Traceparent", "00-"+trace+"-b7ad6b7169203331-01").Decode(t, &made)
	client.AwaitCompleted(t, made.JobID, blackbox.StartTimeout)

	want := []string{
		"gateway: POST /v1/fetcher > authorize",
		"gateway: POST /v1/fetcher > enqueue job",
		"gateway: POST /v1/fetcher > source catalog",
		"gateway: POST /v1/fetcher > source open",
		"gateway:  > POST /v1/fetcher",
		"jobs: enqueue job > run job",
		"jobs: extract > source begin",
		"jobs: extract > source catalog",
		"jobs: extract > source open",
		"jobs: extract > source stream",
		"jobs: extract > upload result",
		"jobs: run job > extract",
		"jobs: run job > publish event",
	}
	slices.Sort(want)
	var diff string
	for deadline := time.Now().Add(blackbox.StartTimeout); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if diff = cmp.Diff(want, spans.tree(trace)); diff == "" {
			break
		}
	}
	if diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for service, log := range map[string]string{"manager": manager.Output.String(), "worker": worker.Output.String()} {
		if !strings.Contains(log, `"trace_id":"`+trace+`"`) {
			t.Errorf("the log of the %s does not name the trace:\n%s", service, log)
		}
	}
	spans.mu.Lock()
	defer spans.mu.Unlock()
	for _, header := range slices.Compact(spans.headers) {
		if header != "Bearer collector" {
			t.Errorf("the collector was sent Authorization %q", header)
		}
	}
}

// TestCollectorDown: traces that nobody takes hold up neither requests nor the end of the process.
func TestCollectorDown(t *testing.T) {
	t.Parallel()
	d := shared(t)
	port, _, _ := silent(t)
	for name, endpoint := range map[string]string{"refused": "http://127.0.0.1:1", "silent": fmt.Sprintf("http://127.0.0.1:%d", port)} {
		client := d.Client("acme", "viewer")
		client.Base = launch(t, "manager", append(d.Env(t), "ENABLE_TELEMETRY=true", "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_BSP_SCHEDULE_DELAY=10")...)
		for range 20 {
			if got := client.Do(t, http.MethodGet, "/v1/management/connections", nil, "X-Product-Name", "traces"); got.Status != http.StatusOK {
				t.Errorf("%s: %d %s", name, got.Status, got.Body)
			}
		}
	} // launch's cleanup fails unless the process ends well
}
