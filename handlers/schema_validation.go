package handlers

import (
	"context"
	"net/http"
	"reflect"

	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/tenant"
)

// ValidateSchema is the body of validate-schema.
type ValidateSchema struct {
	MappedFields mappedFieldsRaw `json:"mappedFields" required:"true" doc:"Datasource, table, fields; [\"*\"] is every field."`
}

// SchemaValidation is the answer of validate-schema when there is no difference.
type SchemaValidation struct {
	Status  string `json:"status" enum:"success"`
	Message string `json:"message"`
}

type schemaValidationOutput struct {
	Body SchemaValidation
}

func (e *edge) mountSchemaValidation() {
	register(e, operation{
		id: "validate-schema", method: http.MethodPost, path: connectionsPath + "/validate-schema",
		resource: resourceConnections, tag: tagConnections,
		summary: "Compare mapped fields with the schemas of their databases",
		description: "A difference is FET-1060, whose `errors` tell each of them: `DATA_SOURCE_NOT_FOUND`, `DATA_SOURCE_DOWN`, " +
			"`TABLE_NOT_FOUND` or `FIELD_NOT_FOUND`, with the names as sent in `value`.",
		body: reflect.TypeFor[ValidateSchema](), success: http.StatusOK,
		codes: []problem.Code{
			problem.DataRequestInvalid, problem.MissingMember, problem.HostNotAllowed, problem.SchemaMismatch,
			problem.SchemaTooLarge, problem.SchemaNoDatasource,
		},
	}, e.validateSchema)
}

func (e *edge) validateSchema(ctx context.Context, _ *struct{}) (*schemaValidationOutput, error) {
	var body ValidateSchema
	if err := decodeBody(ctx, &body); err != nil {
		return nil, err
	}
	req, err := jobs.ParseSchema(body.MappedFields)
	if err != nil {
		return nil, err
	}
	if err = e.opts.Jobs.ValidateSchema(ctx, tenant.FromContext(ctx), req); err != nil {
		return nil, err
	}
	return &schemaValidationOutput{Body: SchemaValidation{
		Status: "success", Message: "the mapped fields fit the schema",
	}}, nil
}
