package tds

import (
	"errors"
	"iter"
)

// Column describes a column of a result. Types that can't be null are those of Type.NotNull.
type Column struct {
	Name string
	Type Type
}

// Error is an error as a server tells of it.
type Error struct {
	Number  int
	Class   int // severity; 0: 16
	Message string
}

// Answer is what a statement gets. The zero value is a statement that went well without a result. Rows come first, then
// what ends them: Stall, Cut, Error, or the good end.
type Answer struct {
	Columns []Column
	Rows    [][]any
	More    iter.Seq[[]any] // rows behind those, made one by one
	Compact bool            // rows with a bitmap of their nulls, as servers choose by themselves
	Error   *Error
	Stall   bool            // send nothing more until the client cancels or goes
	Deaf    bool            // with Stall: don't even answer to that
	Cut     bool            // close the connection
	Reached chan<- struct{} // closed when the rows are sent, if set; for one request only
}

// The bits of DONE's status.
const (
	doneMore  = 0x01
	doneError = 0x02
	doneCount = 0x10
	doneAttn  = 0x20

	commandSelect  = 0xc1
	flagNullable   = 0x01
	flagUnknown    = 0x08 // updatability
	oldLongParts   = 1
	defaultClass   = 16
	errorState     = 1
	attentionEvery = 64 // rows between looks for a request to cancel
)

func doneToken(token byte, status int, rows int64) []byte {
	out := u16([]byte{token}, status)
	command := 0
	if status&doneCount != 0 {
		command = commandSelect
	}
	return u64(u16(out, command), uint64(rows)) // #nosec G115 -- not negative
}

func (e *Error) token() []byte {
	class := e.Class
	if class == 0 {
		class = defaultClass
	}
	body := append(u32(nil, e.Number), errorState, byte(class)) // #nosec G115 -- to 25
	body = usText(body, e.Message)
	body = byteText(body, "scripted")
	body = byteText(body, "")
	body = u32(body, 1)
	return append(u16([]byte{tokenError}, len(body)), body...)
}

func metadata(columns []Column) []byte {
	out := u16([]byte{tokenColMetadata}, len(columns))
	for _, c := range columns {
		flags := flagUnknown
		if !c.Type.fixed() {
			flags |= flagNullable
		}
		out = u16(u32(out, 0), flags)
		out = append(out, c.Type.info()...)
		switch c.Type.id {
		case idText, idNText, idImage:
			out = usText(append(out, oldLongParts), "t")
		}
		out = byteText(out, c.Name)
	}
	return out
}

func (a *Answer) writeRow(m *message, row []any) error {
	if len(row) != len(a.Columns) {
		return errors.New("row and columns differ in number")
	}
	token := []byte{tokenRow}
	if a.Compact {
		nulls := make([]byte, (len(row)+7)/8)
		for i, v := range row {
			if v == nil {
				nulls[i/8] |= 1 << (i % 8)
			}
		}
		token = append([]byte{tokenNBCRow}, nulls...)
	}
	_, _ = m.Write(token)
	for i, v := range row {
		if a.Compact && v == nil {
			continue
		}
		if err := a.Columns[i].Type.write(m, v); err != nil {
			return err
		}
	}
	return nil
}
