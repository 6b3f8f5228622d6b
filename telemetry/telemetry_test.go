package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is a bytes.Buffer that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func setup(t *testing.T, o Options) *Telemetry {
	t.Helper()
	if o.Writer == nil {
		o.Writer = io.Discard
	}
	tel, err := Setup(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tel.Shutdown(context.Background()) })
	return tel
}

func scrape(t *testing.T, tel *Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	tel := setup(t, Options{Service: "fetcher-manager", Version: "v1.2.3"})
	m := tel.Meter("jobs")
	count, err := m.Int64Counter("fetcher.jobs.finished")
	if err != nil {
		t.Fatal(err)
	}
	took, err := m.Float64Histogram("fetcher.jobs.duration", metric.WithUnit("s"))
	if err != nil {
		t.Fatal(err)
	}
	size, err := m.Int64Histogram("fetcher.jobs.size", metric.WithUnit("By"), metric.WithExplicitBucketBoundaries(10, 20))
	if err != nil {
		t.Fatal(err)
	}
	count.Add(t.Context(), 3, metric.WithAttributes(attribute.String("state", "completed")))
	took.Record(t.Context(), 0.003)
	size.Record(t.Context(), 15)
	text := scrape(t, tel)
	for _, want := range []string{
		`fetcher_jobs_finished_total{state="completed"} 3`,
		`fetcher_jobs_duration_seconds_bucket{le="0.0025"} 0`, `fetcher_jobs_duration_seconds_bucket{le="0.005"} 1`,
		`fetcher_jobs_duration_seconds_bucket{le="1800"} 1`,
		`fetcher_jobs_size_bytes_bucket{le="20"} 1`,
		"go_goroutines ", "process_open_fds ", `service_name="fetcher-manager"`, `service_version="v1.2.3"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(text, "otel_scope") {
		t.Error("metrics have scope labels")
	}
	// Registries are apart: a second one in the process neither collides with the first nor sees its figures.
	if text = scrape(t, setup(t, Options{})); strings.Contains(text, "fetcher_jobs") || !strings.Contains(text, `service_name="fetcher"`) {
		t.Error("the second registry is not its own")
	}
}

func TestABrokenMetricHidesNoOther(t *testing.T) {
	t.Parallel()
	var logs buffer
	tel := setup(t, Options{Writer: &logs})
	m := tel.Meter("x")
	_, err := m.Int64ObservableGauge("fetcher.broken", metric.WithInt64Callback(
		func(context.Context, metric.Int64Observer) error { return errors.New("broken") }))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(scrape(t, tel), "go_goroutines") {
		t.Error("the other metrics are gone")
	}
}

func TestTracesHaveIDsWhileNoneIsExported(t *testing.T) {
	t.Parallel()
	tel := setup(t, Options{})
	_, span := tel.TracerProvider().Tracer("x").Start(t.Context(), "y")
	defer span.End()
	if sc := span.SpanContext(); !sc.IsValid() || sc.IsSampled() || span.IsRecording() {
		t.Errorf("span = %+v, recording %v", sc, span.IsRecording())
	}
	// The caller's trace goes on, and so does its decision to sample.
	in := propagation.MapCarrier{"traceparent": "00-ab000000000000000000000000000000-cd00000000000000-01"}
	ctx := tel.Propagator().Extract(t.Context(), in)
	ctx, child := tel.TracerProvider().Tracer("x").Start(ctx, "z")
	defer child.End()
	out := propagation.MapCarrier{}
	tel.Propagator().Inject(ctx, out)
	if got := out["traceparent"]; !strings.HasPrefix(got, "00-"+traceID) || !strings.HasSuffix(got, "-01") {
		t.Errorf("traceparent = %q", got)
	}
}

// collector is a trace collector that counts what reaches it.
func collector(t *testing.T, answer http.HandlerFunc) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
}

func TestShutdownFlushes(t *testing.T) {
	bodies := make(chan string, 10)
	collector(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- r.URL.Path + " " + string(body)
	})
	t.Setenv("OTEL_SERVICE_NAME", "operators-choice")
	tel := setup(t, Options{Enabled: true, Service: "fetcher-worker", Version: "v9"})
	_, span := tel.TracerProvider().Tracer("x").Start(t.Context(), "a-span-name")
	if !span.SpanContext().IsSampled() {
		t.Error("a trace that begins here is not sampled")
	}
	span.End()
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case body := <-bodies:
		for _, want := range []string{"/v1/traces ", "a-span-name", "operators-choice", "v9"} {
			if !strings.Contains(body, want) {
				t.Errorf("the export lacks %q", want)
			}
		}
	default:
		t.Error("nothing was exported")
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Errorf("second Shutdown: %v", err)
	}
}

func TestShutdownIsBounded(t *testing.T) {
	release := make(chan struct{})
	collector(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	tel := setup(t, Options{Enabled: true})
	_, span := tel.TracerProvider().Tracer("x").Start(t.Context(), "y")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := tel.Shutdown(ctx)
	if took := time.Since(began); err == nil || took > 30*time.Second {
		t.Errorf("took %s: %v", took, err)
	}
}

func TestParentDecidesWhetherToSample(t *testing.T) {
	collector(t, func(http.ResponseWriter, *http.Request) { t.Error("something was exported") })
	tel := setup(t, Options{Enabled: true})
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
	_, span := tel.TracerProvider().Tracer("x").Start(trace.ContextWithRemoteSpanContext(t.Context(), parent), "y")
	span.End()
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// The only test that sets what is global.
func TestGlobal(t *testing.T) {
	before := otel.GetTracerProvider()
	quiet := setup(t, Options{})
	if otel.GetTracerProvider() != before {
		t.Error("Setup set a global unasked")
	}
	_ = quiet
	var logs buffer
	tel := setup(t, Options{Global: true, Writer: &logs})
	if otel.GetTracerProvider() != tel.TracerProvider() || otel.GetMeterProvider() != tel.MeterProvider() {
		t.Error("the providers are not global")
	}
	got := slices.Sorted(slices.Values(otel.GetTextMapPropagator().Fields()))
	if want := []string{"baggage", "traceparent", "tracestate"}; !cmp.Equal(got, want) {
		t.Errorf("propagator of %v, want %v", got, want)
	}
	otel.Handle(errors.New("instrument clash"))
	if !strings.Contains(logs.String(), "instrument clash") {
		t.Errorf("logs: %s", logs.String())
	}
}

func TestErrorsAreLoggedNowAndThen(t *testing.T) {
	t.Parallel()
	var logs buffer
	log := slog.New(slog.NewTextHandler(&logs, nil))
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	l := &errorLog{log: log, now: func() time.Time { return now }}
	l.Handle(nil)
	for range 5 {
		l.Handle(errors.New("broken"))
	}
	now = now.Add(errorLogInterval)
	l.Handle(errors.New("still broken"))
	lines := strings.Split(strings.TrimSpace(logs.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "suppressed=0") || !strings.Contains(lines[1], "suppressed=4") {
		t.Errorf("logs:\n%s", logs.String())
	}
}

func TestSafeError(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 4318}, Err: errors.New("refused")}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, "<nil>"},
		{errors.New("duplicate instrument"), "duplicate instrument"},
		{fmt.Errorf("traces export: %w", &url.Error{Op: "Post", URL: "http://collector:4318", Err: dial}), "export failed"},
		{fmt.Errorf("traces export: failed to send to http://collector:4318: 503"), "export failed"},
		{fmt.Errorf("traces export: %w", context.DeadlineExceeded), "export timed out"},
		{&url.Error{Op: "Post", URL: "http://collector:4318", Err: context.DeadlineExceeded}, "export timed out"},
		{fmt.Errorf("x: %w", context.Canceled), "context canceled"},
	} {
		if got := fmt.Sprint(safeError(tt.err)); got != tt.want {
			t.Errorf("safeError(%v) = %s, want %s", tt.err, got, tt.want)
		}
	}
}

func TestSetupRefusesMistakes(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{LogLevel: "loud"}, {LogFormat: "xml"}} {
		if _, err := Setup(t.Context(), o); err == nil {
			t.Errorf("no error for %+v", o)
		}
	}
}
