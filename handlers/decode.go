package handlers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fetcherhq/fetcher/problem"
)

// atBody is where a fault of the body as a whole is.
const atBody = "body"

// maxDepth is how deep a body may be nested; the outermost value is level 1.
const maxDepth = 100

// decodeBody decodes the request's body into v, a pointer to a struct. Whatever it refuses is a *problem.Error whose
// field names the place. Numbers reach RawJSON members with every digit; member names are compared as they are.
func decodeBody(ctx context.Context, v any) error {
	ex := exchangeOf(ctx)
	if err := checkText(ex.body); err != nil {
		return err
	}
	return decodeMember(atBody, ex.body, v, ex.edge.opts.StrictJSON)
}

// decodeMember decodes the text of a part of a body that was checked as a whole; at is where the part is.
func decodeMember(at string, text []byte, v any, strict bool) error {
	err := json.Unmarshal(text, v, json.RejectUnknownMembers(strict))
	if err == nil {
		return nil
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return syntaxFault(text, err)
	}
	at = location(at, text, semantic.JSONPointer)
	if errors.Is(err, json.ErrUnknownName) {
		return problem.New(problem.UnknownMember, "the body has an unknown member").
			With(problem.Field{Location: at, Message: "unknown member"})
	}
	return problem.New(problem.Malformed, "a member of the body has the wrong type").
		With(problem.Field{Location: at, Message: typeMessage(semantic)})
}

// checkText refuses what is not one JSON object with members: duplicate names, also deep inside what nobody reads,
// trailing data, a byte order mark, invalid UTF-8 and nesting beyond maxDepth.
func checkText(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return problem.New(problem.Malformed, "the body is empty").With(problem.Field{Location: atBody, Message: "is empty"})
	}
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	members := false
	for {
		token, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return syntaxFault(body, err)
		}
		if dec.StackDepth() > maxDepth {
			return problem.Newf(problem.Malformed, "the body is nested deeper than %d levels", maxDepth).
				With(problem.Field{Location: atBody, Message: "is nested too deep"})
		}
		if dec.StackDepth() == 0 && token.Kind() != '}' {
			return problem.New(problem.Malformed, "the body is not a JSON object").
				With(problem.Field{Location: atBody, Message: "must be an object"})
		}
		members = members || token.Kind() == '"'
	}
	if !members {
		return problem.New(problem.Malformed, "the body is empty").With(problem.Field{Location: atBody, Message: "is empty"})
	}
	return nil
}

// syntaxFault says what is wrong with the text without quoting it.
func syntaxFault(body []byte, err error) error {
	field := problem.Field{Location: atBody, Message: "is not valid JSON"}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		field.Location = location(atBody, body, syntactic.JSONPointer)
		field.Message = fmt.Sprintf("is not valid JSON at byte %d", syntactic.ByteOffset)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			field.Message = "is there twice"
		}
	}
	return problem.New(problem.Malformed, "the body is not valid JSON").With(field)
}

func typeMessage(err *json.SemanticError) string {
	kinds := map[jsontext.Kind]string{
		'n': typeNull, 'f': "a boolean", 't': "a boolean", '"': "a string", '0': "a number", '{': "an object", '[': "an array",
	}
	if kind, ok := kinds[err.JSONKind]; ok {
		return kind + " is not accepted here"
	}
	return "has the wrong type"
}

// location turns a pointer into a text that is at the given place into the form body.a.b[0]. Only the text tells
// indices from member names.
func location(at string, text []byte, pointer jsontext.Pointer) string {
	dec := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var b strings.Builder
	b.WriteString(at)
	for name := range pointer.Tokens() {
		if dec.PeekKind() == '[' {
			b.WriteString("[" + name + "]")
		} else {
			b.WriteString("." + shorten(name))
		}
		step(dec, name)
	}
	return b.String()
}

// step moves dec, which is before an object or array, to before its member or element of that name. Where the text
// ends or is broken it stays there.
func step(dec *jsontext.Decoder, name string) {
	open, err := dec.ReadToken()
	if err != nil {
		return
	}
	if open.Kind() == '[' {
		index, err := strconv.Atoi(name)
		for ; err == nil && index > 0; index-- {
			err = dec.SkipValue()
		}
		return
	}
	for {
		token, err := dec.ReadToken()
		if err != nil || token.Kind() != '"' || token.String() == name || dec.SkipValue() != nil {
			return
		}
	}
}

// shorten keeps an answer from growing with the names a caller makes up.
func shorten(name string) string {
	const most = 100
	if utf8.RuneCountInString(name) <= most {
		return name
	}
	return string([]rune(name)[:most]) + "…"
}
