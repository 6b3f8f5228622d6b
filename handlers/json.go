package handlers

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const typeNull = "null" // the type of null in schemas

// RawJSON is JSON text that is passed on as it was sent: every digit, escape and member in its place.
type RawJSON jsontext.Value

// MarshalJSON returns the text.
func (r RawJSON) MarshalJSON() ([]byte, error) { return jsontext.Value(r).MarshalJSON() }

// MarshalJSONTo writes the text without a copy; null when there is none.
func (r RawJSON) MarshalJSONTo(enc *jsontext.Encoder) error {
	if r == nil {
		return enc.WriteToken(jsontext.Null)
	}
	return enc.WriteValue(jsontext.Value(r))
}

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
		Marshal:   newJSONWriter().write,
		Unmarshal: func(data []byte, v any) error { return json.Unmarshal(data, v) },
	}
}

// jsonWriter writes answers by way of buffers that it uses again.
type jsonWriter struct{ buffers sync.Pool }

// keptBuffer is the largest buffer that is kept.
const keptBuffer = 64 << 10

func newJSONWriter() *jsonWriter {
	return &jsonWriter{sync.Pool{New: func() any { return new(bytes.Buffer) }}}
}

func (j *jsonWriter) write(w io.Writer, v any) error {
	text, _ := j.buffers.Get().(*bytes.Buffer)
	defer func() {
		if text.Cap() <= keptBuffer {
			text.Reset()
			j.buffers.Put(text)
		}
	}()
	if err := encodeInto(text, v); err != nil {
		return err
	}
	send(w, text.Bytes())
	return nil
}

// writeJSON encodes v whole before it writes the first byte, so that a value that can't be encoded becomes an error
// answer. A failed write is the client's leaving and no error.
func writeJSON(w io.Writer, v any) error {
	text, err := encodeJSON(v)
	if err != nil {
		return err
	}
	send(w, text)
	return nil
}

func send(w io.Writer, text []byte) {
	if rw, ok := w.(http.ResponseWriter); ok {
		rw.Header().Set("Content-Length", strconv.Itoa(len(text)))
	}
	_, _ = w.Write(text)
}

// encodeJSON is v as it is answered.
func encodeJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	err := encodeInto(&text, v)
	return text.Bytes(), err
}

func encodeInto(text *bytes.Buffer, v any) error {
	if err := json.MarshalWrite(text, v, json.Deterministic(true), jsontext.PreserveRawStrings(true)); err != nil {
		return err
	}
	return text.WriteByte('\n')
}
