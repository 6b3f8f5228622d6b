package connections

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/store"
)

// Definition is one database of the platform itself, as the operator describes it.
type Definition struct {
	Input   Input             // without metadata and schema
	Options map[string]string // schema, and what a connection's metadata would hold

	// Everyone and Tenants, canonical ids, say who may read it. Neither: nobody, but the name is reserved.
	Everyone bool
	Tenants  []string
}

// atOptions is where Check finds fault with the options.
const atOptions = "options"

const optionSchema = "schema"

// Check lists what is wrong with the definition, by the rules of connections. Locations are those of a connection's
// body, and "options". requireTLS refuses every mode that may end unencrypted. No message quotes a value.
func (d Definition) Check(requireTLS bool) []problem.Field {
	rules := Service{opts: Options{RequireTLS: requireTLS}}
	in := d.complete()
	var fields []problem.Field
	absent := map[string]bool{}
	for _, f := range rules.absent(in) {
		fields, absent[f.Location] = append(fields, f), true
	}
	for _, f := range append(rules.formats(in), d.optionFaults(in)...) {
		if !absent[f.location] {
			fields = append(fields, problem.Field{Location: f.location, Message: f.message})
		}
	}
	return fields
}

// complete returns the input with every member there that rules about formats look at, blank if need be.
func (d Definition) complete() Input {
	in := d.Input.normalized()
	in.Metadata, in.Schema = nil, nil
	if schema, ok := d.Options[optionSchema]; ok {
		in.Schema = trimmed(&schema)
	}
	for _, p := range []**string{&in.ConfigName, &in.Kind, &in.Host, &in.DatabaseName, &in.UserName, &in.Password} {
		if *p == nil {
			*p = new(string)
		}
	}
	if in.Port == nil {
		in.Port = new(int)
	}
	if ssl := in.SSL; ssl != nil {
		if ssl.Mode == nil {
			ssl.Mode = new(string)
		}
		if ssl.Cert == nil && ssl.Key != nil {
			ssl.Cert = new(string)
		}
		if ssl.Key == nil && ssl.Cert != nil {
			ssl.Key = new(string)
		}
	}
	return in
}

// optionFaults lists the options that the kind does not have, and values it can't use.
func (d Definition) optionFaults(in Input) faults {
	var f faults
	known := append(optionNames(source.Kind(*in.Kind)), optionSchema)
	for name := range d.Options {
		if !slices.Contains(known, name) && source.Kind(*in.Kind).Valid() {
			f.malformed(atOptions, "must be of "+strings.Join(known, ", "))
			break
		}
	}
	_, wrong := d.kindOptions(in)
	for _, w := range wrong {
		f.malformed(atOptions, strings.TrimPrefix(w.location, atMetadata)+" "+w.message)
	}
	return f
}

const atMetadata = "body.metadata."

// optionNames are the options of a kind, by the names they have in a connection's metadata.
func optionNames(kind source.Kind) []string {
	switch kind {
	case source.Oracle:
		return []string{"serviceName"}
	case source.MongoDB:
		return []string{"authSource", "replicaSet", optionDirect}
	default:
		return nil
	}
}

const optionDirect = "directConnection"

// kindOptions reads the options as if they were metadata.
func (d Definition) kindOptions(in Input) (map[string]string, faults) {
	metadata := map[string]any{}
	for name, value := range maps.All(d.Options) {
		metadata[name] = value
		if name == optionDirect && (value == "true" || value == "false") {
			metadata[name] = value == "true"
		}
	}
	text, err := json.Marshal(metadata)
	if err != nil {
		return nil, faults{{code: problem.Malformed, location: atMetadata, message: "must be UTF-8"}}
	}
	return kindOptions(source.Kind(*in.Kind), text, *in.DatabaseName)
}

// build makes the datasource of a definition without faults.
func (d Definition) build() internal {
	in := d.complete()
	options, _ := d.kindOptions(in)
	made := internal{
		row: store.Connection{
			ConfigName: *in.ConfigName, Kind: *in.Kind, Host: *in.Host, Port: *in.Port, DatabaseName: *in.DatabaseName,
			Schema: in.Schema, UserName: *in.UserName,
		},
		params: source.Params{
			Kind: source.Kind(*in.Kind), Host: *in.Host, Port: *in.Port, Database: *in.DatabaseName, User: *in.UserName,
			Password: *in.Password, Schema: textOf(in.Schema), Options: options,
		},
		opened: openedTo(d.Everyone, d.Tenants),
	}
	if in.SSL != nil {
		made.row.SSLMode = in.SSL.Mode
		made.params.TLS = source.TLS{
			Mode: *in.SSL.Mode, CA: textOf(in.SSL.CA), Cert: textOf(in.SSL.Cert), Key: textOf(in.SSL.Key),
		}
	}
	made.row.Revision = revision(&made.row)
	return made
}
