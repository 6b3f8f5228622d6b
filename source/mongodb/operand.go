package mongodb

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source"
)

var errOperand = errors.New("value can't be one of the field's type")

// operands returns the BSON values that an operand of the family is equal to.
func operands(family source.Family, n *native, o source.Operand) (bson.A, error) {
	switch family {
	case source.FamilyText:
		return bson.A{o.Text}, nil
	case source.FamilyBool:
		return bson.A{o.Bool}, nil
	case source.FamilyInt, source.FamilyFloat, source.FamilyDecimal:
		v, err := numberOf(family, n, o.Text)
		return v.all(), err
	case source.FamilyObjectID:
		id, err := bson.ObjectIDFromHex(o.Text)
		return bson.A{id}, err
	case source.FamilyTimestampTZ:
		at, err := parseDate(o.Text)
		return bson.A{at}, err
	case source.FamilyUUID:
		id, err := hex.DecodeString(strings.ReplaceAll(o.Text, "-", ""))
		return bson.A{uuidOf(subtypeUUID, id), uuidOf(subtypeOldUUID, id)}, err
	case source.FamilyBinary:
		values := bson.A{bson.Binary{Data: o.Bytes}}
		for _, subtype := range n.subtypes {
			if subtype != 0 {
				values = append(values, bson.Binary{Subtype: subtype, Data: o.Bytes})
			}
		}
		return values, nil
	}
	return nil, errOperand
}

func uuidOf(subtype byte, id []byte) bson.Binary { return bson.Binary{Subtype: subtype, Data: id} }

// number is an operand among numbers. The server compares numbers of all types by their exact values; but a double that
// is shown as 0.1 is not exactly that, so that it is compared with the double of the digits.
type number struct {
	exact  any // compared with every number, or with all but doubles
	double any // compared with doubles; nil: exact is
}

func (v number) all() bson.A {
	if v.double == nil {
		return bson.A{v.exact}
	}
	return bson.A{v.exact, v.double}
}

func numberOf(family source.Family, n *native, text string) (number, error) {
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
		return number{exact: whole}, nil
	}
	double, err := strconv.ParseFloat(text, 64)
	if family == source.FamilyFloat {
		if rational, ok := new(big.Rat).SetString(text); ok && rational.IsInt() && rational.Num().IsInt64() {
			return number{exact: rational.Num().Int64()}, nil // such as 1e3
		}
		return number{exact: double}, err
	}
	if family != source.FamilyDecimal {
		return number{}, errOperand
	}
	decimal, err := bson.ParseDecimal128(text)
	if err != nil {
		return number{}, err
	}
	v := number{exact: decimal}
	if rational, ok := new(big.Rat).SetString(text); ok && n.kinds[kindDouble] {
		if exactly := new(big.Rat).SetFloat64(double); exactly == nil || exactly.Cmp(rational) != 0 {
			v.double = double
		}
	}
	return v, nil
}

// spansOf returns the ranges of a comparison.
func spansOf(p source.Predicate, n *native) ([]span, error) {
	low, high := bounds(p)
	switch p.Column.Family {
	case source.FamilyTimestampTZ:
		return dateSpans(low, high)
	case source.FamilyInt, source.FamilyFloat, source.FamilyDecimal:
		return numberSpans(p.Column.Family, n, low, high)
	case source.FamilyUUID:
		return uuidSpans(low, high)
	}
	s := span{lowOpen: low.open, highOpen: high.open}
	for at, b := range map[*any]bound{&s.low: low, &s.high: high} {
		if b.operand == nil {
			continue
		}
		values, err := operands(p.Column.Family, n, *b.operand)
		if err != nil {
			return nil, err
		}
		*at = values[0]
	}
	return []span{s}, nil
}

// bound is one end of a range.
type bound struct {
	operand *source.Operand // nil: none
	open    bool
}

func bounds(p source.Predicate) (low, high bound) {
	first := &p.Values[0]
	switch p.Op {
	case source.OpGt, source.OpGte:
		return bound{first, p.Op == source.OpGt}, bound{}
	case source.OpLt, source.OpLte:
		return bound{}, bound{first, p.Op == source.OpLt}
	}
	return bound{operand: first}, bound{operand: &p.Values[1]}
}

// dateSpans takes a day for all of its moments: after it is from the next one on, up to it is before the next one.
func dateSpans(low, high bound) ([]span, error) {
	s := span{lowOpen: low.open, highOpen: high.open}
	var errs []error
	parse := func(text string) any {
		at, err := parseDate(text)
		errs = append(errs, err)
		return at
	}
	if o := low.operand; o != nil {
		s.low = parse(o.Text)
		if o.DayOnly && low.open {
			s.low, s.lowOpen = parse(o.NextDay()), false
		}
	}
	if o := high.operand; o != nil {
		s.high = parse(o.Text)
		if o.DayOnly && !high.open {
			s.high, s.highOpen = parse(o.NextDay()), true
		}
	}
	return []span{s}, errors.Join(errs...)
}

// numberSpans makes one range, or one for doubles and one for all other numbers where their ends differ.
func numberSpans(family source.Family, n *native, low, high bound) ([]span, error) {
	others := span{lowOpen: low.open, highOpen: high.open}
	doubles := others
	differ := false
	set := func(b bound, exact, double *any) error {
		if b.operand == nil {
			return nil
		}
		v, err := numberOf(family, n, b.operand.Text)
		*exact, *double = v.exact, v.exact
		if v.double != nil {
			*double, differ = v.double, true
		}
		return err
	}
	if err := errors.Join(set(low, &others.low, &doubles.low), set(high, &others.high, &doubles.high)); err != nil {
		return nil, err
	}
	if !differ {
		return []span{others}, nil
	}
	others.kinds = []kind{kindInt32, kindInt64, kindDecimal}
	doubles.kinds = []kind{kindDouble}
	return []span{others, doubles}, nil
}

// uuidSpans makes a range for each subtype: the server orders binaries by their subtype first.
func uuidSpans(low, high bound) ([]span, error) {
	var spans []span
	for _, subtype := range []byte{subtypeUUID, subtypeOldUUID} {
		s := span{
			low: uuidOf(subtype, bytes.Repeat([]byte{0}, uuidSize)), high: uuidOf(subtype, bytes.Repeat([]byte{0xff}, uuidSize)),
			lowOpen: low.open, highOpen: high.open,
		}
		for at, b := range map[*any]bound{&s.low: low, &s.high: high} {
			if b.operand == nil {
				continue
			}
			id, err := hex.DecodeString(strings.ReplaceAll(b.operand.Text, "-", ""))
			if err != nil {
				return nil, fmt.Errorf("uuid: %w", err)
			}
			*at = uuidOf(subtype, id)
		}
		spans = append(spans, s)
	}
	return spans, nil
}

// comparableKinds returns the types that values of a span can be compared with.
func comparableKinds(s span) []kind {
	v := s.low
	if v == nil {
		v = s.high
	}
	switch v.(type) {
	case string:
		return []kind{kindString, kindSymbol}
	case bool:
		return []kind{kindBool}
	case bson.ObjectID:
		return []kind{kindObjectID}
	case bson.DateTime:
		return []kind{kindDate}
	case bson.Binary:
		return []kind{kindBinary}
	}
	return []kind{kindDouble, kindInt32, kindInt64, kindDecimal}
}

// parseDate reads the canonical text of an instant or a day.
func parseDate(s string) (bson.DateTime, error) {
	rest, bc := strings.CutSuffix(s, " BC")
	digits := strings.IndexByte(rest, '-')
	if digits < 4 {
		return 0, errOperand
	}
	year, err := strconv.Atoi(rest[:digits])
	if err != nil {
		return 0, errOperand
	}
	// Years of more digits than the standard parser reads: any leap year stands in.
	const leap = "2000"
	layout := time.DateOnly
	if strings.ContainsRune(rest, 'T') {
		layout = "2006-01-02T15:04:05Z07:00"
	}
	t, err := time.Parse(layout, leap+rest[digits:])
	if err != nil {
		return 0, errOperand
	}
	if bc {
		year = 1 - year
	}
	at := time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	return bson.NewDateTimeFromTime(at), nil
}
