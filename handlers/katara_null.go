package handlers

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// nullable is an object that may be null; huma's own way to say so knows only values of simple types.
type nullable[T any] struct{ value *T }

// MarshalJSONTo writes the value, or null.
func (n nullable[T]) MarshalJSONTo(enc *jsontext.Encoder) error {
	return json.MarshalEncode(enc, n.value)
}

// Schema is that of T, or null.
func (nullable[T]) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{r.Schema(reflect.TypeFor[T](), true, ""), {Type: typeNull}}}
}
