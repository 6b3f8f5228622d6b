package tds

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Kind is how a request came.
type Kind string

// The kinds of requests.
const (
	Batch       Kind = "batch"
	Executed    Kind = "sp_executesql"
	Transaction Kind = "transaction manager" // SQL says what for: BEGIN, COMMIT, ROLLBACK
)

// Request is what a client asked for.
type Request struct {
	Kind          Kind
	SQL           string
	Params        []Param
	Isolation     int    // of a transaction to begin: 2 read committed, 5 snapshot
	InTransaction uint64 // the number of the transaction it says it is in; 0: none
}

// Param is a parameter of a statement: its name and type as declared, and its value as it came, in text.
type Param struct {
	Name  string
	Type  string
	Value string
}

// String shows the parameter in one line.
func (p Param) String() string { return p.Name + " " + p.Type + " = " + p.Value }

const (
	procExecuteSQL = 10
	byNumber       = 0xffff

	actionBegin    = 5
	actionCommit   = 7
	actionRollback = 8
)

func parseRequest(kind byte, body []byte) (Request, error) {
	r := &reader{rest: body}
	transaction := parseHeaders(r)
	var q Request
	switch kind {
	case packetBatch:
		q = Request{Kind: Batch, SQL: utf16Text(r.rest)}
	case packetRPC:
		var err error
		if q, err = parseRPC(r); err != nil {
			return q, err
		}
	case packetTransaction:
		q = Request{Kind: Transaction}
		switch action := r.u16(); action {
		case actionBegin:
			q.SQL, q.Isolation = "BEGIN", int(r.byte())
		case actionCommit:
			q.SQL = "COMMIT"
		case actionRollback:
			q.SQL = "ROLLBACK"
		default:
			return q, fmt.Errorf("transaction manager request %d", action)
		}
	default:
		return q, fmt.Errorf("message of type %d", kind)
	}
	q.InTransaction = transaction
	return q, r.err
}

// parseHeaders reads ALL_HEADERS and returns the transaction that they name.
func parseHeaders(r *reader) uint64 {
	const descriptor = 2
	var transaction uint64
	left := r.u32() - 4
	for left > 0 && r.err == nil {
		size := r.u32()
		kind := r.u16()
		body := reader{rest: r.bytes(size - 6)}
		if kind == descriptor {
			transaction = body.u64()
		}
		left -= size
	}
	return transaction
}

func parseRPC(r *reader) (Request, error) {
	if n := r.u16(); n != byNumber {
		return Request{}, fmt.Errorf("call of %q", r.text(n))
	}
	if n := r.u16(); n != procExecuteSQL {
		return Request{}, fmt.Errorf("call of procedure %d", n)
	}
	_ = r.u16() // options
	var params []Param
	for len(r.rest) > 0 && r.err == nil {
		name := r.text(int(r.byte()))
		_ = r.byte() // status
		value, err := parseValue(r)
		if err != nil {
			return Request{}, fmt.Errorf("parameter %s: %w", name, err)
		}
		params = append(params, Param{Name: name, Value: show(value)})
	}
	if len(params) < 2 {
		return Request{}, errors.New("sp_executesql without statement or declarations")
	}
	q := Request{Kind: Executed, SQL: params[0].Value, Params: params[2:]}
	declared := declarations(params[1].Value)
	for i := range q.Params {
		t, ok := declared[q.Params[i].Name]
		if !ok {
			return q, fmt.Errorf("parameter %s is not declared", q.Params[i].Name)
		}
		q.Params[i].Type = t
	}
	return q, nil
}

// declarations reads "@p1 int,@p2 decimal(10, 2)".
func declarations(s string) map[string]string {
	out := make(map[string]string)
	for part := range strings.SplitSeq(s, ",@") {
		name, typ, _ := strings.Cut(strings.TrimPrefix(part, "@"), " ")
		out["@"+name] = typ
	}
	return out
}

// parseValue reads TYPE_INFO and a value of that type.
func parseValue(r *reader) (any, error) {
	switch id := r.byte(); id {
	case idIntN, idBitN, idFloatN, idDateTimeN, idGUID:
		_ = r.byte() // longest
		return decodeShort(id, 0, r.bytes(int(r.byte())))
	case idDate:
		return decodeShort(id, 0, r.bytes(int(r.byte())))
	case idTime, idDateTime2, idDateTimeOffset:
		digits := r.byte()
		return decodeShort(id, int(digits), r.bytes(int(r.byte())))
	case idVarChar, idNVarChar, idVarBinary:
		size := r.u16()
		if id != idVarBinary {
			_ = r.bytes(5) // collation
		}
		b := parseBytes(r, size)
		switch {
		case b == nil:
			return nil, r.err
		case id == idNVarChar:
			return utf16Text(b), r.err
		case id == idVarChar:
			return string(b), r.err
		}
		return b, r.err
	default:
		return nil, fmt.Errorf("type %#x", id)
	}
}

// parseBytes returns nil for null.
func parseBytes(r *reader, size int) []byte {
	if size != longMark {
		n := r.u16()
		if n == longMark {
			return nil
		}
		return r.bytes(n)
	}
	if r.u64() == plpNull {
		return nil
	}
	out := []byte{}
	for n := r.u32(); n > 0 && r.err == nil; n = r.u32() {
		out = append(out, r.bytes(n)...)
	}
	return out
}

func decodeShort(id byte, digits int, b []byte) (any, error) {
	if len(b) == 0 {
		return nil, nil //nolint:nilnil // that is what a null is
	}
	r := reader{rest: append(append([]byte{}, b...), make([]byte, 8)...)}
	switch id {
	case idBitN:
		return b[0], nil
	case idIntN:
		switch len(b) {
		case 1:
			return b[0], nil
		case 2:
			return int16(r.u16()), nil // #nosec G115 -- two's complement
		case 4:
			return int32(r.u32()), nil // #nosec G115 -- two's complement
		}
		return int64(r.u64()), nil // #nosec G115 -- two's complement
	case idFloatN:
		if len(b) == 4 {
			return math.Float32frombits(uint32(r.u32())), nil // #nosec G115 -- of four bytes
		}
		return math.Float64frombits(r.u64()), nil
	case idGUID:
		if len(b) != 16 {
			return nil, fmt.Errorf("UUID of %d bytes", len(b))
		}
		g := swapGUID(b)
		return fmt.Sprintf("%x-%x-%x-%x-%x", g[:4], g[4:6], g[6:8], g[8:10], g[10:]), nil
	}
	return decodeTemporal(id, digits, b)
}

func decodeTemporal(id byte, digits int, b []byte) (any, error) {
	if id == idDateTimeN {
		r := reader{rest: b}
		days, ticks := r.u32(), r.u32()
		at := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, int(int32(days))) // #nosec G115 -- two's complement
		return fmt.Sprintf("%s + %d/300 s", at.Format(time.DateOnly), ticks), r.err
	}
	at := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	if id != idDate {
		size := clockSize(digits)
		var ticks uint64
		for i := size - 1; i >= 0; i-- {
			ticks = ticks<<8 | uint64(b[i])
		}
		unit := time.Second
		for range digits {
			unit /= 10
		}
		at = at.Add(time.Duration(ticks) * unit) // #nosec G115 -- of a day
		b = b[size:]
	}
	if id == idTime {
		return at.Format("15:04:05.0000000"), nil
	}
	days := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	at = at.AddDate(0, 0, days)
	switch id {
	case idDate:
		return at.Format(time.DateOnly), nil
	case idDateTimeOffset:
		minutes := int(int16(uint16(b[3]) | uint16(b[4])<<8)) // #nosec G115 -- two's complement
		return at.In(time.FixedZone("", minutes*60)).Format("2006-01-02T15:04:05.0000000Z07:00"), nil
	}
	return at.Format("2006-01-02T15:04:05.0000000"), nil
}
