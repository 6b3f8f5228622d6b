package jobs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// requestHash is the SHA-256, in hex, of the canonical form of a request.
func requestHash(r Request) (string, error) {
	var b bytes.Buffer
	b.WriteString(`{"dataRequest":{"mappedFields":`)
	b.Write(r.MappedFields)
	if r.Filters != nil {
		b.WriteString(`,"filters":`)
		b.Write(r.Filters)
	}
	b.WriteString(`},"metadata":`)
	b.Write(r.Metadata)
	if r.Output != nil {
		b.WriteString(`,"output":`)
		b.Write(r.Output)
	}
	b.WriteByte('}')
	text, err := canonical(b.Bytes())
	if err != nil {
		return "", fmt.Errorf("hash request: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// canonical returns the JSON text in the form of RFC 8785 but for its numbers: these are decimals of any length, so
// that two requests that differ in the last of many digits stay different.
func canonical(text []byte) ([]byte, error) {
	var b bytes.Buffer
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	enc := jsontext.NewEncoder(&b)
	for {
		if dec.PeekKind() == '0' {
			number, err := dec.ReadValue()
			if err == nil {
				err = enc.WriteValue(decimal(number))
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		token, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = enc.WriteToken(token)
		}
		if err != nil {
			return nil, err
		}
	}
	v := jsontext.Value(b.Bytes())
	err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	return v, err
}

// decimal returns the one form that a number's equals share: its significant digits as an integer and a power of ten.
func decimal(number jsontext.Value) jsontext.Value {
	text, sign := string(number), ""
	if strings.HasPrefix(text, "-") {
		text, sign = text[1:], "-"
	}
	exponent := new(big.Int)
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		exponent.SetString(strings.TrimPrefix(text[i+1:], "+"), 10)
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	exponent.Sub(exponent, big.NewInt(int64(len(fraction))))
	digits := strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return jsontext.Value("0")
	}
	exponent.Add(exponent, big.NewInt(int64(len(digits)-len(significant))))
	if exponent.Sign() == 0 {
		return jsontext.Value(sign + significant)
	}
	return jsontext.Value(sign + significant + "e" + exponent.String())
}
