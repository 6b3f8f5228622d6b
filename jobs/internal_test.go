package jobs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/testkit"
)

// govern puts the plant under a guard that refuses loopback, with the source database as an internal datasource of the
// given name for the tenants.
func (p *plant) govern(d testkit.Database, name string, tenants ...string) {
	p.t.Helper()
	kind := string(source.PostgreSQL)
	internals := must(connections.NewInternals(connections.Definition{Tenants: tenants, Input: connections.Input{
		ConfigName: &name, Kind: &kind, Host: &d.Host, Port: &d.Port, DatabaseName: &d.Name, UserName: &d.Owner, Password: &d.Password,
	}}))
	guard := must(dial.NewGuard(dial.Policy{}))
	p.conns = must(connections.New(connections.Options{Keys: p.keys, Guard: guard, Drivers: p.drivers, Internal: internals}))
	p.runner.Dialer = guard
	p.service = must(jobs.NewService(jobs.ServiceOptions{Queue: p.queue, Connections: p.conns, Keys: p.keys}))
}

// An internal datasource is exempt from the product check and the host rules; a tenant's connection at the same address
// is not.
func TestInternalDatasource(t *testing.T) {
	t.Parallel()
	p := newPlant(t, `CREATE TABLE entry (id int, amount numeric)`, `INSERT INTO entry VALUES (1, 1.50), (2, 99.99), (3, 100)`)
	p.govern(p.source, "platform", acme)
	p.worker()
	id := p.submit(parse(t, `{"platform": {"entry": ["id", "amount"]}}`, `{"platform": {"entry": {"amount": {"gt": [1.5]}}}}`))
	job, doc := p.completed(id)
	if diff := cmp.Diff(`{"platform":{"entry":[{"id":2,"amount":"99.99"},{"id":3,"amount":"100"}]}}`, strings.ReplaceAll(doc, "\n", "")); diff != "" {
		t.Error(diff)
	}
	if *job.ResultRowCount != 2 || job.Source != product {
		t.Errorf("%d rows for %s", *job.ResultRowCount, job.Source)
	}
	err := p.trySubmit(`{"platform": {"entry": ["id"]}, "src": {"entry": ["id"]}}`, "")
	if problem.CodeOf(err) != problem.HostNotAllowed {
		t.Errorf("the tenant's own connection: %v", err)
	}
}

// A name that is internal but not readable means nothing, even where the tenant has a connection of that name.
func TestInternalDatasourceOfOthers(t *testing.T) {
	t.Parallel()
	p := newPlant(t, `CREATE TABLE entry (id int)`)
	p.govern(p.source, "src", "globex")
	err := p.trySubmit(`{"src": {"entry": ["id"]}, "nothing": {"entry": ["id"]}}`, "")
	var got *problem.Error
	if !errors.As(err, &got) || got.Code != problem.DatasourceUnknown {
		t.Fatalf("error %v", err)
	}
	want := []problem.Field{
		{Location: "body.dataRequest.mappedFields.nothing", Message: "there is no such datasource"},
		{Location: "body.dataRequest.mappedFields.src", Message: "there is no such datasource"},
	}
	if diff := cmp.Diff(want, got.Fields); diff != "" {
		t.Error(diff)
	}
}

// Everything but the existence of the name is found out by the worker.
func TestInternalDatasourceIsCheckedByTheWorker(t *testing.T) {
	t.Parallel()
	p := newPlant(t, `CREATE TABLE entry (id int)`)
	p.govern(p.source, "platform", acme)
	submitted := map[string]uuid.UUID{
		"FET-1028 entry": p.submit(parse(t, `{"platform": {"entry": ["id", "nope"]}}`, "")),
		"FET-1028 gone":  p.submit(parse(t, `{"platform": {"gone": ["*"]}}`, "")),
		"FET-0401 entry": p.submit(parse(t, `{"platform": {"entry": ["id"]}}`, `{"platform": {"entry": {"id": {"eq": ["x"]}}}}`)),
	}
	down := p.source
	down.Port = closedPort(t)
	p.govern(down, "platform", acme)
	unreachable := p.submit(parse(t, `{"platform": {"entry": ["id"]}}`, ""))
	p.govern(p.source, "platform", acme)
	p.worker()
	for want, id := range submitted {
		job := p.await(id, terminal)
		if job.Status != store.JobFailed || job.ErrorTable == nil {
			t.Fatalf("%s: job is %s", want, job.Status)
		}
		if got := fmt.Sprintf("%s %s", *job.ErrorCode, *job.ErrorTable); got != want || *job.ErrorDatasource != "platform" {
			t.Errorf("got %s of %s, want %s: %s", got, *job.ErrorDatasource, want, *job.ErrorMessage)
		}
	}
	if job, doc := p.completed(unreachable); *job.ResultRowCount != 0 {
		t.Errorf("got %s", doc)
	}
}

// What the operator takes back between request and run is gone for the job too.
func TestInternalDatasourceWithdrawn(t *testing.T) {
	t.Parallel()
	p := newPlant(t, `CREATE TABLE entry (id int)`)
	p.govern(p.source, "platform", acme)
	id := p.submit(parse(t, `{"platform": {"entry": ["id"]}}`, ""))
	p.govern(p.source, "platform", "globex")
	p.worker()
	job := p.await(id, terminal)
	if job.Status != store.JobFailed || *job.ErrorCode != string(problem.DatasourceUnknown) || *job.ErrorDatasource != "platform" {
		t.Errorf("job %s: %v", job.Status, job.ErrorCode)
	}
}

// The comparison that validate-schema asks for reaches internal datasources too.
func TestInternalDatasourceValidateSchema(t *testing.T) {
	t.Parallel()
	p := newPlant(t, `CREATE TABLE entry (id int)`)
	p.govern(p.source, "platform", acme)
	l := p.lease()
	defer l.Release()
	for mapped, want := range map[string]problem.Code{
		`{"platform": {"entry": ["id"]}}`: "", `{"platform": {"entry": ["x"]}}`: problem.SchemaMismatch,
	} {
		parsed := must(jobs.ParseSchema([]byte(mapped)))
		err := p.service.ValidateSchema(t.Context(), l, parsed)
		if (err == nil) != (want == "") || err != nil && problem.CodeOf(err) != want {
			t.Errorf("%s: %v", mapped, err)
		}
	}
}
