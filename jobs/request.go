package jobs

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

// Raw is a job request as it was sent: JSON texts, nil for what is absent. A null counts as absent.
type Raw struct {
	DataRequest *RawDataRequest
	Metadata    []byte
	Output      []byte
}

// RawDataRequest is the member dataRequest.
type RawDataRequest struct {
	MappedFields []byte
	Filters      []byte
}

// Request is a job request that has passed every check that needs no database. The texts are those that were sent.
type Request struct {
	MappedFields []byte
	Filters      []byte // nil: none
	Metadata     []byte
	Output       []byte // nil: none

	Source      string               // metadata.source, trimmed and in lower case: the product
	Format      string               // of the result
	Datasources []extract.Datasource // in name order, without what it takes to reach them
	Hash        string               // identical requests have the same, and no others

	// Then runs in the transaction that stores the job, and not for a duplicate: when it fails no job is stored. nil:
	// nothing does.
	Then func(store.Idempotency, *store.Job) error
}

// Limits bound a request. A zero member takes the default named beside it.
type Limits struct {
	Datasources int // 10
	Tables      int // of a datasource; 20
	Fields      int // of a table; 50; "*" is exempt
	Conditions  int // of a table; 50
}

func (l Limits) withDefaults() Limits {
	for member, value := range map[*int]int{&l.Datasources: 10, &l.Tables: 20, &l.Fields: 50, &l.Conditions: 50} {
		if *member == 0 {
			*member = value
		}
	}
	return l
}

// ParseRequest checks a request in the contract's order: types (FET-0001), missing members (FET-0402), the data
// request (FET-0401), metadata (FET-0410 to 0412) and its source (FET-0402).
func ParseRequest(raw Raw, limits Limits) (Request, error) {
	req := Request{Metadata: present(raw.Metadata), Output: present(raw.Output)}
	if raw.DataRequest != nil {
		req.MappedFields, req.Filters = present(raw.DataRequest.MappedFields), present(raw.DataRequest.Filters)
	}
	err := req.types()
	if err == nil {
		err = req.missing(raw)
	}
	if err == nil {
		err = checkShape(req.Datasources, limits.withDefaults())
	}
	if err == nil {
		err = req.metadata()
	}
	if err == nil {
		req.Hash, err = requestHash(req)
	}
	if err != nil {
		return Request{}, err
	}
	return req, nil
}

// present returns nil for a null.
func present(text []byte) []byte {
	if jsontext.Value(text).Kind() == 'n' {
		return nil
	}
	return text
}

// types decodes every member that is there.
func (r *Request) types() error {
	if r.MappedFields != nil {
		var err error
		if r.Datasources, err = decodeDatasources(r.MappedFields, r.Filters); err != nil {
			return err
		}
	}
	if r.Metadata != nil && jsontext.Value(r.Metadata).Kind() != '{' {
		return wrongType("body.metadata", r.Metadata)
	}
	return r.output()
}

// output reads the member output.
func (r *Request) output() (err error) {
	o, err := decodeOutput(r.Output)
	if err == nil {
		r.Format = cmp.Or(o.Format, extract.FormatJSON)
	}
	return err
}

// decodeOutput reads the text of the member output, as sent or as stored; nil is the default. Every format goes with
// every compression.
func decodeOutput(text []byte) (extract.Output, error) {
	var o extract.Output
	if text == nil {
		return o, nil
	}
	members, err := decodeObject("body.output", text)
	if err != nil {
		return o, err
	}
	for _, m := range []struct {
		name  string
		known []string
		into  *string
	}{{"format", extract.Formats(), &o.Format}, {"compression", extract.Compressions(), &o.Compression}} {
		value, ok := members[m.name]
		if !ok {
			continue
		}
		at := "body.output." + m.name
		if *m.into, err = decodeString(at, value); err != nil {
			return o, err
		}
		if !slices.Contains(m.known, *m.into) {
			return o, problem.New(problem.Malformed, "the output is not supported").
				With(problem.Field{Location: at, Message: "must be one of " + strings.Join(m.known, ", ")})
		}
	}
	return o, nil
}

// missing lists the required members that are absent.
func (r *Request) missing(raw Raw) error {
	var fields []problem.Field
	add := func(location string) {
		fields = append(fields, problem.Field{Location: location, Message: "is required"})
	}
	switch {
	case raw.DataRequest == nil:
		add("body.dataRequest")
	case r.MappedFields == nil:
		add("body.dataRequest.mappedFields")
	}
	if r.Metadata == nil {
		add("body.metadata")
	}
	if len(fields) == 0 {
		return nil
	}
	return problem.New(problem.MissingMember, "required members are missing").With(fields...)
}

// metadata checks the metadata's limits and takes the product from it.
func (r *Request) metadata() error {
	if err := connections.CheckMetadata(r.Metadata); err != nil {
		return err
	}
	var members struct {
		Source jsontext.Value `json:"source"`
	}
	if err := json.Unmarshal(r.Metadata, &members); err != nil {
		return problem.Wrap(err, problem.Malformed, "the metadata are not valid")
	}
	var source string
	if members.Source.Kind() == '"' {
		if err := json.Unmarshal(members.Source, &source); err != nil {
			return problem.Wrap(err, problem.Malformed, "the metadata are not valid")
		}
	}
	if r.Source = strings.ToLower(strings.TrimSpace(source)); r.Source == "" {
		return problem.New(problem.MissingMember, "required members are missing").
			With(problem.Field{Location: "body.metadata.source", Message: "must be a string that names the product"})
	}
	return nil
}

// decodeObject returns the members of an object.
func decodeObject(at string, text jsontext.Value) (map[string]jsontext.Value, error) {
	if text.Kind() != '{' {
		return nil, wrongType(at, text)
	}
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, problem.Wrap(err, problem.Malformed, "the body is not valid JSON").
			With(problem.Field{Location: at, Message: "is not valid JSON"})
	}
	return members, nil
}

// decodeArray returns the elements of an array.
func decodeArray(at string, text jsontext.Value) ([]jsontext.Value, error) {
	if text.Kind() != '[' {
		return nil, wrongType(at, text)
	}
	elements := []jsontext.Value{}
	if err := json.Unmarshal(text, &elements); err != nil {
		return nil, problem.Wrap(err, problem.Malformed, "the body is not valid JSON").
			With(problem.Field{Location: at, Message: "is not valid JSON"})
	}
	return elements, nil
}

func decodeString(at string, text jsontext.Value) (string, error) {
	if text.Kind() != '"' {
		return "", wrongType(at, text)
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return "", wrongType(at, text)
	}
	return s, nil
}

func wrongType(at string, text jsontext.Value) error {
	kinds := map[jsontext.Kind]string{
		'n': "null", 'f': "a boolean", 't': "a boolean", '"': "a string", '0': "a number", '{': "an object", '[': "an array",
	}
	message := "has the wrong type"
	if kind, ok := kinds[jsontext.Value(bytes.TrimSpace(text)).Kind()]; ok {
		message = kind + " is not accepted here"
	}
	return problem.New(problem.Malformed, "a member of the body has the wrong type").
		With(problem.Field{Location: at, Message: message})
}
