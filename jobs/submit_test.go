package jobs_test

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/testkit"
)

func (p *plant) trySubmit(mapped, filters string) error {
	l := p.lease()
	defer l.Release()
	_, _, err := p.service.Submit(p.t.Context(), l, parse(p.t, mapped, filters))
	return err
}

func TestSubmitRefuses(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable, `CREATE SCHEMA s`, `CREATE TABLE s.deep (id int, at timestamptz)`)
	p.connect("foreign", "payments", p.source)
	p.connect("down", product, testkit.Database{Host: "127.0.0.1", Port: closedPort(t), Name: "x", Owner: "x", Password: "x"})
	p.connect("locked", product, testkit.Database{Host: p.source.Host, Port: p.source.Port, Name: p.source.Name, Owner: p.source.Owner, Password: "wrong"})
	p.connect("loose", product, p.source)
	if err := p.rows(func(store.Jobs) error {
		l := p.lease()
		defer l.Release()
		return l.DB(t.Context()).Exec(`UPDATE connections SET product_name = NULL WHERE config_name = 'loose'`).Error
	}); err != nil {
		t.Fatal(err)
	}
	mapped, filters := "body.dataRequest.mappedFields", "body.dataRequest.filters"
	for _, tt := range []struct {
		name, mapped, filters string
		code                  problem.Code
		detail                string
		fields                []problem.Field
	}{
		{
			name: "unknown before product", mapped: `{"nope": {"small": ["id"]}, "foreign": {"small": ["id"]}}`, code: problem.DatasourceUnknown,
			fields: []problem.Field{{Location: mapped + ".nope", Message: "there is no such datasource"}},
		},
		{
			name: "no product", mapped: `{"loose": {"small": ["id"]}, "foreign": {"small": ["id"]}}`, code: problem.ConnectionUnassigned,
			fields: []problem.Field{{Location: mapped + ".loose", Message: "belongs to no product"}},
		},
		{
			name: "product before reach", mapped: `{"foreign": {"small": ["id"]}, "down": {"small": ["id"]}}`, code: problem.ProductMismatch,
			fields: []problem.Field{{Location: mapped + ".foreign", Message: "does not belong to the product in metadata.source"}},
		},
		{
			name: "down", mapped: `{"down": {"x": ["id"]}, "src": {"nope": ["id"]}}`, code: problem.SourceUnreachable, detail: "refused",
			fields: []problem.Field{{Location: mapped + ".down", Message: "the connection failed: refused"}},
		},
		{
			name: "login", mapped: `{"locked": {"x": ["id"]}}`, code: problem.SourceUnreachable, detail: "auth",
			fields: []problem.Field{{Location: mapped + ".locked", Message: "the connection failed: auth"}},
		},
		{
			name: "schema before filters", code: problem.SchemaMismatch,
			mapped:  `{"src": {"small": ["id", "nope"], "gone": ["id"], "deep": ["id"]}}`,
			filters: `{"src": {"small": {"id": {"eq": ["x"]}, "none": {"eq": [1]}}}}`,
			fields: []problem.Field{
				{Location: "body.filters.src.small.none", Message: "FIELD_NOT_FOUND", Value: map[string]string{"dataSourceId": "src", "table": "small", "field": "none"}},
				{Location: "body.mappedFields.src.deep", Message: "TABLE_NOT_FOUND", Value: map[string]string{"dataSourceId": "src", "table": "deep"}},
				{Location: "body.mappedFields.src.gone", Message: "TABLE_NOT_FOUND", Value: map[string]string{"dataSourceId": "src", "table": "gone"}},
				{Location: "body.mappedFields.src.small.nope", Message: "FIELD_NOT_FOUND", Value: map[string]string{"dataSourceId": "src", "table": "small", "field": "nope"}},
			},
		},
		{
			name: "filters", code: problem.DataRequestInvalid,
			mapped:  `{"src": {"small": ["id"], "public.small": ["id"], "s.deep": ["id", "ID"]}}`,
			filters: `{"src": {"S.DEEP": {"id": {"in": [1, 1.5]}, "at": {"gt": ["2020-01-01"]}}}}`,
			fields: []problem.Field{
				{Location: filters + ".src.S.DEEP.id.in[1]", Message: "does not fit an integer of the field's size"},
				{Location: mapped + ".src.s.deep.ID", Message: "the field is requested under two names"},
				{Location: mapped + ".src.small", Message: "the table is requested under two names"},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := p.trySubmit(tt.mapped, tt.filters)
			var got *problem.Error
			if !errors.As(err, &got) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tt.fields, got.Fields); got.Code != tt.code || diff != "" || !strings.Contains(got.Detail, tt.detail) {
				t.Errorf("%s %q; fields (-want +got):\n%s", got.Code, got.Detail, diff)
			}
		})
	}
	t.Cleanup(func() { // after the parallel cases
		if n := p.entries(); len(n) > 0 {
			t.Errorf("queue entries %v", n)
		}
	})
}

// A host that the guard refuses is FET-0414, wherever the other datasources stand.
func TestSubmitHostNotAllowed(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	if err := p.rows(func(store.Jobs) error {
		l := p.lease()
		defer l.Release()
		return l.DB(t.Context()).Exec(`UPDATE connections SET host = '169.254.169.254'`).Error
	}); err != nil {
		t.Fatal(err)
	}
	p.connect("down", product, testkit.Database{Host: "127.0.0.1", Port: closedPort(t), Name: "x", Owner: "x", Password: "x"})
	err := p.trySubmit(`{"down": {"x": ["id"]}, "src": {"small": ["id"]}}`, "")
	if problem.CodeOf(err) != problem.HostNotAllowed || strings.Contains(err.(*problem.Error).Detail, "169") {
		t.Errorf("error %v", err)
	}
}

// A silent source ends the request in time.
func TestSubmitTimeout(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	service := must(jobs.NewService(jobs.ServiceOptions{Queue: p.queue, Connections: p.conns, Keys: p.keys, CheckTimeout: 50 * time.Millisecond}))
	silent := must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	defer silent.Close()
	_, port, _ := net.SplitHostPort(silent.Addr().String())
	p.connect("silent", product, testkit.Database{Host: "127.0.0.1", Port: must(strconv.Atoi(port)), Name: "x", Owner: "x", Password: "x"})
	l := p.lease()
	defer l.Release()
	_, _, err := service.Submit(t.Context(), l, parse(t, `{"silent": {"small": ["id"]}}`, ""))
	if problem.CodeOf(err) != problem.SourceUnreachable || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("error %v", err)
	}
}

// Without the queue nothing is stored.
func TestSubmitWithoutQueue(t *testing.T) {
	t.Parallel()
	p := newPlant(t, smallTable)
	must(p.pool.Exec(t.Context(), `ALTER TABLE river_job RENAME TO elsewhere`))
	l := p.lease()
	defer l.Release()
	_, _, err := p.service.Submit(t.Context(), l, request(t, "", "small"))
	if problem.CodeOf(err) != problem.Unavailable {
		t.Errorf("error %v", err)
	}
	var n int64
	if err := l.DB(t.Context()).Model(&store.Job{}).Count(&n).Error; err != nil || n != 0 {
		t.Errorf("%d jobs, %v", n, err)
	}
}
