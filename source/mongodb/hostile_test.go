package mongodb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/iotest"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source"
)

// said is a connection to somebody who says this.
type said struct {
	net.Conn

	io.Reader
}

func (s said) Read(b []byte) (int, error) { return s.Reader.Read(b) }

// TestLongMessages lets messages of up to the longest size through, however they come in pieces, and refuses a longer one
// when its length is known, before the driver makes room for it.
func TestLongMessages(t *testing.T) {
	t.Parallel()
	message := func(announced uint32, size int) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, announced), make([]byte, size-lengthSize)...)
	}
	good := bytes.Join([][]byte{message(4, 4), message(100, 100), message(5, 5), message(70_000, 70_000), message(maxMessage, 10)}, nil)
	for name, pieces := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader,
	} {
		got, err := io.ReadAll(&framedConn{Conn: said{Reader: pieces(bytes.NewReader(good))}})
		if err != nil || !bytes.Equal(got, good) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(good), err)
		}
		for _, announced := range []uint32{0, 3, maxMessage + 1, 1 << 31, 1<<32 - 1} {
			say := append(message(100, 100), message(announced, 20)...)
			_, err := io.ReadAll(&framedConn{Conn: said{Reader: pieces(bytes.NewReader(say))}})
			var e *source.Error
			if !errors.As(err, &e) || e.Category != source.CategoryUnsupported {
				t.Errorf("%s, %d: %v", name, announced, err)
			}
		}
	}
}

// TestDeepScope shows the variables of code, and refuses those that are nested without end: they would take the stack.
func TestDeepScope(t *testing.T) {
	t.Parallel()
	for depth, want := range map[int]error{3: nil, maxDepth: nil, maxDepth + 1: errDepth, 200_000: errDepth} {
		scope := []byte{5, 0, 0, 0, 0}
		const frame = 4 + 1 + 2 + 1
		deep := make([]byte, 0, depth*frame+len(scope))
		for left := depth; left > 0; left-- {
			size := left*frame + len(scope)
			deep = append(binary.LittleEndian.AppendUint32(deep, uint32(size)), byte(kindDocument), 'a', 0)
		}
		deep = append(append(deep, scope...), make([]byte, depth)...)
		code := []byte{2, 0, 0, 0, 'f', 0}
		value := append(binary.LittleEndian.AppendUint32(nil, uint32(4+len(code)+len(deep))), append(code, deep...)...)
		w := writer{}
		got := w.scoped(nil, value)
		if !errors.Is(w.err, want) || (want == nil) != (w.err == nil) {
			t.Errorf("depth %d: %v", depth, w.err)
		}
		if depth == 3 && string(got) != `{"$code":"f","$scope":{"a":{"a":{"a":{}}}}}` {
			t.Errorf("got %s", got)
		}
		if bson.Raw(deep).Validate() != nil {
			t.Errorf("depth %d: the document is malformed", depth)
		}
	}
}
