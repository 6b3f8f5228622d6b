package connections

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fetcherhq/fetcher/problem"
)

// maxMetadataText bounds, in bytes, what many patches together can make of the metadata; one body can't hold more.
const maxMetadataText = 1 << 20

// checkPatchMetadata refuses a change of the metadata that is neither an object nor null; nil is no change.
func checkPatchMetadata(text []byte) error {
	if jsontext.Value(text).Kind() == 'n' {
		return nil
	}
	return checkObject(text)
}

// mergeMetadata applies a merge patch to metadata. Both are valid JSON text or nil, absent; null removes the metadata.
// What the patch does not name keeps its text and its place.
func mergeMetadata(text, patch []byte) []byte {
	switch {
	case patch == nil:
		return text
	case jsontext.Value(patch).Kind() == 'n':
		return nil
	default:
		return merge(text, patch)
	}
}

// merge is RFC 7396: members of an object patch replace those of the target, null removes them, and any other patch is
// the outcome itself.
func merge(target, patch jsontext.Value) jsontext.Value {
	if patch.Kind() != '{' {
		return bytes.TrimSpace(patch)
	}
	var members []jsonMember
	if target.Kind() == '{' {
		members = membersOf(target)
	}
	at := make(map[string]int, len(members))
	for i, m := range members {
		at[m.name] = i
	}
	for _, change := range membersOf(patch) {
		i, known := at[change.name]
		switch {
		case change.value.Kind() == 'n' && known:
			members[i].value = nil
		case change.value.Kind() == 'n':
		case known:
			members[i].value = merge(members[i].value, change.value)
		default:
			members = append(members, jsonMember{change.name, change.quoted, merge(nil, change.value)})
		}
	}
	return object(members)
}

// jsonMember is a member of an object: its name, in clear and as it was written, and the text of its value, nil when it
// was removed.
type jsonMember struct {
	name   string
	quoted jsontext.Value
	value  jsontext.Value
}

// membersOf lists the members of a valid object in their order.
func membersOf(text jsontext.Value) []jsonMember {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	var members []jsonMember
	for dec.PeekKind() == '"' {
		quoted, err := dec.ReadValue()
		if err != nil {
			break
		}
		quoted = quoted.Clone() // the next read may overwrite it
		name, err := jsontext.AppendUnquote(nil, quoted)
		if err != nil {
			break
		}
		value, err := dec.ReadValue()
		if err != nil {
			break
		}
		members = append(members, jsonMember{string(name), quoted, value.Clone()})
	}
	return members
}

func object(members []jsonMember) jsontext.Value {
	text := []byte{'{'}
	for _, m := range members {
		if m.value == nil {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(append(append(text, m.quoted...), ':'), m.value...)
	}
	return append(text, '}')
}

// checkGrowth refuses metadata that patches have made larger than a body could.
func checkGrowth(merged, patch []byte) error {
	if len(merged) <= maxMetadataText || len(merged) <= len(patch) {
		return nil
	}
	return problem.New(problem.Malformed, "the metadata would become too large").
		With(problem.Field{Location: "body.metadata", Message: "must not grow beyond 1 MiB"})
}
