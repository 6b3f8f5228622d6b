package handlers

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

const connectionsPath = "/v1/management/connections"

// CreateConnection is the body of create-connection. Required members are pointers here, so that absent ones can be
// told from empty ones.
type CreateConnection struct {
	ConfigName   *string        `json:"configName" required:"true" nullable:"false" minLength:"3" maxLength:"100" pattern:"^[A-Za-z0-9_-]+$" doc:"Unique in the tenant."`
	Type         *string        `json:"type" required:"true" nullable:"false" enum:"POSTGRESQL,MYSQL,ORACLE,SQL_SERVER,MONGODB"`
	Host         *string        `json:"host" required:"true" nullable:"false" minLength:"1" maxLength:"255" doc:"Host name or IP literal."`
	Port         *int           `json:"port" required:"true" nullable:"false" minimum:"1" maximum:"65535"`
	DatabaseName *string        `json:"databaseName" required:"true" nullable:"false" minLength:"1" maxLength:"255"`
	UserName     *string        `json:"userName" required:"true" nullable:"false" minLength:"1" maxLength:"255"`
	Password     *string        `json:"password" required:"true" nullable:"false" minLength:"1" maxLength:"1024" writeOnly:"true"`
	Schema       *string        `json:"schema" required:"false" maxLength:"255" doc:"Schema whose tables have bare names."`
	SSL          *ConnectionSSL `json:"ssl" required:"false"`
	Metadata     RawJSON        `json:"metadata" required:"false" doc:"Free object."`
}

// ConnectionSSL is how a connection is protected.
type ConnectionSSL struct {
	Mode *string `json:"mode" required:"false" doc:"One of the type's modes; required when there is any other member."`
	CA   *string `json:"ca" required:"false" writeOnly:"true" doc:"PEM."`
	Cert *string `json:"cert" required:"false" writeOnly:"true" doc:"PEM; comes with key."`
	Key  *string `json:"key" required:"false" writeOnly:"true" doc:"PEM; comes with cert."`
}

// Connection is a connection as it is answered: without its secrets.
type Connection struct {
	ID           uuid.UUID  `json:"id" format:"uuid"`
	ProductName  *string    `json:"productName,omitzero" required:"false" nullable:"false"`
	ConfigName   string     `json:"configName"`
	Type         string     `json:"type" enum:"POSTGRESQL,MYSQL,ORACLE,SQL_SERVER,MONGODB"`
	Host         string     `json:"host"`
	Port         int        `json:"port"`
	DatabaseName string     `json:"databaseName"`
	Schema       *string    `json:"schema,omitzero" required:"false" nullable:"false"`
	UserName     string     `json:"userName"`
	SSL          *SSLMode   `json:"ssl,omitzero" required:"false"`
	Metadata     RawJSON    `json:"metadata,omitzero" required:"false"`
	CreatedAt    *time.Time `json:"createdAt,omitzero" required:"false" nullable:"false" doc:"Not there for internal datasources."`
	UpdatedAt    *time.Time `json:"updatedAt,omitzero" required:"false" nullable:"false" doc:"Not there for internal datasources."`
}

// SSLMode is all that is told of a connection's ssl.
type SSLMode struct {
	Mode string `json:"mode"`
}

type connectionOutput struct {
	ETag string `header:"ETag" doc:"Changes with every change of the connection."`
	Body Connection
}

type createConnectionOutput struct {
	ETag     string `header:"ETag" doc:"Changes with every change of the connection."`
	Location string `header:"Location" doc:"Path of the new connection."`
	Body     Connection
}

type connectionPageOutput struct {
	Body Page[Connection]
}

func (e *edge) mountConnections() {
	register(e, operation{
		id: "create-connection", method: http.MethodPost, path: connectionsPath,
		resource: resourceConnections, tag: tagConnections,
		summary: "Register an external database",
		params:  []*huma.Param{productParam(true)},
		body:    reflect.TypeFor[CreateConnection](), success: http.StatusCreated, onceFor: requiredProduct,
		codes: []problem.Code{
			problem.HeaderInvalid, problem.MissingMember, problem.MetadataTooDeep, problem.MetadataValueTooLong,
			problem.MetadataKeyTooLong, problem.SSLModeInvalid, problem.HostNotAllowed, problem.NameTaken,
		},
	}, e.createConnection)
	params := append(e.pages.pageParams(),
		queryParam("type", "Only connections of this type, in any case.", &huma.Schema{Type: huma.TypeString}))
	known := knownParams(params)
	register(e, operation{
		id: "list-connections", method: http.MethodGet, path: connectionsPath,
		resource: resourceConnections, tag: tagConnections,
		summary: "List connections",
		description: "Internal datasources come first on page 1, on top of the limit; only `type` filters them.\n\nBesides the parameters below, `metadata.KEY=VALUE` keeps connections whose metadata hold that entry: " +
			"strings by value, numbers and booleans by their JSON text. A dot in KEY steps into a nested object; several combine with AND.",
		params: append(params, productParam(false)), success: http.StatusOK,
		codes: []problem.Code{
			problem.HeaderInvalid, problem.QueryInvalid, problem.LimitTooLarge, problem.SortOrderInvalid,
			problem.DateInvalid, problem.DateRangeInvalid,
		},
	}, func(ctx context.Context, _ *struct{}) (*connectionPageOutput, error) {
		return e.listConnections(ctx, known)
	})
	register(e, operation{
		id: "get-connection", method: http.MethodGet, path: connectionsPath + "/{id}",
		resource: resourceConnections, tag: tagConnections,
		summary: "Read a connection", success: http.StatusOK,
	}, e.getConnection)
}

func (e *edge) createConnection(ctx context.Context, _ *struct{}) (*createConnectionOutput, error) {
	product, err := requiredProduct(ctx)
	if err != nil {
		return nil, err
	}
	var body CreateConnection
	if err = decodeBody(ctx, &body); err != nil {
		return nil, err
	}
	lease := tenant.FromContext(ctx)
	rows := store.NewConnections(lease.DB(ctx))
	if exchangeOf(ctx).claim != nil { // the answer is kept if and only if the connection is
		rows = rows.Then(func(kept store.Idempotency, c *store.Connection) error {
			out := createdConnection(c)
			return record(ctx, kept, http.StatusCreated, out.Location, out.ETag, out.Body)
		})
	}
	made, err := e.opts.Connections.Create(ctx, rows, lease.TenantID(), product, body.input())
	if err != nil {
		return nil, err
	}
	return createdConnection(made), nil
}

func createdConnection(c *store.Connection) *createConnectionOutput {
	return &createConnectionOutput{
		ETag: etag(c.Revision), Location: connectionsPath + "/" + c.ID.String(), Body: viewConnection(c),
	}
}

func (e *edge) listConnections(ctx context.Context, known map[string]bool) (*connectionPageOutput, error) {
	product, err := optionalProduct(ctx)
	if err != nil {
		return nil, err
	}
	query, err := queryOf(ctx)
	if err != nil {
		return nil, err
	}
	if err = query.guard(known, true); err != nil {
		return nil, err
	}
	page, err := e.pages.parse(query)
	if err != nil {
		return nil, err
	}
	filter := store.ConnectionFilter{
		Window: page.window, Page: page.storePage(), Product: product, Metadata: query.metadata(),
	}
	if kind := query["type"]; kind != "" {
		kind = strings.ToUpper(kind)
		filter.Kind = &kind
	}
	lease := tenant.FromContext(ctx)
	rows, total, err := store.NewConnections(lease.DB(ctx)).List(ctx, filter)
	if err != nil {
		return nil, err
	}
	internal := e.internalDatasources(lease.TenantID(), filter.Kind)
	total += int64(len(internal))
	if page.number == 1 {
		rows = slices.Concat(internal, rows)
	}
	out := &connectionPageOutput{Body: Page[Connection]{
		Items: make([]Connection, 0, len(rows)), Page: page.number, Limit: page.limit, Total: total,
	}}
	for i := range rows {
		out.Body.Items = append(out.Body.Items, viewConnection(&rows[i]))
	}
	return out, nil
}

func (e *edge) getConnection(ctx context.Context, in *idInput) (*connectionOutput, error) {
	c, err := e.findConnection(ctx, in)
	if err != nil {
		return nil, err
	}
	return &connectionOutput{ETag: etag(c.Revision), Body: viewConnection(c)}, nil
}

// internalDatasources are those of the kind, nil for any, that the tenant may read.
func (e *edge) internalDatasources(tenantID string, kind *string) []store.Connection {
	return slices.DeleteFunc(e.opts.Connections.Internal(tenantID), func(c store.Connection) bool {
		return kind != nil && c.Kind != *kind
	})
}

// findConnection returns what the caller's tenant can read under the path's id: a connection of its own or an internal
// datasource.
func (e *edge) findConnection(ctx context.Context, in *idInput) (*store.Connection, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	return e.findConnectionByID(ctx, id)
}

func (e *edge) findConnectionByID(ctx context.Context, id uuid.UUID) (*store.Connection, error) {
	lease := tenant.FromContext(ctx)
	return e.opts.Connections.Get(ctx, lease.Connections(ctx), lease.TenantID(), id)
}

func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }
