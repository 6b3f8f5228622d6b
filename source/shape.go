package source

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// FilterError says why a condition can't be used. It holds no value.
type FilterError struct {
	Field    string
	Op       Op
	Position int    // index into the condition's values; -1: the condition as a whole
	Reason   string // safe to show
}

// Error tells field, operator, position and reason.
func (e *FilterError) Error() string {
	if e.Position < 0 {
		return fmt.Sprintf("filter %s %s: %s", e.Field, e.Op, e.Reason)
	}
	return fmt.Sprintf("filter %s %s[%d]: %s", e.Field, e.Op, e.Position, e.Reason)
}

// FilterErrors returns every *FilterError in err, in order. ValidateShape and Compile join theirs.
func FilterErrors(err error) []*FilterError {
	if one := (*FilterError)(nil); errors.As(err, &one) {
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok {
			return []*FilterError{one}
		}
		var all []*FilterError
		for _, e := range joined.Unwrap() {
			all = append(all, FilterErrors(e)...)
		}
		return all
	}
	return nil
}

// ValidateShape checks what needs no catalogue: the operator is known and has the right number of values, each a
// string, number or boolean that the operator can take. The error joins a *FilterError for each fault.
func ValidateShape(conditions []Condition) error {
	errs := make([]error, 0, len(conditions))
	for i := range conditions {
		errs = append(errs, shapeErrors(&conditions[i])...)
	}
	return errors.Join(errs...)
}

func shapeErrors(c *Condition) []error {
	if reason := arity(c.Op, len(c.Values)); reason != "" {
		return []error{c.fault(-1, reason)}
	}
	errs := make([]error, 0, len(c.Values))
	for i, v := range c.Values {
		if reason := valueShape(c.Op, v); reason != "" {
			errs = append(errs, c.fault(i, reason))
		}
	}
	return errs
}

func (c *Condition) fault(position int, reason string) *FilterError {
	return &FilterError{Field: c.Field, Op: c.Op, Position: position, Reason: reason}
}

// arity returns what is wrong with n values for op, or "".
func arity(op Op, n int) string {
	switch op {
	case OpEq, OpNe, OpIn, OpNin:
		if n < 1 {
			return "takes at least one value"
		}
	case OpGt, OpGte, OpLt, OpLte, OpLike, OpIsNull:
		if n != 1 {
			return "takes exactly one value"
		}
	case OpBetween:
		if n != 2 {
			return "takes exactly two values"
		}
	default:
		return "unknown operator"
	}
	return ""
}

// valueShape returns what is wrong with the kind of v for op, or "".
func valueShape(op Op, v jsontext.Value) string {
	kind := v.Kind()
	if op == OpIsNull {
		if kind != 't' && kind != 'f' {
			return "must be a boolean"
		}
		return ""
	}
	switch kind {
	case '"':
		return textShape(op, v)
	case '0', 't', 'f':
		if op == OpLike {
			return reasonString
		}
		return ""
	case 'n':
		return "must not be null; use isNull"
	}
	return "must be a string, number or boolean"
}

const reasonString = "must be a string"

func textShape(op Op, v jsontext.Value) string {
	s, err := unquote(v)
	switch {
	case err != nil:
		return "is not a valid string"
	case strings.ContainsRune(s, 0):
		return "must not contain NUL"
	case op == OpLike && trailing(s, '\\')%2 == 1:
		return "must not end in a single backslash"
	}
	return ""
}

func unquote(v jsontext.Value) (string, error) {
	b, err := jsontext.AppendUnquote(nil, bytes.TrimSpace(v))
	return string(b), err
}

// trailing counts how often c ends s.
func trailing(s string, c byte) int {
	n := 0
	for n < len(s) && s[len(s)-1-n] == c {
		n++
	}
	return n
}
