package handlers

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fetcherhq/fetcher/connections"
)

// member is a member of a merge patch, which tells absent from null.
type member[T any] connections.Member[T]

// UnmarshalJSONFrom reads the value, with the decoder's options and place.
func (m *member[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	m.Given, m.Value = true, nil
	if dec.PeekKind() == 'n' {
		return dec.SkipValue()
	}
	m.Value = new(T)
	return json.UnmarshalDecode(dec, m.Value)
}

// Schema is that of T, or null.
func (member[T]) Schema(r huma.Registry) *huma.Schema {
	schema := r.Schema(reflect.TypeFor[T](), true, "")
	if schema.Ref != "" {
		return &huma.Schema{AnyOf: []*huma.Schema{schema, {Type: typeNull}}}
	}
	schema.Nullable = true
	return schema
}
