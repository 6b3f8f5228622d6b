package auth

import (
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// The path of nearly every request: a token that was verified and an operation that was authorised before.
func BenchmarkCached(b *testing.B) {
	good := rsaSigner("k1", 0)
	id := newIdentity(b, good)
	a, _ := id.open(b)
	loaded(b, a)
	header := bearer(good.sign(b, userClaims(), nil))
	once := func() {
		p, err := a.Authenticate(b.Context(), header)
		if err == nil {
			err = a.Authorize(b.Context(), p, "connections", "get")
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	once()
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			once()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				once()
			}
		})
	})
	b.Run("authenticate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = a.Authenticate(b.Context(), header)
		}
	})
	p := principal(b, a, good, userClaims())
	b.Run("authorize", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = a.Authorize(b.Context(), p, "connections", "get")
		}
	})
}

func BenchmarkByClaims(b *testing.B) {
	good := rsaSigner("k1", 0)
	id := newIdentity(b, good)
	a, _ := id.open(b, func(o *Options) { o.Mode = ModeClaims })
	loaded(b, a)
	claims := with(userClaims(), jwt.MapClaims{"scope": "openid fetcher:fetcher:get fetcher:connections:*"})
	p := principal(b, a, good, claims)
	b.ReportAllocs()
	for b.Loop() {
		_ = a.Authorize(b.Context(), p, "connections", "get")
	}
}

// What the cache of verified tokens saves.
func BenchmarkUncached(b *testing.B) {
	signers := []signer{rsaSigner("k1", 0), edSigner(b, "k2")}
	id := newIdentity(b, signers...)
	a, _ := id.open(b)
	loaded(b, a)
	for _, s := range signers {
		token := s.sign(b, userClaims(), nil)
		b.Run(s.alg, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.verify(b.Context(), token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParseBearer(b *testing.B) {
	header := bearer(rsaSigner("k1", 0).sign(b, userClaims(), nil))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = ParseBearer(header)
	}
}
