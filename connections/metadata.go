package connections

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
)

const (
	maxMetadataDepth = 5    // levels of objects and arrays, the metadata themselves being the first
	maxMetadataValue = 2000 // characters
	maxMetadataKey   = 100  // characters
)

// CheckMetadata applies the rules for metadata, of connections and jobs alike, to their JSON text: an object
// (FET-0001), at most 5 levels deep (FET-0410), strings to 2000 characters (FET-0411), keys to 100 (FET-0412). Locations
// begin with body.metadata. Absent metadata (nil) pass.
func CheckMetadata(text []byte) error {
	if err := checkObject(text); err != nil {
		return err
	}
	found := metadataFaults(text)
	return found.err()
}

// checkObject refuses metadata that are no JSON object; this belongs to parsing, before everything else.
func checkObject(text []byte) error {
	if text == nil {
		return nil
	}
	v := jsontext.Value(text)
	if v.Kind() == '{' && v.IsValid() {
		return nil
	}
	return problem.New(problem.Malformed, "a member of the body has the wrong type").
		With(problem.Field{Location: "body.metadata", Message: "must be an object"})
}

// metadataFaults lists what is over a limit in metadata that are a valid object, or absent.
func metadataFaults(text []byte) faults {
	if text == nil {
		return nil
	}
	w := metadataWalk{dec: jsontext.NewDecoder(bytes.NewReader(text))}
	if err := w.value("body.metadata", 1); err != nil {
		w.found.malformed("body.metadata", "must be an object")
	}
	return w.found
}

type metadataWalk struct {
	dec   *jsontext.Decoder
	found faults
}

// value reads one value; level is the one it has if it is an object or array.
func (w *metadataWalk) value(at string, level int) error {
	kind := w.dec.PeekKind()
	if kind != '{' && kind != '[' {
		return w.scalar(at)
	}
	if level > maxMetadataDepth {
		w.found.add(problem.MetadataTooDeep, at, fmt.Sprintf("is nested deeper than %d levels", maxMetadataDepth))
		return w.dec.SkipValue()
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	for i := 0; w.dec.PeekKind() != '}' && w.dec.PeekKind() != ']'; i++ {
		child := at + "[" + strconv.Itoa(i) + "]"
		if kind == '{' {
			key, err := w.key(at)
			if err != nil {
				return err
			}
			child = at + "." + key
		}
		if err := w.value(child, level+1); err != nil {
			return err
		}
	}
	_, err := w.dec.ReadToken()
	return err
}

func (w *metadataWalk) scalar(at string) error {
	token, err := w.dec.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() == '"' && utf8.RuneCountInString(token.String()) > maxMetadataValue {
		w.found.add(problem.MetadataValueTooLong, at, fmt.Sprintf("is longer than %d characters", maxMetadataValue))
	}
	return nil
}

// key reads a member's name and returns as much of it as fits a location.
func (w *metadataWalk) key(at string) (string, error) {
	token, err := w.dec.ReadToken()
	if err != nil {
		return "", err
	}
	name := token.String()
	if utf8.RuneCountInString(name) <= maxMetadataKey {
		return name, nil
	}
	name = string([]rune(name)[:maxMetadataKey]) + "…"
	w.found.add(problem.MetadataKeyTooLong, at+"."+name, fmt.Sprintf("has a key longer than %d characters", maxMetadataKey))
	return name, nil
}

// kindOptions reads the metadata a kind of database needs to connect, with their defaults, and lists the ones that
// can't be used.
func kindOptions(kind source.Kind, text []byte, database string) (map[string]string, faults) {
	r := optionReader{options: map[string]string{}}
	if text != nil && json.Unmarshal(text, &r.metadata) != nil {
		return nil, nil // not an object: found by the caller
	}
	switch kind {
	case source.Oracle:
		r.text("serviceName", database)
	case source.MongoDB:
		r.text("authSource", "admin")
		r.text("replicaSet", "")
		r.flag("directConnection")
	default:
		return nil, nil
	}
	return r.options, r.found
}

type optionReader struct {
	metadata map[string]jsontext.Value
	options  map[string]string
	found    faults
}

// text takes a string member; an absent one is otherwise, and no option at all when that is empty.
func (r *optionReader) text(name, otherwise string) {
	value, ok := r.metadata[name]
	if !ok || value.Kind() == 'n' {
		if otherwise != "" {
			r.options[name] = otherwise
		}
		return
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		r.found.malformed("body.metadata."+name, "must be a string")
		return
	}
	s = strings.TrimSpace(s)
	r.found.text("body.metadata."+name, &s, maxText)
	r.options[name] = s
}

// flag takes a boolean member.
func (r *optionReader) flag(name string) {
	switch value := r.metadata[name]; value.Kind() {
	case 't', 'f':
		r.options[name] = string(value)
	case 'n', 0:
	default:
		r.found.malformed("body.metadata."+name, "must be true or false")
	}
}
