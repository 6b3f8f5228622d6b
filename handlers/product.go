package handlers

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fetcherhq/fetcher/connections"
)

const headerProduct = "X-Product-Name"

// productParam documents the header that scopes an operation to a product.
func productParam(required bool) *huma.Param {
	return &huma.Param{
		Name: headerProduct, In: inHeader, Required: required, Description: "The product; trimmed and lower-cased.",
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: `^\s*[A-Za-z0-9_-]{1,100}\s*$`},
	}
}

// requiredProduct returns the product of the request; FET-0403 when there is none or the header is not valid.
func requiredProduct(ctx context.Context) (string, error) {
	return connections.ParseProduct(productLines(ctx))
}

// optionalProduct is requiredProduct, but no header at all is nil.
func optionalProduct(ctx context.Context) (*string, error) {
	lines := productLines(ctx)
	if len(lines) == 0 {
		return nil, nil //nolint:nilnil // no header is a value of its own
	}
	product, err := connections.ParseProduct(lines)
	if err != nil {
		return nil, err
	}
	return &product, nil
}

func productLines(ctx context.Context) []string {
	return exchangeOf(ctx).request.Header.Values(headerProduct)
}
