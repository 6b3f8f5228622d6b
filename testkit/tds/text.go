package tds

import (
	"encoding/binary"
	"unicode/utf16"
)

// utf16Bytes returns s as the wire has it.
func utf16Bytes(s string) []byte { return unitBytes(utf16.Encode([]rune(s))) }

func unitBytes(units []uint16) []byte {
	out := make([]byte, 0, 2*len(units))
	for _, u := range units {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return out
}

func utf16Text(b []byte) string {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return string(utf16.Decode(units))
}
