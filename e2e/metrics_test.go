package e2e

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// family is a metric: its type and the labels its series have.
type family struct {
	kind   string
	labels map[string]bool
}

func (f family) String() string {
	return strings.TrimSpace(f.kind + " " + strings.Join(slices.Sorted(maps.Keys(f.labels)), ","))
}

// scrape reads /metrics in the text format.
func scrape(t *testing.T, base string) map[string]family {
	t.Helper()
	answer, err := http.Get(base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("/metrics: %d, %v", answer.StatusCode, err)
	}
	series := regexp.MustCompile(`^([a-z_A-Z:][a-zA-Z0-9_:]*)(?:\{(.*)\})? `)
	label := regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="`)
	found := map[string]family{}
	lines := bufio.NewScanner(strings.NewReader(string(body)))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			found[name] = family{kind, map[string]bool{}}
			continue
		}
		match := series.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		name := match[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if f, ok := found[strings.TrimSuffix(name, suffix)]; ok && f.kind == "histogram" {
				name = strings.TrimSuffix(name, suffix)
			}
		}
		for _, l := range label.FindAllStringSubmatch(match[2], -1) {
			if l[1] != "le" {
				found[name].labels[l[1]] = true
			}
		}
	}
	return found
}

// TestMetricFamilies: a gateway that has done all kinds of work, well and badly, shows the families of the list with
// their labels, and no other. The dashboard and the alerts are held against the same list.
func TestMetricFamilies(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	d, err := binary.LaunchDevWith([]string{"EVENTS_URL=rabbit://metrics.events", "RABBIT_SERVER_URL=" + testkit.Rabbit(t)}, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	binary.Command(t, nil, "demo", "--data-dir", dir)
	failJobs(t, d)
	for deadline := time.Now().Add(blackbox.StartTimeout); ; time.Sleep(200 * time.Millisecond) {
		_, _ = probe(d.Info.API, "/readyz")
		got := scrape(t, d.Info.API)
		for name := range got {
			if strings.HasPrefix(name, "go_") { // the runtime's own, which change with Go
				delete(got, name)
			}
		}
		diff := compareFamilies(t, got)
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("-list +gateway:\n%s", diff)
		}
	}
}

// failJobs has one job fail for good, and one in a way that may pass, at its first attempt.
func failJobs(t *testing.T, d *blackbox.Dev) {
	t.Helper()
	sample := url.URL{Scheme: "postgres", User: url.UserPassword(d.Info.Sample.UserName, d.Info.Sample.Password),
		Host: net.JoinHostPort(d.Info.Sample.Host, strconv.Itoa(d.Info.Sample.Port)), Path: d.Info.Sample.DatabaseName, RawQuery: "sslmode=disable"}
	conn, err := pgx.Connect(t.Context(), sample.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, statement := range []string{
		"CREATE SCHEMA flaky", "CREATE FUNCTION flaky.fails() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE deadlock_detected; END $$",
		"CREATE VIEW flaky.passing AS SELECT flaky.fails() AS id", "CREATE VIEW flaky.lasting AS SELECT 1 / (random() * 0)::int AS id",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	client := d.Client("acme", "admin")
	name, _ := d.Connect(t, client, "metrics")
	client.Extract(t, "metrics", name, "flaky.passing", "id")
	client.Await(t, client.Extract(t, "metrics", name, "flaky.lasting", "id"), blackbox.StartTimeout, blackbox.Ended)
}

func compareFamilies(t *testing.T, got map[string]family) string {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(got)) {
		fmt.Fprintf(&b, "%s %s\n", name, got[name])
	}
	path := filepath.Join("testdata", "metrics.txt")
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		return diff + "\nthe whole list:\n" + b.String()
	}
	return ""
}
