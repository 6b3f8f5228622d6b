package mongodb

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source/form"
)

// extended appends the values that only MongoDB has, as canonical Extended JSON.
func (w *writer) extended(dst []byte, e element) []byte {
	v := e.value
	switch e.kind {
	case kindNull, kindUndefined:
		return append(dst, "null"...)
	case kindMinKey:
		return append(dst, `{"$minKey":1}`...)
	case kindMaxKey:
		return append(dst, `{"$maxKey":1}`...)
	case kindTimestamp: // the counter comes first on the wire
		dst = strconv.AppendUint(append(dst, `{"$timestamp":{"t":`...), uint64(binary.LittleEndian.Uint32(v[4:])), 10)
		dst = strconv.AppendUint(append(dst, `,"i":`...), uint64(binary.LittleEndian.Uint32(v)), 10)
		return append(dst, "}}"...)
	case kindRegex:
		pattern, options, _ := bytes.Cut(v, []byte{0})
		dst = form.AppendString(append(dst, `{"$regularExpression":{"pattern":`...), pattern)
		dst = form.AppendString(append(dst, `,"options":`...), bytes.TrimSuffix(options, []byte{0}))
		return append(dst, "}}"...)
	case kindCode:
		return append(w.text(append(dst, `{"$code":`...), v), '}')
	case kindSymbol:
		return append(w.text(append(dst, `{"$symbol":`...), v), '}')
	case kindPointer:
		name, id := v[:len(v)-oidSize], v[len(v)-oidSize:]
		dst = w.text(append(dst, `{"$dbPointer":{"$ref":`...), name)
		dst = hex.AppendEncode(append(dst, `,"$id":{"$oid":"`...), id)
		return append(dst, `"}}}`...)
	case kindScoped:
		return w.scoped(dst, v)
	}
	return w.fail(dst, errMalformed)
}

// scoped appends code with the values of its variables, which are Extended JSON through and through.
func (w *writer) scoped(dst, v []byte) []byte {
	code := v[lengthSize:]
	size, ok := sizeOf(kindCode, code)
	if !ok || size >= len(code) {
		return w.fail(dst, errMalformed)
	}
	scope := bson.Raw(code[size:])
	if scope.Validate() != nil || len(scope) != int(binary.LittleEndian.Uint32(scope)) {
		return w.fail(dst, errMalformed)
	}
	if err := shallow(scope, 0); err != nil {
		return w.fail(dst, err)
	}
	text, err := bson.MarshalExtJSON(scope, true, false)
	if err != nil {
		return w.fail(dst, err)
	}
	dst = w.text(append(dst, `{"$code":`...), code[:size])
	dst = form.AppendJSON(append(dst, `,"$scope":`...), text)
	return append(dst, '}')
}

// shallow refuses documents that are nested so deeply that marshalling them would take all of the stack.
func shallow(doc []byte, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	in, err := members(doc)
	for err == nil && len(in) > 0 {
		var e element
		if e, in, err = next(in); err != nil {
			break
		}
		switch e.kind {
		case kindDocument, kindArray:
			err = shallow(e.value, depth+1)
		case kindScoped:
			code := e.value[lengthSize:]
			size, ok := sizeOf(kindCode, code)
			if !ok || size >= len(code) {
				return errMalformed
			}
			err = shallow(code[size:], depth+1)
		}
	}
	return err
}
