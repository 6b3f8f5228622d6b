package mongodb

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// kind is the type of a value, as BSON numbers it.
type kind byte

// The types of BSON.
const (
	kindDouble    kind = 0x01
	kindString    kind = 0x02
	kindDocument  kind = 0x03
	kindArray     kind = 0x04
	kindBinary    kind = 0x05
	kindUndefined kind = 0x06
	kindObjectID  kind = 0x07
	kindBool      kind = 0x08
	kindDate      kind = 0x09
	kindNull      kind = 0x0A
	kindRegex     kind = 0x0B
	kindPointer   kind = 0x0C
	kindCode      kind = 0x0D
	kindSymbol    kind = 0x0E
	kindScoped    kind = 0x0F
	kindInt32     kind = 0x10
	kindTimestamp kind = 0x11
	kindInt64     kind = 0x12
	kindDecimal   kind = 0x13
	kindMaxKey    kind = 0x7F
	kindMinKey    kind = 0xFF
)

var errMalformed = errors.New("malformed BSON")

const (
	lengthSize = 4 // of a document, string or binary
	oidSize    = 12
	uuidSize   = 16
)

// element is one member of a document. Its parts are the server's bytes.
type element struct {
	name  []byte
	value []byte
	kind  kind
}

// null reports whether the value is none.
func (e element) null() bool { return e.kind == kindNull || e.kind == kindUndefined || e.kind == 0 }

// members returns what is between the frame of a document that is exactly doc.
func members(doc []byte) ([]byte, error) {
	const least = lengthSize + 1
	if len(doc) < least || uint64(binary.LittleEndian.Uint32(doc)) != uint64(len(doc)) || doc[len(doc)-1] != 0 {
		return nil, errMalformed
	}
	return doc[lengthSize : len(doc)-1], nil
}

// next takes the first element off members, which must not be empty.
func next(in []byte) (e element, rest []byte, err error) {
	end := bytes.IndexByte(in[1:], 0)
	if end < 0 {
		return e, nil, errMalformed
	}
	e.kind, e.name = kind(in[0]), in[1:1+end]
	in = in[end+2:]
	size, ok := sizeOf(e.kind, in)
	if !ok || size < 0 || size > len(in) {
		return e, nil, errMalformed
	}
	e.value = in[:size]
	return e, in[size:], nil
}

// sizeOf returns how many bytes the value that b begins with takes. They may be more than there are.
func sizeOf(k kind, b []byte) (int, bool) {
	switch k {
	case kindUndefined, kindNull, kindMinKey, kindMaxKey:
		return 0, true
	case kindBool:
		return 1, true
	case kindInt32:
		return 4, true
	case kindDouble, kindDate, kindTimestamp, kindInt64:
		return 8, true
	case kindObjectID:
		return oidSize, true
	case kindDecimal:
		return 16, true
	case kindRegex:
		pattern := bytes.IndexByte(b, 0) + 1
		if pattern == 0 {
			return 0, false
		}
		options := bytes.IndexByte(b[pattern:], 0) + 1
		return pattern + options, options > 0
	}
	if len(b) < lengthSize {
		return 0, false
	}
	n := int(int32(binary.LittleEndian.Uint32(b))) // #nosec G115 -- the wire's sign
	if n < 0 {
		return 0, false
	}
	switch k {
	case kindDocument, kindArray, kindScoped:
		return n, n > lengthSize
	case kindString, kindCode, kindSymbol:
		return lengthSize + n, n > 0
	case kindPointer:
		return lengthSize + n + oidSize, n > 0
	case kindBinary:
		return lengthSize + 1 + n, true
	}
	return 0, false
}

// text returns the characters of a string value, which the wire ends with a NUL.
func text(v []byte) ([]byte, error) {
	if len(v) <= lengthSize || v[len(v)-1] != 0 {
		return nil, errMalformed
	}
	return v[lengthSize : len(v)-1], nil
}

// binaryOf takes a binary value apart. The old subtype has its length twice.
func binaryOf(v []byte) (subtype byte, data []byte) {
	const old = 0x02
	subtype, data = v[lengthSize], v[lengthSize+1:]
	if subtype == old && len(data) >= lengthSize && int64(binary.LittleEndian.Uint32(data)) == int64(len(data)-lengthSize) {
		data = data[lengthSize:]
	}
	return subtype, data
}

// isUUID reports whether a binary value of the subtype and length is a UUID.
func isUUID(subtype byte, data []byte) bool {
	return (subtype == subtypeUUID || subtype == subtypeOldUUID) && len(data) == uuidSize
}

const (
	subtypeOldUUID = 0x03
	subtypeUUID    = 0x04
)
