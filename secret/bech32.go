package secret

import "strings"

// identityPrefix is the human-readable part of an age X25519 identity.
const identityPrefix = "AGE-SECRET-KEY-"

const bech32Charset = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

// encodeIdentity returns the text form of an age identity with the given 32 bytes as its secret scalar.
func encodeIdentity(key []byte) string {
	return strings.ToUpper(bech32Encode(strings.ToLower(identityPrefix), regroup(key)))
}

// bech32Encode is the encoding of BIP-173 for a lower-case prefix and values of five bits.
func bech32Encode(prefix string, values []byte) string {
	var b strings.Builder
	b.WriteString(prefix)
	b.WriteByte('1')
	for _, v := range values {
		b.WriteByte(bech32Charset[v])
	}
	for _, v := range bech32Checksum(prefix, values) {
		b.WriteByte(bech32Charset[v])
	}
	return b.String()
}

// regroup turns bytes into groups of five bits, the last one filled with zeros.
func regroup(data []byte) []byte {
	out := make([]byte, 0, (len(data)*8+4)/5)
	acc, bits := uint32(0), 0
	for _, b := range data {
		acc = acc<<8 | uint32(b)
		bits += 8
		for bits >= 5 {
			bits -= 5
			out = append(out, byte(acc>>bits&31))
		}
	}
	if bits > 0 {
		out = append(out, byte(acc<<(5-bits)&31))
	}
	return out
}

func bech32Checksum(prefix string, values []byte) [6]byte {
	in := expandPrefix(prefix)
	in = append(in, values...)
	in = append(in, 0, 0, 0, 0, 0, 0)
	mod := bech32Polymod(in) ^ 1
	var sum [6]byte
	for i := range sum {
		sum[i] = byte(mod >> (5 * (5 - i)) & 31)
	}
	return sum
}

// expandPrefix mixes the prefix into the checksum: the high bits of each character, a zero, the low bits.
func expandPrefix(prefix string) []byte {
	out := make([]byte, 0, 2*len(prefix)+1)
	for i := range len(prefix) {
		out = append(out, prefix[i]>>5)
	}
	out = append(out, 0)
	for i := range len(prefix) {
		out = append(out, prefix[i]&31)
	}
	return out
}

func bech32Polymod(values []byte) uint32 {
	generator := [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3}
	sum := uint32(1)
	for _, v := range values {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ uint32(v)
		for i, g := range generator {
			if top>>i&1 == 1 {
				sum ^= g
			}
		}
	}
	return sum
}
