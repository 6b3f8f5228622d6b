package jobs

import (
	"context"
	"fmt"
	"sync"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// atSchema is where the mapped fields of a schema request are.
const atSchema = "body.mappedFields"

// SchemaRequest is a schema request that has passed every check that needs no database.
type SchemaRequest struct {
	Datasources []extract.Datasource // in name order, without what it takes to reach them
}

// ParseSchema checks the text of a schema request's mappedFields, nil or null when absent, in this order: missing
// (FET-0402), types (FET-0001), limits (FET-1061), blank and duplicate names and empty parts (FET-0401).
func ParseSchema(mapped []byte) (SchemaRequest, error) {
	if mapped = present(mapped); len(mapped) == 0 {
		return SchemaRequest{}, problem.New(problem.MissingMember, "required members are missing").
			With(problem.Field{Location: atSchema, Message: "is required"})
	}
	byName := map[string]*extract.Datasource{}
	if err := decodeMapped(atSchema, mapped, byName); err != nil {
		return SchemaRequest{}, err
	}
	datasources, limits := inOrder(byName), Limits{}.withDefaults()
	if err := checkSize(datasources, limits); err != nil {
		return SchemaRequest{}, err
	}
	if err := checkShapeAt(atSchema, datasources, limits); err != nil {
		return SchemaRequest{}, err
	}
	return SchemaRequest{Datasources: datasources}, nil
}

// checkSize refuses requests over a limit with FET-1061.
func checkSize(datasources []extract.Datasource, limits Limits) error {
	var fields []problem.Field
	over := func(n, limit int, what, at string) {
		if n > limit && len(fields) < maxFaults {
			fields = append(fields, problem.Field{Location: at, Message: fmt.Sprintf("has more than %d %s", limit, what)})
		}
	}
	over(len(datasources), limits.Datasources, "datasources", atSchema)
	for _, d := range datasources {
		over(len(d.Tables), limits.Tables, "tables", join(atSchema, d.Name))
		for _, t := range d.Tables {
			over(len(t.Fields), limits.Fields, "fields", join(atSchema, d.Name, t.Name))
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return problem.New(problem.SchemaTooLarge, "the schema request is too large").With(fields...)
}

// ValidateSchema compares a request with the databases, all at once, each over one connection within
// 10 s. FET-1062: none of the datasources exists. FET-0414: a host is not allowed, whatever else there is to say.
// FET-1060: the differences, each with the names as sent. FET-0401: one table or field under two names. The lease stays
// the caller's.
func (s *Service) ValidateSchema(ctx context.Context, lease *tenant.Lease, req SchemaRequest) error {
	found, err := s.connections(ctx, lease, req.Datasources)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return problem.New(problem.SchemaNoDatasource, "none of the datasources exists")
	}
	verdicts := make([]verdict, len(req.Datasources))
	var wg sync.WaitGroup
	for i, d := range req.Datasources {
		if c := found[d.Name]; c != nil {
			wg.Go(func() { verdicts[i] = s.compare(ctx, lease.TenantID(), d, c) })
		} else {
			verdicts[i] = verdict{missing: []problem.Field{differing(d.Name, "DATA_SOURCE_NOT_FOUND")}}
		}
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err // what the sources said then is not about them
	}
	return weigh(verdicts, "the mapped fields do not fit the schema")
}

// compare is checkDatasource for a request that reports a database which can't be used as a difference.
func (s *Service) compare(ctx context.Context, tenantID string, d extract.Datasource, c *store.Connection) verdict {
	v := s.checkDatasource(ctx, tenantID, atSchema, d, c)
	if v.err != nil && problem.CodeOf(v.err) == problem.SourceUnreachable {
		return verdict{missing: []problem.Field{differing(d.Name, "DATA_SOURCE_DOWN")}}
	}
	return v
}

// differing describes a datasource as a whole.
func differing(datasource, message string) problem.Field {
	return problem.Field{
		Location: join(atSchema, datasource), Message: message, Value: map[string]string{"dataSourceId": datasource},
	}
}
