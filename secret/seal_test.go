package secret_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fetcherhq/fetcher/secret"
)

var scope = secret.Scope{Tenant: "acme", Object: "0190", Field: "password"}

// fixedValue was made by an independent implementation of AES-256-GCM under the documented layout.
func fixedValue(t testing.TB) []byte {
	t.Helper()
	sealed, err := hex.DecodeString("0100000001000102030405060708090a0bb4828f10c24c9546128dbcb2d1a7a126c4426ace8d25")
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestOpenFixedValue(t *testing.T) {
	t.Parallel()
	plain, err := ring(t, key(2, 100, 48), key(1, 0, 32)).Open(scope, fixedValue(t))
	if err != nil || string(plain) != "s3cret" {
		t.Fatalf("opened %q, %v", plain, err)
	}
}

func TestSealOpensOnlyInItsScope(t *testing.T) {
	t.Parallel()
	r := ring(t, key(1, 0, 32))
	part := rapid.StringN(1, 12, -1)
	scopes := rapid.Custom(func(t *rapid.T) secret.Scope {
		return secret.Scope{Tenant: part.Draw(t, "tenant"), Object: part.Draw(t, "object"), Field: part.Draw(t, "field")}
	})
	rapid.Check(t, func(t *rapid.T) {
		s, other := scopes.Draw(t, "scope"), scopes.Draw(t, "other")
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		sealed, err := r.Seal(s, plain)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Open(s, sealed)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("opened %q, %v", got, err)
		}
		if other == s {
			return
		}
		if _, err := r.Open(other, sealed); !errors.Is(err, secret.ErrTampered) {
			t.Fatalf("opened in scope %v: %v", other, err)
		}
	})
}

// Moving a character from one part of the scope to the next must not give the same additional data.
func TestScopePartsDoNotRunTogether(t *testing.T) {
	t.Parallel()
	r := ring(t, key(1, 0, 32))
	sealed, err := r.Seal(secret.Scope{Tenant: "ab", Object: "c", Field: "d"}, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []secret.Scope{
		{Tenant: "a", Object: "bc", Field: "d"}, {Tenant: "ab", Object: "cd", Field: ""}, {Tenant: "", Object: "abc", Field: "d"},
		{Tenant: "abc", Object: "", Field: "d"}, {Tenant: "ab", Object: "", Field: "cd"},
	} {
		if _, err := r.Open(s, sealed); !errors.Is(err, secret.ErrTampered) {
			t.Errorf("opened in scope %v: %v", s, err)
		}
	}
}

func TestSealIsFresh(t *testing.T) {
	t.Parallel()
	r := ring(t, key(1, 0, 32))
	seen := map[string]bool{}
	for range 1000 {
		sealed, err := r.Seal(scope, []byte("same"))
		if err != nil {
			t.Fatal(err)
		}
		nonce := string(sealed[5:17])
		if seen[nonce] {
			t.Fatal("a nonce came twice")
		}
		seen[nonce] = true
	}
}

func TestSealRefusesIncompleteScope(t *testing.T) {
	t.Parallel()
	r := ring(t, key(1, 0, 32))
	for _, s := range []secret.Scope{{}, {Object: "o", Field: "f"}, {Tenant: "t", Field: "f"}, {Tenant: "t", Object: "o"}} {
		if _, err := r.Seal(s, []byte("x")); err == nil {
			t.Errorf("sealed under %v", s)
		}
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	old := ring(t, key(1, 0, 32))
	sealed, err := old.Seal(scope, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	both := ring(t, key(2, 50, 32), key(1, 0, 32))
	plain, err := both.Open(scope, sealed)
	if err != nil || string(plain) != "x" {
		t.Errorf("retired key: %q, %v", plain, err)
	}
	fresh, err := both.Seal(scope, []byte("y"))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := secret.SealedVersion(fresh); err != nil || v != 2 {
		t.Errorf("sealed under version %d, %v", v, err)
	}
	if v, err := secret.SealedVersion(sealed); err != nil || v != 1 {
		t.Errorf("old value names version %d, %v", v, err)
	}
	if _, err := old.Open(scope, fresh); !errors.Is(err, secret.ErrUnknownKey) || !strings.Contains(err.Error(), "2") {
		t.Errorf("missing key: %v", err)
	}
	if _, err := ring(t, key(1, 1, 32)).Open(scope, sealed); !errors.Is(err, secret.ErrTampered) {
		t.Errorf("other key of the same version: %v", err)
	}
}

func TestEveryFlippedBitIsRefused(t *testing.T) {
	t.Parallel()
	r := ring(t, key(1, 0, 32), key(3, 3, 32)) // 1 and 3 differ in one bit: the version itself is authentic too
	sealed, err := r.Seal(scope, []byte("attack at dawn"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(sealed) * 8 {
		bad := bytes.Clone(sealed)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := r.Open(scope, bad); !errors.Is(err, secret.ErrTampered) && !errors.Is(err, secret.ErrUnknownKey) {
			t.Errorf("bit %d: %v", i, err)
		}
	}
	for n := range sealed {
		if _, err := r.Open(scope, sealed[:n]); !errors.Is(err, secret.ErrTampered) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	if _, err := r.Open(scope, append(bytes.Clone(sealed), 0)); !errors.Is(err, secret.ErrTampered) {
		t.Errorf("one byte more: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	r := ring(f, key(1, 0, 32), key(3, 3, 32))
	sealed := fixedValue(f) // the same in every process of the fuzzer
	f.Add(sealed)
	f.Add([]byte{})
	f.Add(sealed[:20])
	f.Fuzz(func(t *testing.T, data []byte) {
		plain, err := r.Open(scope, data)
		switch {
		case err == nil && !bytes.Equal(data, sealed):
			t.Fatalf("opened %x to %q", data, plain)
		case err != nil && !errors.Is(err, secret.ErrTampered) && !errors.Is(err, secret.ErrUnknownKey):
			t.Fatalf("unexpected error %v", err)
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	r := ring(b, key(1, 0, 32))
	sealed, err := r.Seal(scope, []byte("attack at dawn"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := r.Open(scope, sealed); err != nil {
			b.Fatal(err)
		}
	}
}
