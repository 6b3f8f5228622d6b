package source

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Compile resolves conditions against a table and converts their values by the type of the column. The error joins a
// *NameError for each field that the table has not and a *FilterError for each value that doesn't fit.
func Compile(t *Table, conditions []Condition) ([]Predicate, error) {
	predicates := make([]Predicate, 0, len(conditions))
	var errs []error
	for i := range conditions {
		c := &conditions[i]
		column, err := t.Column(c.Field)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p, faults := compile(c, column)
		errs = append(errs, faults...)
		predicates = append(predicates, p)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return predicates, nil
}

func compile(c *Condition, column *Column) (Predicate, []error) {
	p := Predicate{Column: column, Op: c.Op}
	if faults := shapeErrors(c); len(faults) > 0 {
		return p, faults
	}
	switch {
	case c.Op == OpIsNull:
		p.Values = []Operand{{Bool: c.Values[0].Kind() == 't'}}
		return p, nil
	case !column.Family.comparable():
		return p, []error{c.fault(-1, "the field's type takes only isNull")}
	case c.Op == OpLike && column.Family != FamilyText:
		return p, []error{c.fault(-1, "like needs a text field")}
	}
	var faults []error
	for i, v := range c.Values {
		o, ok := convert(column, v)
		if ok && c.Op != OpLike {
			if checker, has := column.Native.(OperandChecker); has {
				ok = checker.CheckOperand(o)
			}
		}
		if !ok {
			faults = append(faults, c.fault(i, "does not fit "+column.Family.noun()))
		}
		p.Values = append(p.Values, o)
	}
	return p, faults
}

// The words of booleans in strings.
const (
	textTrue  = "true"
	textFalse = "false"
)

// convert makes an operand of v, which has passed the shape check, for the column's type.
func convert(c *Column, v jsontext.Value) (Operand, bool) {
	switch v.Kind() {
	case 't', 'f':
		return Operand{Bool: v.Kind() == 't'}, c.Family == FamilyBool
	case '0':
		text := string(bytes.TrimSpace(v))
		switch c.Family {
		case FamilyInt:
			return convertInt(c, text)
		case FamilyDecimal:
			return convertDecimal(c, text)
		case FamilyFloat:
			return convertFloat(c, text)
		}
		return Operand{}, false
	}
	s, err := unquote(v)
	if err != nil {
		return Operand{}, false
	}
	return convertString(c, s)
}

func convertString(c *Column, s string) (Operand, bool) {
	switch c.Family {
	case FamilyText, FamilyNetwork:
		return Operand{Text: s}, true
	case FamilyBool:
		return Operand{Bool: s == textTrue}, s == textTrue || s == textFalse
	case FamilyInt:
		return convertInt(c, s)
	case FamilyDecimal:
		return convertDecimal(c, s)
	case FamilyFloat:
		return convertFloat(c, s)
	case FamilyEnum:
		return Operand{Text: s}, slices.Contains(c.Labels, s)
	case FamilyUUID:
		return Operand{Text: strings.ToLower(s)}, isUUID(s)
	case FamilyObjectID:
		return Operand{Text: strings.ToLower(s)}, len(s) == 24 && isHex(s)
	case FamilyBinary:
		return convertBinary(s)
	case FamilyBits:
		return Operand{Text: s}, strings.Trim(s, "01") == ""
	case FamilyInterval:
		return Operand{Text: s}, isDuration(s)
	}
	return convertTemporal(c, s)
}

func convertTemporal(c *Column, s string) (Operand, bool) {
	switch c.Family {
	case FamilyDate:
		return convertDate(c, s)
	case FamilyTime:
		return convertTime(c, s)
	case FamilyTimeTZ:
		return convertTimeTZ(c, s)
	case FamilyTimestamp, FamilyTimestampTZ:
		return convertTimestamp(c, s)
	}
	return Operand{}, false
}

func convertBinary(s string) (Operand, bool) {
	if strings.ContainsAny(s, "\r\n") { // which the decoder would skip
		return Operand{}, false
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	return Operand{Bytes: b}, err == nil
}

// isUUID reports whether s has the form 8-4-4-4-12, in any case.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for _, i := range []int{8, 13, 18, 23} {
		if s[i] != '-' {
			return false
		}
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	return isHex(digits)
}

func isHex(s string) bool {
	for i := range len(s) {
		if !strings.ContainsRune("0123456789abcdefABCDEF", rune(s[i])) {
			return false
		}
	}
	return true
}

// comparable reports whether values of the family can be compared with those of a filter.
func (f Family) comparable() bool {
	switch f {
	case FamilyOther, FamilyJSON, FamilyArray, FamilyComposite:
		return false
	}
	return true
}

// noun names the family to the reader of an error.
func (f Family) noun() string {
	names := map[Family]string{
		FamilyBool: "a boolean", FamilyInt: "an integer of the field's size", FamilyDecimal: "a decimal",
		FamilyFloat: "a number of the field's size", FamilyText: "a text", FamilyEnum: "one of the labels",
		FamilyUUID: "a UUID", FamilyObjectID: "an ObjectId", FamilyDate: "a date", FamilyTime: "a time",
		FamilyTimeTZ: "a time with offset", FamilyTimestamp: "a timestamp without offset",
		FamilyTimestampTZ: "a timestamp", FamilyInterval: "an ISO 8601 duration", FamilyBinary: "base64",
		FamilyBits: "a string of bits", FamilyNetwork: "an address of the field's type",
	}
	return names[f]
}
