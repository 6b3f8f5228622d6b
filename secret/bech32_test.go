package secret

import (
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The valid strings of BIP-173, in lower case: taking one apart and encoding its data again must give it back.
func TestBech32Vectors(t *testing.T) {
	t.Parallel()
	for _, want := range []string{
		"a12uel5l",
		"an83characterlonghumanreadablepartthatcontainsthenumber1andtheexcludedcharactersbio1tt5tgs",
		"abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw",
		"11qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqc8247j",
		"split1checkupstagehandshakeupstreamerranterredcaperred2y9e3w",
		"?1ezyfcl",
	} {
		sep := strings.LastIndexByte(want, '1')
		values := make([]byte, 0, len(want))
		for _, c := range want[sep+1 : len(want)-6] {
			values = append(values, byte(strings.IndexRune(bech32Charset, c)))
		}
		if diff := cmp.Diff(want, bech32Encode(want[:sep], values)); diff != "" {
			t.Error(diff)
		}
	}
}

// The segwit addresses of BIP-173 and their programs check the regrouping of bytes.
func TestRegroupVectors(t *testing.T) {
	t.Parallel()
	program := []byte{
		0x75, 0x1e, 0x76, 0xe8, 0x19, 0x91, 0x96, 0xd4, 0x54, 0x94,
		0x1c, 0x45, 0xd1, 0xb3, 0xa3, 0x23, 0xf1, 0x43, 0x3b, 0xd6,
	}
	got := bech32Encode("bc", append([]byte{0}, regroup(program)...))
	if diff := cmp.Diff("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", got); diff != "" {
		t.Error(diff)
	}
}

// Whatever the 32 bytes are, age reads the identity and prints it the same.
func TestIdentityIsReadByAge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := encodeIdentity(rapid.SliceOfN(rapid.Byte(), derivedBytes, derivedBytes).Draw(t, "key"))
		id, err := age.ParseX25519Identity(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, id.String()); diff != "" {
			t.Fatal(diff)
		}
	})
}
