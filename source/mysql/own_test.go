package mysql

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answers is a session whose server prepares a statement and answers it with so many columns and these rows.
func answers(columns int, rows ...[]byte) *session {
	prepared := [][]byte{{headerOK, 1, 0, 0, 0, byte(columns), 0, 0, 0, 0, 0, 0}}
	executed := [][]byte{{byte(columns)}}
	for range columns {
		description := []byte{0, 0, 0, 0, 0, 0, 12, 45, 0, 0, 0, 0, 0, wireVarString, 0, 0, 0}
		prepared, executed = append(prepared, description), append(executed, description)
	}
	executed = append(append(executed, rows...), []byte{headerEnd, 0, 0, 0, 0})
	say := append(packets(prepared...), packets(executed...)...)
	w := &wire{conn: &script{say: bytes.NewReader(say), size: 4096}, buf: make([]byte, bufferSize)}
	return &session{wire: w, link: &link{}, end: func() {}}
}

// TestOwnStatements holds every row of a catalogue query, such as the labels of an ENUM that are many, and refuses an
// answer that has not the columns it was asked for.
func TestOwnStatements(t *testing.T) {
	t.Parallel()
	labels := "enum('" + strings.Repeat("x", 3*bufferSize) + "')"
	s := answers(2, binaryRow([]byte("small"), []byte("1")), binaryRow([]byte("large"), []byte(labels)), binaryRow(nil, []byte("2")))
	var got [][2]string
	err := s.query(context.Background(), "list", "SELECT", nil, 2, func(row [][]byte) {
		got = append(got, [2]string{string(row[0]), string(row[1])})
	})
	if diff := cmp.Diff([][2]string{{"small", "1"}, {"large", labels}, {"", "2"}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for name, s := range map[string]*session{
		"a column less":     answers(1, binaryRow([]byte("a"))),
		"a column more":     answers(3, binaryRow([]byte("a"), []byte("b"), []byte("c"))),
		"more than packets": answers(2, binaryRow([]byte("a"), make([]byte, maxPacket))),
	} {
		err := s.query(context.Background(), "list", "SELECT", nil, 2, func(row [][]byte) {
			t.Errorf("%s: visited %d values", name, len(row))
		})
		if !errors.Is(err, errProtocol) {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
