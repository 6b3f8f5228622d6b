package handlers

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// UpdateConnection is the body of update-connection, a merge patch (RFC 7396).
type UpdateConnection struct {
	ConfigName   member[string]    `json:"configName" required:"false" nullable:"false" minLength:"3" maxLength:"100" pattern:"^\\s*[A-Za-z0-9_-]+\\s*$"`
	Type         member[string]    `json:"type" required:"false" nullable:"false"`
	Host         member[string]    `json:"host" required:"false" nullable:"false" minLength:"1" maxLength:"255" doc:"Host name or IP literal."`
	Port         member[int]       `json:"port" required:"false" nullable:"false" minimum:"1" maximum:"65535"`
	DatabaseName member[string]    `json:"databaseName" required:"false" nullable:"false" minLength:"1" maxLength:"255"`
	UserName     member[string]    `json:"userName" required:"false" nullable:"false" minLength:"1" maxLength:"255"`
	Password     member[string]    `json:"password" required:"false" nullable:"false" minLength:"1" maxLength:"1024" writeOnly:"true"`
	Schema       member[string]    `json:"schema" required:"false" maxLength:"255" doc:"null: no schema."`
	SSL          member[UpdateSSL] `json:"ssl" required:"false" doc:"Merged member by member; null: none."`
	Metadata     RawJSON           `json:"metadata" required:"false" nullable:"true" doc:"Merged member by member; null: none."`
}

// UpdateSSL is a change of how a connection is protected.
type UpdateSSL struct {
	Mode member[string] `json:"mode" required:"false"`
	CA   member[string] `json:"ca" required:"false" writeOnly:"true" doc:"PEM."`
	Cert member[string] `json:"cert" required:"false" writeOnly:"true" doc:"PEM; comes with key."`
	Key  member[string] `json:"key" required:"false" writeOnly:"true" doc:"PEM; comes with cert."`
}

func (b *UpdateConnection) patch() connections.Patch {
	p := connections.Patch{
		ConfigName: connections.Member[string](b.ConfigName), Kind: connections.Member[string](b.Type),
		Host: connections.Member[string](b.Host), Port: connections.Member[int](b.Port),
		DatabaseName: connections.Member[string](b.DatabaseName), Schema: connections.Member[string](b.Schema),
		UserName: connections.Member[string](b.UserName), Password: connections.Member[string](b.Password),
		SSL: connections.Member[connections.SSLPatch]{Given: b.SSL.Given}, Metadata: b.Metadata,
	}
	if ssl := b.SSL.Value; ssl != nil {
		p.SSL.Value = &connections.SSLPatch{
			Mode: connections.Member[string](ssl.Mode), CA: connections.Member[string](ssl.CA),
			Cert: connections.Member[string](ssl.Cert), Key: connections.Member[string](ssl.Key),
		}
	}
	return p
}

func (e *edge) mountConnectionChanges() {
	register(e, operation{
		id: "update-connection", method: http.MethodPatch, path: connectionsPath + "/{id}",
		resource: resourceConnections, tag: tagConnections,
		summary: "Change a connection",
		description: "A merge patch (RFC 7396): what is absent stays, null removes. The outcome must meet the rules of a new " +
			"connection as a whole. Refused while a job that has not ended uses the connection.",
		params: []*huma.Param{ifMatchParam()}, body: reflect.TypeFor[UpdateConnection](), success: http.StatusOK,
		codes: []problem.Code{
			problem.MissingMember, problem.MetadataTooDeep, problem.MetadataValueTooLong, problem.MetadataKeyTooLong,
			problem.SSLModeInvalid, problem.HostNotAllowed, problem.NameTaken, problem.ConnectionInUse, problem.PreconditionFailed,
		},
	}, e.updateConnection)
	register(e, operation{
		id: "delete-connection", method: http.MethodDelete, path: connectionsPath + "/{id}",
		resource: resourceConnections, tag: tagConnections,
		summary:     "Delete a connection",
		description: "Its secrets are wiped and its name is free again. Refused while a job that has not ended uses it.",
		params:      []*huma.Param{ifMatchParam()}, success: http.StatusNoContent,
		codes: []problem.Code{problem.ConnectionInUse, problem.PreconditionFailed},
	}, e.deleteConnection)
}

func (e *edge) updateConnection(ctx context.Context, in *idInput) (*connectionOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	var body UpdateConnection
	if err = decodeBody(ctx, &body); err != nil {
		return nil, err
	}
	lease := tenant.FromContext(ctx)
	changed, err := e.opts.Connections.Update(
		ctx, store.NewConnections(lease.DB(ctx)), lease.TenantID(), id, ifMatch(ctx), body.patch())
	if err != nil {
		return nil, err
	}
	return &connectionOutput{ETag: etag(changed.Revision), Body: viewConnection(changed)}, nil
}

func (e *edge) deleteConnection(ctx context.Context, in *idInput) (*struct{}, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	rows := store.NewConnections(tenant.FromContext(ctx).DB(ctx))
	if err = e.opts.Connections.Delete(ctx, rows, id, ifMatch(ctx)); err != nil {
		return nil, err
	}
	return &struct{}{}, nil
}
