package handlers

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// The texts of a job request, each with the schema of what it may hold.
type (
	mappedFieldsRaw = rawAs[mappedFields]
	filtersRaw      = rawAs[filters]
	jobOutputRaw    = rawAs[JobOutput]
)

// rawAs is JSON text kept as it was sent that is documented as a T.
type rawAs[T any] RawJSON

// UnmarshalJSON keeps a copy of the text.
func (r *rawAs[T]) UnmarshalJSON(text []byte) error { return (*RawJSON)(r).UnmarshalJSON(text) }

// MarshalJSON returns the text.
func (r rawAs[T]) MarshalJSON() ([]byte, error) { return RawJSON(r).MarshalJSON() }

// Schema is that of T.
func (rawAs[T]) Schema(r huma.Registry) *huma.Schema { return r.Schema(reflect.TypeFor[T](), true, "") }

// mappedFields is datasource, table, fields.
type mappedFields map[string]map[string][]string

// filters is datasource, table, field.
type filters map[string]map[string]map[string]FieldFilter

// FieldFilter is the conditions on one field. Values are strings, numbers or booleans.
type FieldFilter struct {
	Eq      []FilterValue `json:"eq,omitempty" minItems:"1" doc:"Equal to one of."`
	Ne      []FilterValue `json:"ne,omitempty" minItems:"1" doc:"Equal to none of."`
	Gt      []FilterValue `json:"gt,omitempty" minItems:"1" maxItems:"1"`
	Gte     []FilterValue `json:"gte,omitempty" minItems:"1" maxItems:"1"`
	Lt      []FilterValue `json:"lt,omitempty" minItems:"1" maxItems:"1"`
	Lte     []FilterValue `json:"lte,omitempty" minItems:"1" maxItems:"1"`
	Between []FilterValue `json:"between,omitempty" minItems:"2" maxItems:"2" doc:"Inclusive range."`
	In      []FilterValue `json:"in,omitempty" minItems:"1" doc:"Any of."`
	Nin     []FilterValue `json:"nin,omitempty" minItems:"1" doc:"None of."`
	Like    []string      `json:"like,omitempty" minItems:"1" maxItems:"1" doc:"SQL LIKE."`
	IsNull  []bool        `json:"isNull,omitempty" minItems:"1" maxItems:"1"`
}

// FilterValue is a string, a number or a boolean.
type FilterValue struct{}

// Schema documents the three.
func (FilterValue) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeNumber}, {Type: huma.TypeBoolean}}}
}

// JobOutput is how the result is written.
type JobOutput struct {
	Format      string `json:"format,omitempty" enum:"json,ndjson,csv,parquet" default:"json"`
	Compression string `json:"compression,omitempty" enum:"none,gzip,zstd" default:"none"`
}
