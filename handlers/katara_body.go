package handlers

import (
	"bytes"
	"context"
	"errors"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents"
)

// decodeStrict decodes the request's body into a T, whose members are pointers and all required. Whatever it refuses is
// an InvalidRequest whose param names the member, or the body as a whole.
func decodeStrict[T any](ctx context.Context) (*T, error) {
	body := exchangeOf(ctx).body
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, documents.Invalid(atBody, "The body is empty.")
	}
	var in *T
	if err := json.Unmarshal(body, &in, json.RejectUnknownMembers(true)); err != nil {
		return nil, bodyFault(err)
	}
	if in == nil {
		return nil, documents.Invalid(atBody, "The body must be a JSON object.")
	}
	members := reflect.ValueOf(in).Elem()
	for i := range members.NumField() {
		if members.Field(i).IsNil() {
			return nil, documents.Invalid(members.Type().Field(i).Tag.Get("json"), "A required member is missing.")
		}
	}
	return in, nil
}

// bodyFault says what is wrong with a body without quoting its values.
func bodyFault(err error) error {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return documents.Invalid(memberOf(syntactic.JSONPointer), "A member is there twice.")
		}
		return documents.Invalid(atBody, "The body is not valid JSON.")
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	switch {
	case !ok:
		return documents.Invalid(atBody, "The body is not valid JSON.")
	case errors.Is(err, json.ErrUnknownName):
		return documents.Invalid(memberOf(semantic.JSONPointer), "The body has an unknown member.")
	case semantic.JSONPointer == "":
		return documents.Invalid(atBody, "The body must be a JSON object.")
	default:
		return documents.Invalid(memberOf(semantic.JSONPointer), "A member has the wrong type.")
	}
}

// memberOf is the outermost member that a pointer leads into.
func memberOf(pointer jsontext.Pointer) string {
	for name := range pointer.Tokens() {
		if name != "" {
			return shorten(name)
		}
		break
	}
	return atBody
}

// parseUUID reads the 8-4-4-4-12 form, any case, and no other.
func parseUUID(text string) (uuid.UUID, bool) {
	if !uuidForm.MatchString(text) {
		return uuid.UUID{}, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}
