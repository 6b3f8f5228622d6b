package jobs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

const globex = "globex"

// settle registers another tenant with the same source, and returns its database.
func (p *plant) settle(id string, maxRunning int) *pgxpool.Pool {
	p.t.Helper()
	dsn := testkit.Postgres(p.t).NewDatabase(p.t)
	row := control.Tenant{ID: id, DSNSealed: must(tenant.SealDSN(p.keys, id, dsn)), MaxRunningJobs: maxRunning}
	if err := p.control.CreateTenant(p.t.Context(), &row); err != nil {
		p.t.Fatal(err)
	}
	lease := p.leaseOf(id)
	defer lease.Release()
	name, kind, of := "src", string(source.PostgreSQL), product
	_, err := p.conns.Create(p.t.Context(), store.NewConnections(lease.DB(p.t.Context())), id, of, connections.Input{
		ConfigName: &name, Kind: &kind, Host: &p.source.Host, Port: &p.source.Port, DatabaseName: &p.source.Name,
		UserName: &p.source.Owner, Password: &p.source.Password,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return p.open(dsn)
}

// pile stores and queues n jobs of the tenant that read the table.
func (p *plant) pile(id string, n int, table string) []uuid.UUID {
	p.t.Helper()
	ctx := p.t.Context()
	lease := p.leaseOf(id)
	defer lease.Release()
	var ids []uuid.UUID
	err := lease.DB(ctx).Raw(`INSERT INTO jobs (id, request_hash, metadata, mapped_fields, source, datasources)
		SELECT gen_random_uuid(), 'pile-' || g, '{"source": "ledger"}', ?::json, 'ledger', '{src}' FROM generate_series(1, ?) g RETURNING id`,
		fmt.Sprintf(`{"src": {%q: ["*"]}}`, table), n).Scan(&ids).Error
	if err != nil {
		p.t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := i; j < len(ids); j += 4 {
				if err := p.queue.Enqueue(ctx, id, ids[j]); err != nil {
					p.t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return ids
}

// A tenant with a long queue delays another one's single job by no more than two running jobs.
func TestFairness(t *testing.T) {
	t.Parallel()
	n := 2000
	if testing.Short() {
		n = 200
	}
	fair(t, n)
}

// BenchmarkFairness is TestFairness with the queue of the contract.
func BenchmarkFairness(b *testing.B) {
	for b.Loop() {
		fair(b, 10_000)
	}
}

func fair(t testing.TB, n int) {
	p := newPlant(t, smallTable)
	other := p.settle(globex, 0)
	own := p.open(p.dsnOf(acme))
	p.pile(acme, n, "small")
	const slots = 2
	p.worker(func(o *jobs.WorkerOptions) { o.Concurrency = slots })
	begun := func() (n int) {
		_ = own.QueryRow(context.Background(), `SELECT count(*) FROM jobs WHERE started_at IS NOT NULL`).Scan(&n)
		return n
	}
	p.eventually(func() bool { return begun() >= 20 }, func() string { return fmt.Sprintf("%d jobs begun", begun()) })
	asked := time.Now()
	p.pile(globex, 1, "small")
	queued := time.Now() // before that it could not be taken
	var started time.Time
	p.eventually(func() bool {
		return other.QueryRow(context.Background(), `SELECT started_at FROM jobs WHERE started_at IS NOT NULL`).Scan(&started) == nil
	}, func() string { return "the single job waits" })
	var left, passed int
	var waited float64
	err := own.QueryRow(context.Background(), `
		SELECT count(*) FILTER (WHERE started_at IS NULL), count(*) FILTER (WHERE started_at BETWEEN $1 AND $2),
		    extract(epoch FROM max(started_at - created_at) FILTER (WHERE started_at <= $2))::float8
		FROM jobs`, queued, started).Scan(&left, &passed, &waited)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("of %d jobs of one tenant %d still waited, those that ran up to %.3f s; the other tenant's waited %s, while %d of the former began",
		n, left, waited, started.Sub(asked).Round(time.Millisecond), passed)
	if left == 0 {
		t.Error("there was no queue any more")
	}
	if passed > 2*slots {
		t.Errorf("%d jobs went first, with %d at once", passed, slots)
	}
}

// dsnOf is the address of a tenant's database.
func (p *plant) dsnOf(id string) string {
	p.t.Helper()
	return must(tenant.Admin{Control: p.control, Keys: p.keys}.DSN(must(p.control.GetTenant(p.t.Context(), id))))
}

// running counts the jobs of the tenant under a lease.
func (p *plant) running(id string) (n int) {
	p.t.Helper()
	if err := p.pool.QueryRow(context.Background(), `SELECT count(*) FROM job_leases WHERE tenant_id = $1`, id).Scan(&n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

// A tenant runs no more jobs at once than it may, over all workers, and the rest of the workers' places are for others.
func TestMaxRunningJobs(t *testing.T) {
	t.Parallel()
	p := newPlant(t, append([]string{smallTable}, gated...)...)
	p.settle(globex, 1) // its own limit wins
	open := p.shut()
	capped := func(o *jobs.WorkerOptions) { o.Concurrency, o.MaxRunning = 3, 2 }
	p.worker(capped)
	p.worker(capped)
	const n = 12
	ids := p.pile(acme, n, "slow")
	p.reading(2)
	p.pile(globex, 3, "slow")
	p.reading(3) // one more
	p.eventually(func() bool { c := p.entries(); return c["available"] == 0 && c["running"] == 3 },
		func() string { return fmt.Sprintf("entries %v", p.entries()) })
	if a, b := p.running(acme), p.running(globex); a != 2 || b != 1 {
		t.Errorf("%d and %d jobs run", a, b)
	}
	open()
	most := 0
	for _, id := range ids {
		p.await(id, func(j *store.Job) bool {
			most = max(most, p.running(acme))
			return j.Status == store.JobCompleted
		})
	}
	if most > 2 {
		t.Errorf("%d ran at once", most)
	}
}

// The sweeper gives a tenant its turn back, and lets held entries go, when nobody else did.
func TestSweeperKeepsTurns(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	p.settle(globex, 0)
	p.pile(acme, 3, "small")
	p.pile(globex, 2, "small")
	if _, err := p.pool.Exec(t.Context(), `UPDATE river_job SET priority = 2`); err != nil {
		t.Fatal(err)
	}
	s := must(jobs.NewSweeper(jobs.SweeperOptions{Control: p.control, Queue: p.queue, MaxRunning: 2}))
	sweep := func() map[string]int {
		t.Helper()
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows := must(p.pool.Query(t.Context(), `SELECT concat_ws(' ', args ->> 'tenantId', state, priority), count(*) FROM river_job GROUP BY 1`))
		got := map[string]int{}
		for rows.Next() {
			var what string
			var n int
			if err := rows.Scan(&what, &n); err != nil {
				t.Fatal(err)
			}
			got[what] = n
		}
		return got
	}
	want := map[string]int{"acme available 1": 1, "acme available 2": 2, "globex available 1": 1, "globex available 2": 1}
	if diff := cmp.Diff(want, sweep()); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if err := p.control.HoldEntries(t.Context(), acme); err != nil {
		t.Fatal(err)
	}
	if got := sweep(); got["acme available 1"] != 2 || got["acme scheduled 1"]+got["acme scheduled 2"] != 1 {
		t.Errorf("entries %v", got)
	}
}

// Jobs of a tenant that is suspended while they wait fail, with their events; one that runs may end.
func TestSuspendedWhileQueued(t *testing.T) {
	t.Parallel()
	p := newPlant(t, gated...)
	open := p.shut()
	p.worker(func(o *jobs.WorkerOptions) { o.Concurrency = 1 })
	runs, waits := p.submit(request(t, "", "slow")), p.submit(request(t, "", "slow"))
	p.reading(1)
	if _, err := p.control.SetTenantStatus(t.Context(), acme, control.TenantSuspended); err != nil {
		t.Fatal(err)
	}
	suspended := func(want bool) {
		t.Helper()
		p.eventually(func() bool {
			info, err := p.tenants.Info(t.Context(), acme)
			return err == nil && info.Suspended == want
		}, func() string { return "the router has not heard of it" })
	}
	suspended(true)
	open()
	p.eventually(func() bool { c := p.entries(); return c["completed"] == 2 }, func() string { return fmt.Sprintf("entries %v", p.entries()) })
	if _, err := p.control.SetTenantStatus(t.Context(), acme, control.TenantActive); err != nil {
		t.Fatal(err)
	}
	suspended(false)
	states := map[string]string{}
	for name, id := range map[string]uuid.UUID{"ran": runs, "waited": waits} {
		job := p.job(id)
		states[name] = string(job.Status)
		if job.ErrorCode != nil {
			states[name] += " " + *job.ErrorCode + " " + *job.ErrorMessage
		}
		if ev := p.events(id); len(ev) != 1 || ev[0].ID != "fetcher.job."+string(job.Status)+"."+id.String() {
			t.Errorf("%s: events %+v", name, ev)
		}
	}
	// Which of the two ran first is the queue's to say.
	if states["ran"] != "completed" {
		states["ran"], states["waited"] = states["waited"], states["ran"]
	}
	want := map[string]string{"ran": "completed", "waited": "failed FET-1083 the tenant is suspended"}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	var marked bool
	if err := p.pool.QueryRow(t.Context(), `SELECT count(*) = 1 FROM event_marks WHERE tenant_id = $1`, acme).Scan(&marked); err != nil || !marked {
		t.Errorf("marked %t, %v", marked, err)
	}
}

// A tenant that is marked deleted finds its jobs waiting when it comes back.
func TestDeletedWhileQueued(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	waits := p.submit(request(t, "", "small"))
	mark := func(status control.TenantStatus, want problem.Code) {
		t.Helper()
		if _, err := p.control.SetTenantStatus(t.Context(), acme, status); err != nil {
			t.Fatal(err)
		}
		p.eventually(func() bool {
			_, err := p.tenants.Info(t.Context(), acme)
			return (err == nil && want == "") || (err != nil && problem.CodeOf(err) == want)
		}, func() string { return "the router has not heard of it" })
	}
	mark(control.TenantDeleted, problem.TenantUnknown)
	p.worker(func(o *jobs.WorkerOptions) { o.RowPatience = time.Nanosecond })
	p.eventually(func() bool { return p.entries()["scheduled"] == 1 }, func() string { return fmt.Sprint(p.entries()) })
	mark(control.TenantActive, "")
	if _, err := p.pool.Exec(t.Context(), `UPDATE river_job SET state = 'available', scheduled_at = now()`); err != nil {
		t.Fatal(err)
	}
	p.completed(waits)
}
