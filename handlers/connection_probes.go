package handlers

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// TestResult is the answer of test-connection.
type TestResult struct {
	Status    string `json:"status" enum:"success"`
	Message   string `json:"message"`
	LatencyMS int64  `json:"latencyMs" minimum:"0" doc:"For connecting, logging in and one query."`
}

type testOutput struct {
	Body TestResult
}

// Schema is what an external database holds.
type Schema struct {
	ID           uuid.UUID     `json:"id" format:"uuid"`
	ConfigName   string        `json:"configName"`
	DatabaseName string        `json:"databaseName"`
	Type         string        `json:"type"`
	Tables       []SchemaTable `json:"tables" nullable:"false" doc:"Tables and views, by name."`
}

// SchemaTable is one table or view.
type SchemaTable struct {
	Name   string        `json:"name" doc:"Bare in the default schema, else schema.table."`
	Fields []SchemaField `json:"fields" nullable:"false" doc:"By name."`
}

// SchemaField is a field's name, or everything known of it when details were asked for.
type SchemaField struct {
	Name    string
	Details *FieldDetails
}

// FieldDetails is a field with everything known of it.
type FieldDetails struct {
	Name       string `json:"name"`
	Type       string `json:"type" doc:"The database's own name of the type."`
	Nullable   bool   `json:"nullable"`
	PrimaryKey bool   `json:"primaryKey"`
	Position   int    `json:"position" minimum:"1"`
}

// MarshalJSON writes the name alone, or the object.
func (f SchemaField) MarshalJSON() ([]byte, error) {
	if f.Details == nil {
		return json.Marshal(f.Name)
	}
	return json.Marshal(f.Details)
}

// Schema documents both forms.
func (SchemaField) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeString},
		r.Schema(reflect.TypeFor[FieldDetails](), true, "FieldDetails"),
	}}
}

type schemaOutput struct {
	Body Schema
}

func (e *edge) mountConnectionProbes() {
	register(e, operation{
		id: "test-connection", method: http.MethodPost, path: connectionsPath + "/{id}/test",
		resource: resourceConnections, tag: tagConnections,
		summary: "Connect, log in and run one trivial query", success: http.StatusOK,
		codes: []problem.Code{problem.HostNotAllowed, problem.SourceUnreachable, problem.RateLimited},
	}, e.testConnection)
	register(e, operation{
		id: "get-connection-schema", method: http.MethodGet, path: connectionsPath + "/{id}/schema",
		resource: resourceConnections, tag: tagConnections,
		summary: "List the tables and fields of a connection's database",
		params: []*huma.Param{
			queryParam("details", "true: fields with type, nullability, key and position.", &huma.Schema{Type: huma.TypeBoolean}),
		},
		success: http.StatusOK,
		codes:   []problem.Code{problem.HostNotAllowed, problem.SourceUnreachable, problem.QueryInvalid},
	}, e.getSchema)
}

func (e *edge) testConnection(ctx context.Context, in *idInput) (*testOutput, error) {
	c, err := e.findConnection(ctx, in)
	if err != nil {
		return nil, err
	}
	lease := tenant.FromContext(ctx)
	if err = e.opts.Connections.TakeTest(ctx, store.NewConnections(lease.DB(ctx)), c.ID); err != nil {
		return nil, err
	}
	latency, err := e.opts.Connections.Test(ctx, lease.TenantID(), c)
	if err != nil {
		return nil, err
	}
	return &testOutput{Body: TestResult{
		Status: "success", Message: "the connection works", LatencyMS: latency.Milliseconds(),
	}}, nil
}

func (e *edge) getSchema(ctx context.Context, in *idInput) (*schemaOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	details, err := wantsDetails(ctx)
	if err != nil {
		return nil, err
	}
	c, err := e.findConnectionByID(ctx, id)
	if err != nil {
		return nil, err
	}
	catalog, err := e.opts.Connections.Schema(ctx, tenant.FromContext(ctx).TenantID(), c)
	if err != nil {
		return nil, err
	}
	return &schemaOutput{Body: Schema{
		ID: c.ID, ConfigName: c.ConfigName, DatabaseName: c.DatabaseName, Type: c.Kind, Tables: viewTables(catalog, details),
	}}, nil
}

func wantsDetails(ctx context.Context) (bool, error) {
	query, err := queryOf(ctx)
	if err != nil {
		return false, err
	}
	switch strings.ToLower(query["details"]) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, queryFault(problem.QueryInvalid, "details", "must be true or false")
	}
}

// viewTables sorts tables and fields by name, in byte order.
func viewTables(catalog *source.Catalog, details bool) []SchemaTable {
	tables := make([]SchemaTable, 0, len(catalog.Tables))
	for _, t := range catalog.Tables {
		fields := make([]SchemaField, 0, len(t.Columns))
		for _, c := range t.Columns {
			field := SchemaField{Name: c.Name}
			if details {
				field.Details = &FieldDetails{
					Name: c.Name, Type: c.Type, Nullable: c.Nullable, PrimaryKey: c.PrimaryKey, Position: c.Position,
				}
			}
			fields = append(fields, field)
		}
		slices.SortFunc(fields, func(a, b SchemaField) int { return cmp.Compare(a.Name, b.Name) })
		tables = append(tables, SchemaTable{Name: t.Name, Fields: fields})
	}
	slices.SortFunc(tables, func(a, b SchemaTable) int { return cmp.Compare(a.Name, b.Name) })
	return tables
}
