package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// isolated is one tenant of the isolation suite. Everything about it carries its id, and what it asks for is worded like
// every other tenant's: only the routing keeps them apart.
type isolated struct {
	id, base, token string

	mu          sync.Mutex
	connections []string          // ids
	jobs        []string          // ids
	keyed       map[string]string // connection made under an idempotency key
}

// allowedFailures are the answers that tenancy.md 3 names for a tenant that is suspended or whose database is away, and
// those to a request that another one is ahead of.
var allowedFailures = []string{"FET-1083", "FET-1082", "FET-0003", "FET-0004", "FET-1021"}

// errRefused is one of the allowed failures.
var errRefused = errors.New("refused")

// do does the request. Anything but a good answer or an allowed failure is an error; errRefused tells of the latter.
func (i *isolated) do(ctx context.Context, method, path string, body any, headers ...string) (status int, content []byte, err error) {
	var sent io.Reader
	if body != nil {
		encoded, bad := json.Marshal(body)
		if bad != nil {
			return 0, nil, bad
		}
		sent = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, i.base+path, sent)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+i.token)
	for n := 0; n+1 < len(headers); n += 2 {
		request.Header.Set(headers[n], headers[n+1])
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	if content, err = io.ReadAll(answer.Body); err != nil {
		return 0, nil, fmt.Errorf("%s %s: reading the answer: %w", method, path, err)
	}
	var p blackbox.Problem
	if answer.StatusCode >= 400 {
		if err := json.Unmarshal(content, &p); err != nil {
			return 0, nil, fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, content)
		}
	}
	switch {
	case slices.Contains(allowedFailures, p.Code):
		return answer.StatusCode, content, errRefused
	case answer.StatusCode >= 400 && answer.StatusCode != http.StatusNotFound:
		return 0, nil, fmt.Errorf("%s of %s: %s %s: %d %s", i.id, i.base, method, path, answer.StatusCode, content)
	}
	return answer.StatusCode, content, nil
}

// fetch is do for an answer that must be there.
func (i *isolated) fetch(ctx context.Context, into any, method, path string, body any, headers ...string) error {
	status, content, err := i.do(ctx, method, path, body, headers...)
	if err != nil {
		return err
	}
	if status == http.StatusNotFound {
		return fmt.Errorf("%s lost %s %s: %s", i.id, method, path, content)
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s %s: %w in %s", method, path, err, content)
	}
	return nil
}

// owned is what a connection must say of itself.
type owned struct {
	ID       string
	Metadata struct{ Owner string }
}

func (i *isolated) own(what string, c owned) error {
	if c.Metadata.Owner != i.id {
		return fmt.Errorf("%s of tenant %s shows a connection of %q", what, i.id, c.Metadata.Owner)
	}
	return nil
}

func (i *isolated) list(ctx context.Context, _ *rand.Rand) error {
	var page struct{ Items []owned }
	if err := i.fetch(ctx, &page, http.MethodGet, "/v1/management/connections?limit=50", nil); err != nil {
		return err
	}
	if len(page.Items) == 0 {
		return fmt.Errorf("the list of tenant %s is empty", i.id)
	}
	for _, c := range page.Items {
		if err := i.own("the list", c); err != nil {
			return err
		}
	}
	return nil
}

func (i *isolated) get(ctx context.Context, random *rand.Rand) error {
	var c owned
	if err := i.fetch(ctx, &c, http.MethodGet, "/v1/management/connections/"+pick(random, i.known(&i.connections)), nil); err != nil {
		return err
	}
	return i.own("a connection", c)
}

func (i *isolated) patch(ctx context.Context, random *rand.Rand) error {
	var c owned
	change := map[string]any{"metadata": map[string]any{"owner": i.id, "n": random.IntN(1000)}}
	if err := i.fetch(ctx, &c, http.MethodPatch, "/v1/management/connections/"+i.known(&i.connections)[0], change); err != nil {
		return err
	}
	return i.own("a change", c)
}

// keyed repeats a request with the same key and body that every tenant uses.
func (i *isolated) create(ctx context.Context, random *rand.Rand, s isolationSample) error {
	name := fmt.Sprintf("keyed_%d", random.IntN(4))
	body := s.connection(name, i.id)
	body["metadata"] = map[string]any{"owner": i.id}
	var c owned
	if err := i.fetch(ctx, &c, http.MethodPost, "/v1/management/connections", body, "X-Product-Name", "iso", "Idempotency-Key", name); err != nil {
		return err
	}
	if err := i.own("a keyed creation", c); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if before, ok := i.keyed[name]; ok && before != c.ID {
		return fmt.Errorf("the key %s of tenant %s made %s and %s", name, i.id, before, c.ID)
	}
	if i.keyed[name] == "" {
		i.connections = append(i.connections, c.ID)
	}
	i.keyed[name] = c.ID
	return nil
}

// submit asks for the same as every other tenant: the table iso of the schema that the connection names.
func (i *isolated) submit(ctx context.Context, random *rand.Rand) error {
	var made struct{ JobID string }
	err := i.fetch(ctx, &made, http.MethodPost, "/v1/fetcher", map[string]any{
		"dataRequest": map[string]any{
			"mappedFields": map[string]any{"shared": map[string]any{"iso": []string{"*"}}},
			"filters":      map[string]any{"shared": map[string]any{"iso": map[string]any{"id": map[string]any{"lte": []int{1 + random.IntN(6)}}}}},
		},
		"metadata": map[string]any{"source": "iso"},
	})
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !slices.Contains(i.jobs, made.JobID) {
		i.jobs = append(i.jobs, made.JobID)
	}
	return nil
}

func (i *isolated) download(ctx context.Context, random *rand.Rand) error {
	jobs := i.known(&i.jobs)
	if len(jobs) == 0 {
		return nil
	}
	id := pick(random, jobs)
	var j struct{ Status, ResultPath string }
	if err := i.fetch(ctx, &j, http.MethodGet, "/v1/fetcher/"+id, nil); err != nil {
		return err
	}
	if j.Status != "completed" {
		return nil
	}
	if want := i.id + "/external-data/" + id + ".json"; j.ResultPath != want {
		return fmt.Errorf("the result of %s lies at %s, want %s", i.id, j.ResultPath, want)
	}
	var result map[string]map[string][]struct{ Owner string }
	if err := i.fetch(ctx, &result, http.MethodGet, "/v1/fetcher/"+id+"/result", nil); err != nil {
		return err
	}
	if len(result["shared"]["iso"]) == 0 {
		return fmt.Errorf("the result of job %s of %s is empty", id, i.id)
	}
	for _, row := range result["shared"]["iso"] {
		if row.Owner != i.id {
			return fmt.Errorf("the result of job %s of %s holds a row of %q", id, i.id, row.Owner)
		}
	}
	return nil
}

// trespass asks for what is another tenant's, and for what is nobody's, and wants the same answer.
func (i *isolated) trespass(ctx context.Context, random *rand.Rand, other *isolated) error {
	for path, ids := range map[string][]string{
		"/v1/management/connections/": other.known(&other.connections), "/v1/fetcher/": other.known(&other.jobs),
	} {
		if len(ids) == 0 {
			continue
		}
		_, theirs, err := i.do(ctx, http.MethodGet, path+pick(random, ids), nil)
		if err != nil {
			return err
		}
		_, nobodys, err := i.do(ctx, http.MethodGet, path+uuid.NewString(), nil)
		if err != nil {
			return err
		}
		if a, b := withoutInstance(theirs), withoutInstance(nobodys); a != b {
			return fmt.Errorf("tenant %s can tell an id of %s from a random one: %s and %s", i.id, other.id, a, b)
		}
	}
	return nil
}

func withoutInstance(answer []byte) string {
	var p map[string]any
	if err := json.Unmarshal(answer, &p); err != nil {
		return string(answer)
	}
	delete(p, "instance")
	return fmt.Sprint(p)
}

func (i *isolated) known(list *[]string) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(*list)
}

func pick[T any](random *rand.Rand, list []T) T { return list[random.IntN(len(list))] }

// act does one random operation.
func (i *isolated) act(ctx context.Context, random *rand.Rand, s isolationSample, all []*isolated) error {
	switch n := random.IntN(20); {
	case n < 5:
		return i.list(ctx, random)
	case n < 9:
		return i.get(ctx, random)
	case n < 11:
		return i.patch(ctx, random)
	case n < 13:
		return i.create(ctx, random, s)
	case n < 14:
		return i.submit(ctx, random)
	case n < 17:
		return i.download(ctx, random)
	default:
		if other := pick(random, all); other != i {
			return i.trespass(ctx, random, other)
		}
		return nil
	}
}

// TestIsolation has workers do random operations for many tenants over a cap of four pools, while tenants are suspended
// and get new passwords, and the server of some of them restarts. Whatever happens, nothing of one tenant may show in
// another's answers, the only failures are those the contract names, and nothing is left open in the end.
func TestIsolation(t *testing.T) {
	t.Parallel()
	const workers = 8
	w := newIsolationWorld(t, 20)
	for n, i := range w.tenants {
		must(t, i.submit(t.Context(), rand.New(rand.NewPCG(4, uint64(n)))))
	}
	before := w.measure(t)
	ctx, stop := context.WithTimeout(t.Context(), w.duration)
	defer stop()
	var group errgroup.Group
	var counts [workers][2]int
	for n := range workers {
		random := rand.New(rand.NewPCG(5, uint64(n)))
		group.Go(func() error {
			for ctx.Err() == nil {
				err := pick(random, w.tenants).act(t.Context(), random, w.sample, w.tenants)
				switch {
				case err == nil:
					counts[n][0]++
				case errors.Is(err, errRefused):
					counts[n][1]++
				default:
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error { return w.meddle(ctx, t) })
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
	w.verify(t, before)
	var done, refused int
	for _, c := range counts {
		done, refused = done+c[0], refused+c[1]
	}
	t.Logf("%d operations, %d refused, %d jobs", done, refused, w.jobs())
	if done == 0 {
		t.Error("every operation was refused: nothing was tested")
	}
}

func (w *isolationWorld) jobs() int {
	n := 0
	for _, i := range w.tenants {
		n += len(i.known(&i.jobs))
	}
	return n
}

// settle waits until every tenant is served and every job has ended, well unless its tenant was suspended when its turn came.
func (w *isolationWorld) settle(t *testing.T) {
	t.Helper()
	completed := 0
	for _, i := range w.tenants {
		eventually(t, i.id+" is served", func() bool { return i.list(t.Context(), nil) == nil })
		for _, id := range i.known(&i.jobs) {
			eventually(t, "job "+id+" of "+i.id+" ends", func() bool {
				var j blackbox.Job
				if err := i.fetch(t.Context(), &j, http.MethodGet, "/v1/fetcher/"+id, nil); err != nil && !errors.Is(err, errRefused) {
					t.Fatal(err)
				}
				switch {
				case j.Status == "completed":
					completed++
				case j.Status != "failed":
					return false
				case j.Error == nil || j.Error.Code != "FET-1083":
					t.Fatalf("job %s of %s failed: %+v", id, i.id, j.Error)
				}
				return true
			})
		}
	}
	if completed == 0 {
		t.Error("no job completed: nothing was tested")
	}
}

// verify looks at everything there is once more, and at what is left open.
func (w *isolationWorld) verify(t *testing.T, before map[string]float64) {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 7))
	for n, i := range w.tenants {
		for _, check := range []func(context.Context, *rand.Rand) error{i.list, i.get, i.download} {
			if err := check(t.Context(), random); err != nil {
				t.Error(err)
			}
		}
		if err := i.trespass(t.Context(), random, w.tenants[(n+1)%len(w.tenants)]); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "pools close down to the cap, and none is in use", func() bool {
		m := w.measure(t)
		open := m[`fetcher_tenant_pools{state="idle"}`]
		return m[`fetcher_tenant_pools{state="leased"}`] == 0 && m[`fetcher_tenant_pools{state="draining"}`] == 0 && open <= isolationPools
	})
	http.DefaultClient.CloseIdleConnections() // each keeps a goroutine of the server
	const slack = 60                          // other suites' connections to nothing of ours, timers, the pools that stay open
	eventually(t, "goroutines end", func() bool { return w.measure(t)["go_goroutines"] <= before["go_goroutines"]+slack })
}

func (s isolationSample) connection(name, schema string) map[string]any {
	return map[string]any{
		"configName": name, "type": s.Type, "host": s.Host, "port": s.Port, "databaseName": s.DatabaseName, "userName": s.UserName,
		"password": s.Password, "ssl": map[string]string{"mode": "disable"}, "schema": schema,
		"metadata": map[string]any{"owner": schema},
	}
}

// parseMetrics reads the samples of a Prometheus text.
func parseMetrics(text string) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(line, "#") || !ok {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(value, &v); err == nil {
			all[name] = v
		}
	}
	return all
}
