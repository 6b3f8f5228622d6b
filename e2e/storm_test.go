package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// storm is two managers and three workers on servers of their own, any of which may die.
type storm struct {
	t        *testing.T
	server   *testkit.Server
	tenant   string // address of the tenant's database, not through the wire
	wire     *testkit.Wire
	bucket   *testkit.Faulty
	stream   jetstream.Stream
	source   testkit.Database
	managers []string // addresses
	env      []string

	mu        sync.Mutex
	processes []*blackbox.Process // managers first
}

const (
	stormPatience = 5 * time.Minute // the bound of everything that is waited for
	stormRows     = 50
)

// TestStorm kills managers and workers at random while jobs are submitted and run: every accepted job ends, once, with
// one event, and its result is right.
func TestStorm(t *testing.T) {
	t.Parallel()
	jobs, few := 200, 60
	if testing.Short() {
		t.Skip("takes a minute")
	}
	for _, test := range []struct {
		name string
		jobs int
		more func(*storm) // trouble besides the kills
	}{
		{"postgres restarts twice", jobs, (*storm).restart},
		{"bucket fails half of its calls", few, func(s *storm) {
			s.bucket.Fail(true)
			<-time.After(12 * time.Second)
		}},
		{"tenant database is away for 30 s", few, func(s *storm) {
			<-time.After(3 * time.Second)
			s.wire.Cut()
			<-time.After(30 * time.Second)
			s.wire.Mend()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStorm(t)
			s.weather(test.jobs, test.more)
		})
	}
}

func (s *storm) restart() {
	for range 2 {
		<-time.After(5 * time.Second)
		s.server.Restart()
	}
}

func newStorm(t *testing.T) *storm {
	t.Helper()
	s := &storm{t: t, server: testkit.NewServer(t)}
	control := s.server.NewDatabase(t)
	s.tenant = s.server.NewDatabase(t)
	address, err := url.Parse(s.tenant)
	if err != nil {
		t.Fatal(err)
	}
	s.wire = testkit.NewWire(t, address.Host)
	address.Host = s.wire.Address()
	s.source = testkit.Postgres(t).CreateDatabase(t, testkit.DatabaseOptions{})
	psql(t, s.source.DSN, fmt.Sprintf(`CREATE VIEW slow AS SELECT g AS id, md5(g::text) AS digest FROM (SELECT pg_sleep(0.5)) s, generate_series(1, %d) g`, stormRows))
	bucket, err := url.Parse(testkit.S3(t))
	if err != nil {
		t.Fatal(err)
	}
	q := bucket.Query()
	s.bucket = testkit.NewFaulty(t, q.Get("endpoint"))
	q.Set("endpoint", s.bucket.URL)
	bucket.RawQuery = q.Encode()
	s.env = []string{
		"DATABASE_URL=" + control, "TENANT_DATABASE_URL=" + address.String(), "RESULTS_URL=" + bucket.String(),
		"AWS_SHARED_CREDENTIALS_FILE=" + os.Getenv("AWS_SHARED_CREDENTIALS_FILE"),
		"APP_ENC_KEY=" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{5}, 32)),
		"HEALTH_ADDRESS=127.0.0.1:0", "READYZ_DRAIN_DELAY_SEC=0", "SHUTDOWN_GRACE=20s", "LOG_LEVEL=error",
		"EVENTS_URL=nats://storm", "NATS_SERVER_URL=" + s.nats(),
	}
	for range 2 {
		s.managers = append(s.managers, freeAddress(t))
	}
	for i := range 5 {
		s.processes = append(s.processes, s.launch(i))
	}
	t.Cleanup(func() {
		for _, p := range s.processes {
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
	for _, address := range s.managers {
		s.ready(address)
	}
	return s
}

// nats starts a stream that keeps every event, repeats dropped, and returns the address of its server.
func (s *storm) nats() string {
	s.t.Helper()
	server, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: filepath.Join(tempDir(s.t), "nats"), NoSigs: true, NoLog: true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	server.Start()
	s.t.Cleanup(func() {
		server.Shutdown()
		server.WaitForShutdown()
	})
	if !server.ReadyForConnections(stormPatience) {
		s.t.Fatal("NATS did not start")
	}
	conn, err := nats.Connect(server.ClientURL())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err == nil {
		s.stream, err = js.CreateStream(s.t.Context(), jetstream.StreamConfig{Name: "STORM", Subjects: []string{"storm.>"}})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return server.ClientURL()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// launch starts the i-th process.
func (s *storm) launch(i int) *blackbox.Process {
	command, env := "worker", s.env
	if i < len(s.managers) {
		command, env = "manager", append([]string{"SERVER_ADDRESS=" + s.managers[i]}, env...)
	}
	p, err := binary.Launch(env, command)
	if err != nil {
		s.t.Error(err)
	}
	return p
}

// supervise starts again what ended by itself, as service managers do: a process that starts while the control database
// is away gives up.
func (s *storm) supervise() {
	for i, p := range s.processes {
		if p.Ended() {
			s.processes[i] = s.launch(i)
		}
	}
}

func (s *storm) ready(address string) {
	s.t.Helper()
	s.eventually("a manager is ready", func() bool {
		resp, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// eventually polls until ok. Nobody else kills meanwhile.
func (s *storm) eventually(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(stormPatience); !ok(); <-time.After(100 * time.Millisecond) {
		if time.Now().After(end) {
			for _, p := range s.processes {
				s.t.Logf("%s", p.Output)
			}
			s.t.Fatalf("not within %s: %s", stormPatience, what)
		}
		s.supervise()
	}
}

// kill kills a random process every 2 s, and starts it again, until stop is called.
func (s *storm) kill() (stop func() int) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	killed := 0
	wg.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(2 * time.Second):
			}
			s.supervise()
			i := rand.IntN(len(s.processes))
			s.processes[i].Kill()
			s.processes[i] = s.launch(i)
			killed++
		}
	})
	return func() int {
		close(quit)
		wg.Wait()
		return killed
	}
}

// weather submits n jobs in the storm and looks at what became of them after it.
func (s *storm) weather(n int, trouble func(*storm)) {
	began := time.Now()
	s.connect()
	stop := s.kill()
	var wg sync.WaitGroup
	wg.Go(func() { trouble(s) })
	ids := s.submit(n)
	wg.Wait()
	killed := stop()
	if len(ids) != n {
		s.t.Fatalf("%d jobs were accepted", len(ids))
	}
	pool, err := pgxpool.New(context.Background(), s.tenant)
	if err != nil {
		s.t.Fatal(err)
	}
	defer pool.Close()
	count := func(query string) (n int) {
		if pool.QueryRow(context.Background(), query).Scan(&n) != nil {
			return -1
		}
		return n
	}
	s.eventually("every job has ended", func() bool {
		return count(`SELECT count(*) FROM jobs WHERE completed_at IS NULL`) == 0
	})
	s.bucket.Fail(false)
	if got := count(`SELECT count(*) FROM jobs`); got != n {
		s.t.Errorf("%d jobs for %d accepted", got, n)
	}
	s.eventually("every event is published", func() bool {
		return count(`SELECT count(*) FROM outbox_events WHERE published_at IS NULL`) == 0
	})
	completed := s.judge(ids)
	s.t.Logf("%d of %d jobs completed, in at most %d attempts; %d processes killed, %d calls to the bucket failed, %s in all", completed, n,
		count(`SELECT max(attempt) FROM jobs`), killed, s.bucket.Failed.Load(), time.Since(began).Round(time.Second))
}

const stormName = "slow_source"

func (s *storm) connect() {
	s.t.Helper()
	blackbox.Client{Base: "http://" + s.managers[0]}.Expect(s.t, http.StatusCreated, http.MethodPost, "/v1/management/connections", map[string]any{
		"configName": stormName, "type": "POSTGRESQL", "host": s.source.Host, "port": s.source.Port, "databaseName": s.source.Name,
		"userName": s.source.Owner, "password": s.source.Password, "ssl": map[string]string{"mode": "disable"},
	}, "X-Product-Name", "ledger")
}

// submit has n jobs accepted, each by whichever manager answers, and returns their ids.
func (s *storm) submit(n int) map[string]bool {
	ids := map[string]bool{}
	next := 0
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				s.mu.Lock()
				i := next
				next++
				s.mu.Unlock()
				if i >= n {
					return
				}
				id := s.submitOne(i)
				s.mu.Lock()
				ids[id] = true
				s.mu.Unlock()
				<-time.After(100 * time.Millisecond) // so that the storm lasts
			}
		})
	}
	wg.Wait()
	return ids
}

func (s *storm) submitOne(i int) string {
	body := fmt.Sprintf(`{"dataRequest": {"mappedFields": {%q: {"slow": ["*"]}}}, "metadata": {"source": "ledger", "n": %d}}`, stormName, i)
	for try := range 2000 {
		id, err := s.post(s.managers[try%len(s.managers)], fmt.Sprint("job-", i), body)
		if err == nil {
			return id
		}
		<-time.After(100 * time.Millisecond)
	}
	s.t.Errorf("job %d was never accepted", i)
	return ""
}

func (s *storm) post(manager, key, body string) (string, error) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+manager+"/v1/fetcher", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		return "", fmt.Errorf("status %d: %s, %w", resp.StatusCode, answer, err)
	}
	var made struct {
		JobID string `json:"jobId"`
	}
	return made.JobID, json.Unmarshal(answer, &made)
}

// judge looks at every job, its result and its events, and returns how many completed.
func (s *storm) judge(ids map[string]bool) (completed int) {
	want, err := json.Marshal(map[string]any{stormName: map[string]any{"slow": s.rows()}})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, address := range s.managers {
		s.ready(address)
	}
	c := blackbox.Client{Base: "http://" + s.managers[0]}
	told := s.told()
	for id := range ids {
		j := c.Job(s.t, id)
		var events struct{ Items []struct{ ID string } }
		c.Expect(s.t, http.StatusOK, http.MethodGet, "/v1/fetcher/"+id+"/events", nil).Decode(s.t, &events)
		name := "fetcher.job." + j.Status + "." + id
		if len(events.Items) != 1 || events.Items[0].ID != name || len(told[id]) != 1 || !told[id][name] {
			s.t.Errorf("job %s is %s, its events are %+v, told were %v", id, j.Status, events.Items, told[id])
		}
		if j.Status != "completed" {
			if j.Error == nil || j.Error.Code != "FET-1030" { // all attempts were hit
				s.t.Errorf("job %s failed: %+v", id, j.Error)
			}
			continue
		}
		completed++
		if got := c.Expect(s.t, http.StatusOK, http.MethodGet, "/v1/fetcher/"+id+"/result", nil).Body; !bytes.Equal(got, want) {
			s.t.Errorf("the result of job %s is %s", id, got)
		}
	}
	if len(told) != len(ids) {
		s.t.Errorf("%d jobs were told of", len(told))
	}
	return completed
}

type stormRow struct {
	ID     int    `json:"id"`
	Digest string `json:"digest"`
}

func (s *storm) rows() []stormRow {
	var rows []stormRow
	for _, line := range psql(s.t, s.source.DSN, `SELECT id, digest FROM slow`)[1:] {
		var r stormRow
		if _, err := fmt.Sscan(line[0], &r.ID); err != nil {
			s.t.Fatal(err)
		}
		r.Digest = line[1]
		rows = append(rows, r)
	}
	return rows
}

// told is the ids of the events in the stream, by job.
func (s *storm) told() map[string]map[string]bool {
	info, err := s.stream.Info(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	consumer, err := s.stream.CreateConsumer(s.t.Context(), jetstream.ConsumerConfig{})
	if err != nil {
		s.t.Fatal(err)
	}
	told := map[string]map[string]bool{}
	for range info.State.Msgs {
		msg, err := consumer.Next(jetstream.FetchMaxWait(time.Minute))
		if err != nil {
			s.t.Fatal(err)
		}
		job := msg.Headers().Get("ce-subject")
		if told[job] == nil {
			told[job] = map[string]bool{}
		}
		told[job][msg.Headers().Get("ce-id")] = true
	}
	return told
}
