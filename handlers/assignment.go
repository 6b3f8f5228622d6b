package handlers

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

func (e *edge) mountAssignment() {
	params := e.pages.pageParams()
	known := knownParams(params)
	register(e, operation{
		id: "list-unassigned-connections", method: http.MethodGet, path: connectionsPath + "/unassigned",
		resource: resourceConnections, tag: tagConnections,
		summary: "List the connections that belong to no product", params: params, success: http.StatusOK,
		codes: []problem.Code{
			problem.QueryInvalid, problem.LimitTooLarge, problem.SortOrderInvalid, problem.DateInvalid, problem.DateRangeInvalid,
		},
	}, func(ctx context.Context, _ *struct{}) (*connectionPageOutput, error) {
		return e.listUnassigned(ctx, known)
	})
	register(e, operation{
		id: "assign-connection-to-product", method: http.MethodPost, path: connectionsPath + "/{id}/assign",
		resource: resourceConnections, tag: tagConnections,
		summary:     "Give a connection that belongs to no product to one",
		description: "There is no way back.",
		params:      []*huma.Param{productParam(true)}, success: http.StatusOK,
		codes: []problem.Code{problem.HeaderInvalid, problem.AlreadyAssigned},
	}, e.assignConnection)
}

func (e *edge) listUnassigned(ctx context.Context, known map[string]bool) (*connectionPageOutput, error) {
	query, err := queryOf(ctx)
	if err != nil {
		return nil, err
	}
	if err = query.guard(known, false); err != nil {
		return nil, err
	}
	page, err := e.pages.parse(query)
	if err != nil {
		return nil, err
	}
	rows, total, err := store.NewConnections(tenant.FromContext(ctx).DB(ctx)).List(ctx, store.ConnectionFilter{
		Window: page.window, Page: page.storePage(), Unassigned: true,
	})
	if err != nil {
		return nil, err
	}
	out := &connectionPageOutput{Body: Page[Connection]{
		Items: make([]Connection, 0, len(rows)), Page: page.number, Limit: page.limit, Total: total,
	}}
	for i := range rows {
		out.Body.Items = append(out.Body.Items, viewConnection(&rows[i]))
	}
	return out, nil
}

func (e *edge) assignConnection(ctx context.Context, in *idInput) (*connectionOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	product, err := requiredProduct(ctx)
	if err != nil {
		return nil, err
	}
	assigned, err := store.NewConnections(tenant.FromContext(ctx).DB(ctx)).Assign(ctx, id, product)
	if err != nil {
		return nil, err
	}
	return &connectionOutput{ETag: etag(assigned.Revision), Body: viewConnection(assigned)}, nil
}
