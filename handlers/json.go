package handlers

import (
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const typeNull = "null" // the type of null in schemas

// RawJSON is JSON text that is passed on as it was sent: every digit, escape and member in its place.
type RawJSON jsontext.Value

// MarshalJSON returns the text.
func (r RawJSON) MarshalJSON() ([]byte, error) { return jsontext.Value(r).MarshalJSON() }

// UnmarshalJSON keeps a copy of the text.
func (r *RawJSON) UnmarshalJSON(text []byte) error {
	*r = append((*r)[:0], text...)
	return nil
}

// Schema says that a RawJSON is an object about whose members nothing is known.
func (RawJSON) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// jsonFormat is how huma writes answers. Bodies of requests are decoded by decodeBody, never by huma.
func jsonFormat() huma.Format {
	return huma.Format{
		Marshal:   writeJSON,
		Unmarshal: func(data []byte, v any) error { return json.Unmarshal(data, v) },
	}
}

// writeJSON encodes v whole before it writes the first byte, so that a value that can't be encoded becomes an error
// answer. A failed write is the client's leaving and no error.
func writeJSON(w io.Writer, v any) error {
	text, err := encodeJSON(v)
	if err != nil {
		return err
	}
	if rw, ok := w.(http.ResponseWriter); ok {
		rw.Header().Set("Content-Length", strconv.Itoa(len(text)))
	}
	_, _ = w.Write(text)
	return nil
}

// encodeJSON is v as it is answered.
func encodeJSON(v any) ([]byte, error) {
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}
