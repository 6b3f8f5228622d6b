package tds

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// write sends a value of a row.
func (t Type) write(w io.Writer, v any) error {
	if v == nil {
		return t.writeNull(w)
	}
	if t.id == idVariant {
		return writeVariant(w, v)
	}
	b, err := t.encode(v)
	if err != nil {
		return err
	}
	switch t.id {
	case idText, idNText, idImage:
		return t.writeOldLong(w, b)
	case idChar, idVarChar, idNChar, idNVarChar, idBinary, idVarBinary, idXML, idUDT:
		if t.long {
			return writeChunks(w, b)
		}
		if len(b) > t.size {
			return fmt.Errorf("value of %d bytes for %d", len(b), t.size)
		}
		_, err = w.Write(append(u16(nil, len(b)), b...))
		return err
	}
	if t.fixed() {
		_, err = w.Write(b)
		return err
	}
	_, err = w.Write(append([]byte{byte(len(b))}, b...)) // #nosec G115 -- to 17
	return err
}

func (t Type) writeNull(w io.Writer) error {
	b := []byte{0}
	switch t.id {
	case idVariant:
		b = u32(nil, 0)
	case idChar, idVarChar, idNChar, idNVarChar, idBinary, idVarBinary, idXML, idUDT:
		b = u16(nil, longMark)
		if t.long {
			b = u64(nil, plpNull)
		}
	default:
		if t.fixed() {
			return fmt.Errorf("null of type %#x, which has none", t.id)
		}
	}
	_, err := w.Write(b)
	return err
}

// writeChunks sends a value of any length.
func writeChunks(w io.Writer, b []byte) error {
	if _, err := w.Write(u64(nil, uint64(len(b)))); err != nil {
		return err
	}
	for len(b) > 0 {
		n := min(len(b), pieceSize)
		if _, err := w.Write(u32(nil, n)); err != nil {
			return err
		}
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	_, err := w.Write(u32(nil, 0))
	return err
}

// writeOldLong sends a value of the types that varchar(max) and its like replace.
func (t Type) writeOldLong(w io.Writer, b []byte) error {
	head := append([]byte{16}, make([]byte, 16+8)...) // text pointer, timestamp
	if _, err := w.Write(u32(head, len(b))); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}

func writeVariant(w io.Writer, v any) error {
	inner, ok := v.(VariantValue)
	if !ok {
		return fmt.Errorf("%T for a variant", v)
	}
	t := inner.Type.NotNull()
	b, err := t.encode(inner.Value)
	if err != nil {
		return err
	}
	var properties []byte
	switch t.id {
	case idDecimalN, idNumericN:
		properties = []byte{t.precision, t.scale}
	case idTime, idDateTime2, idDateTimeOffset:
		properties = []byte{t.scale}
	case idBinary, idVarBinary:
		properties = u16(nil, t.size)
	case idChar, idVarChar, idNChar, idNVarChar:
		properties = u16(t.collation[:], t.size)
	}
	out := append(u32(nil, 2+len(properties)+len(b)), t.id, byte(len(properties))) // #nosec G115 -- to 7
	_, err = w.Write(append(append(out, properties...), b...))
	return err
}

// encode returns the bytes of a value without its length.
func (t Type) encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return v, nil
	case []uint16:
		return unitBytes(v), nil
	case bool:
		return []byte{byte(boolInt(v))}, nil
	case int:
		return t.encodeInt(int64(v))
	case int64:
		return t.encodeInt(v)
	case float64:
		if t.size == 4 {
			return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v))), nil
		}
		return u64(nil, math.Float64bits(v)), nil
	case string:
		return t.encodeText(v)
	}
	return nil, fmt.Errorf("%T for type %#x", v, t.id)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (t Type) encodeInt(n int64) ([]byte, error) {
	if id := t.nullable().id; id != idIntN {
		return nil, fmt.Errorf("an integer for type %#x", t.id)
	}
	return u64(nil, uint64(n))[:t.size], nil // #nosec G115 -- two's complement
}

func (t Type) encodeText(s string) ([]byte, error) {
	switch t.nullable().id {
	case idNChar, idNVarChar, idNText, idXML:
		return utf16Bytes(s), nil
	case idChar, idVarChar, idText:
		return []byte(s), nil
	case idGUID:
		return encodeGUID(s)
	case idDecimalN, idNumericN:
		return t.encodeDecimal(s)
	case idMoneyN:
		return t.encodeMoney(s)
	case idDate, idTime, idDateTime2, idDateTimeOffset, idDateTimeN:
		return t.encodeTemporal(s)
	}
	return nil, fmt.Errorf("a string for type %#x", t.id)
}

// encodeGUID writes the first three groups the other way round, as servers do.
func encodeGUID(s string) ([]byte, error) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != 16 {
		return nil, fmt.Errorf("%q is no UUID", s)
	}
	return swapGUID(b), nil
}

func swapGUID(b []byte) []byte {
	return append([]byte{b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6]}, b[8:]...)
}

// scaled returns the number without its point, which the type has somewhere.
func (t Type) scaled(s string) (*big.Int, error) {
	whole, fraction, _ := strings.Cut(s, ".")
	if len(fraction) > int(t.scale) {
		return nil, fmt.Errorf("%q has more than %d digits behind the point", s, t.scale)
	}
	n, ok := new(big.Int).SetString(whole+fraction+strings.Repeat("0", int(t.scale)-len(fraction)), 10)
	if !ok {
		return nil, fmt.Errorf("%q is no number", s)
	}
	return n, nil
}

func (t Type) encodeDecimal(s string) ([]byte, error) {
	n, err := t.scaled(s)
	if err != nil {
		return nil, err
	}
	out := make([]byte, t.size)
	out[0] = byte(boolInt(n.Sign() >= 0))
	for i, digit := range n.Bytes() {
		at := len(n.Bytes()) - i
		if at >= len(out) {
			return nil, fmt.Errorf("%q is too large", s)
		}
		out[at] = digit
	}
	return out, nil
}

func (t Type) encodeMoney(s string) ([]byte, error) {
	n, err := t.scaled(s)
	if err != nil || !n.IsInt64() {
		return nil, fmt.Errorf("%q is no money: %w", s, err)
	}
	b := u64(nil, uint64(n.Int64())) // #nosec G115 -- two's complement
	if t.size == 4 {
		return b[:4], nil
	}
	return append(b[4:8:8], b[:4]...), nil // the more significant half comes first
}

// encodeTemporal encodes what is written like 2024-01-31T10:00:00.5+02:00, or the part of it that the type has.
func (t Type) encodeTemporal(s string) ([]byte, error) {
	layouts := map[byte]string{idDate: time.DateOnly, idTime: "15:04:05", idDateTimeOffset: time.RFC3339}
	layout, ok := layouts[t.id]
	if !ok {
		layout = "2006-01-02T15:04:05"
	}
	at, err := time.Parse(layout, s)
	if err != nil {
		return nil, err
	}
	if t.nullable().id == idDateTimeN {
		return t.encodeOldTime(at), nil
	}
	_, offset := at.Zone()
	at = at.UTC()
	var out []byte
	if t.id != idDate {
		out = u64(nil, t.ticks(at))[:clockSize(int(t.scale))]
	}
	if t.id != idTime {
		out = append(out, u32(nil, daysSince(1, at))[:3]...)
	}
	if t.id == idDateTimeOffset {
		out = u16(out, offset/60)
	}
	return out, nil
}

// ticks counts the units of the type since midnight.
func (t Type) ticks(at time.Time) uint64 {
	since := at.Sub(at.Truncate(24 * time.Hour))
	unit := time.Second
	for range t.scale {
		unit /= 10
	}
	return uint64(since / unit) // #nosec G115 -- not negative
}

// daysSince counts days from the first of January of a year.
func daysSince(year int, at time.Time) int {
	const day = 24 * 60 * 60
	first := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	seconds := at.Unix() - first.Unix()
	if seconds < 0 {
		seconds -= day - 1
	}
	return int(seconds / day)
}

// encodeOldTime counts minutes, or three hundredths of a second, since midnight.
func (t Type) encodeOldTime(at time.Time) []byte {
	since := at.Sub(at.Truncate(24 * time.Hour))
	days := daysSince(1900, at)
	if t.size == 4 {
		return u16(u16(nil, days), int(since/time.Minute))
	}
	ticks := (since.Milliseconds()*3 + 5) / 10
	return u32(u32(nil, days), int(ticks))
}

// show writes a decoded value as text for tests to compare.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case []byte:
		return "0x" + hex.EncodeToString(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	}
	return fmt.Sprint(v)
}
