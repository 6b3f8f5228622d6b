package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fetcherhq/fetcher/secret"
)

// key returns n bytes counting up from first, as a key of the version.
func key(version int, first byte, n int) secret.Key {
	b := make([]byte, n)
	for i := range b {
		b[i] = first + byte(i)
	}
	return secret.Key{Version: version, Bytes: b}
}

func ring(t testing.TB, current secret.Key, retired ...secret.Key) *secret.Keyring {
	t.Helper()
	r, err := secret.NewKeyring(current, retired...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The vectors were computed by an independent implementation of RFC 5869 and BIP-173. They must never change: data
// at rest and signatures in the hands of tenants depend on them.
func TestDerivationIsFixed(t *testing.T) {
	t.Parallel()
	r := ring(t, key(2, 100, 48), key(1, 0, 32))
	for _, c := range []struct {
		version                              int
		tenant, internal, external, identity string
	}{
		{
			1, "acme",
			"19be0cb486e545ab985980b0b21530ec7b8b618b983885822dc2bdefa72d7b95",
			"c234029c2aea1ecf71190b40f4474a78763419b5b97cf289c7b3a8c841d1d809",
			"AGE-SECRET-KEY-1T82HXJ9VCGC72U0PHEYJ8257H8SKGLDK25ZP6KJY3Y56HWEAJF2S6AFPDJ",
		},
		{
			1, "globex",
			"3d0f8ccded4fdffed0f96cb790ec4b0b6114e735445a35840b051a71c8b156b6",
			"c9b14f78d84fc261c08451eee66384e3feb3895a87bfefa3f99fa361aff6dfae",
			"AGE-SECRET-KEY-16P0XYPMNSKTHEF33Q9ZJY0H9HJLESACF7CZA9ZUEFHRNTSNP0SQSM0URNY",
		},
		{
			2, "acme",
			"1fc5c3811c4edf05721598e8c3c79134fd38f0e99ffc7f024ee3676a7f563189",
			"9caca1f182128d0236bbdac0a0ea27b3714fc1d812bbce56c52e5d84c9a08de8",
			"AGE-SECRET-KEY-1EAH9VUGLGN9Q57ZMNCCF7GDT7MGH2QZTSPK5623ZE45LV3FSLNKQ77ZHPN",
		},
		{
			2, "globex",
			"008c97d9c53581ff52ae05a3b62fab46a7759621daae06d2e6b5e1f8d480312b",
			"40dd2567ccb8b7a7771b5b98ab2c9797832f15b1863c568eae68787a0c958c0c",
			"AGE-SECRET-KEY-1V6CSG980JC7N4LDKSEJN457QM9RKX4GE37ATDNYHNHTVQPGWW8ESMQUPQF",
		},
	} {
		internal, err := r.InternalHMACKey(c.version, c.tenant)
		if err != nil {
			t.Fatal(err)
		}
		external, err := r.ExternalHMACKey(c.version, c.tenant)
		if err != nil {
			t.Fatal(err)
		}
		identity, err := r.ResultIdentity(c.version, c.tenant)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{hex.EncodeToString(internal), hex.EncodeToString(external), identity.String()}
		if diff := cmp.Diff([]string{c.internal, c.external, c.identity}, got); diff != "" {
			t.Errorf("version %d, tenant %s (-want +got):\n%s", c.version, c.tenant, diff)
		}
	}
}

func TestResultIdentityEncryptsAndDecrypts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		master := rapid.SliceOfN(rapid.Byte(), secret.MinKeyBytes, 64).Draw(t, "master")
		tenant := rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_-]{0,20}`).Draw(t, "tenant")
		r, err := secret.NewKeyring(secret.Key{Version: 1, Bytes: master})
		if err != nil {
			t.Fatal(err)
		}
		id, err := r.ResultIdentity(1, tenant)
		if err != nil {
			t.Fatal(err)
		}
		var box bytes.Buffer
		w, err := age.Encrypt(&box, id.Recipient())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.WriteString(w, tenant); err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := r.ResultIdentity(1, tenant)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := age.Decrypt(&box, again)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(plain); err != nil || string(got) != tenant {
			t.Fatalf("decrypted %q, %v", got, err)
		}
	})
}

func TestNewKeyringRefuses(t *testing.T) {
	t.Parallel()
	good := key(1, 0, 32)
	for name, keys := range map[string][]secret.Key{
		"short":           {key(1, 0, 31)},
		"empty":           {{}},
		"version zero":    {key(0, 0, 32)},
		"negative":        {key(-1, 0, 32)},
		"too large":       {key(1<<32, 0, 32)},
		"same version":    {good, key(1, 9, 32)},
		"retired short":   {good, key(2, 0, 16)},
		"retired version": {good, key(0, 0, 32)},
	} {
		if _, err := secret.NewKeyring(keys[0], keys[1:]...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestKeyringKeepsItsOwnCopy(t *testing.T) {
	t.Parallel()
	k := key(1, 0, 32)
	r := ring(t, k)
	before, err := r.ExternalHMACKey(1, "acme")
	if err != nil {
		t.Fatal(err)
	}
	clear(k.Bytes)
	after, err := r.ExternalHMACKey(1, "acme")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the ring shares its caller's bytes")
	}
}

func TestUnknownVersionAndTenant(t *testing.T) {
	t.Parallel()
	r := ring(t, key(3, 0, 32), key(1, 5, 32))
	if diff := cmp.Diff([]int{1, 3}, r.Versions()); diff != "" {
		t.Error(diff)
	}
	if r.CurrentVersion() != 3 {
		t.Errorf("current version %d", r.CurrentVersion())
	}
	for name, derive := range map[string]func(int, string) error{
		"internal": func(v int, id string) error { _, err := r.InternalHMACKey(v, id); return err },
		"external": func(v int, id string) error { _, err := r.ExternalHMACKey(v, id); return err },
		"identity": func(v int, id string) error { _, err := r.ResultIdentity(v, id); return err },
	} {
		if err := derive(2, "acme"); !errors.Is(err, secret.ErrUnknownKey) || !strings.Contains(err.Error(), "2") {
			t.Errorf("%s: unknown version gives %v", name, err)
		}
		if err := derive(3, ""); err == nil {
			t.Errorf("%s: no tenant accepted", name)
		}
	}
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	raw := key(1, 200, 33).Bytes
	text := base64.StdEncoding.EncodeToString(append(raw, 1)) // 34 bytes: two signs of padding
	for _, s := range []string{text, strings.TrimRight(text, "="), " " + text + "\n"} {
		k, err := secret.ParseKey(4, s)
		if err != nil {
			t.Errorf("%d characters: %v", len(s), err)
			continue
		}
		if k.Version != 4 || !bytes.Equal(k.Bytes, append(raw, 1)) {
			t.Error("parsed to something else")
		}
	}
	short := base64.StdEncoding.EncodeToString(raw[:31])
	for name, s := range map[string]string{"empty": "", "short": short, "not base64": "pass-word!" + text, "hex dash": "zz-zz" + text} {
		_, err := secret.ParseKey(4, s)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if s != "" && strings.Contains(err.Error(), s) {
			t.Errorf("%s: the error quotes the key", name)
		}
	}
	if _, err := secret.ParseKey(0, text); err == nil {
		t.Error("version 0 accepted")
	}
}

func TestGenerateKey(t *testing.T) {
	t.Parallel()
	a, b := secret.GenerateKey(), secret.GenerateKey()
	if a == b {
		t.Fatal("two generated keys are equal")
	}
	k, err := secret.ParseKey(1, a)
	if err != nil {
		t.Fatal(err)
	}
	if len(k.Bytes) != 32 {
		t.Errorf("%d bytes", len(k.Bytes))
	}
}

func TestKeysNeverPrint(t *testing.T) {
	t.Parallel()
	k := secret.Key{Version: 7, Bytes: bytes.Repeat([]byte("canary!!"), 4)}
	r := ring(t, k)
	var b strings.Builder
	log := slog.New(slog.NewJSONHandler(&b, nil))
	log.Info("x", "key", k, "ring", r, "pointer", &k, "group", slog.GroupValue(slog.Any("k", k)))
	text := slog.New(slog.NewTextHandler(&b, nil))
	text.Info("x", "key", k, "ring", r, "pointer", &k)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%c", "%U"} {
		fmt.Fprintf(&b, verb+verb+verb+verb, k, &k, r, struct {
			K secret.Key
			R *secret.Keyring
		}{k, r})
	}
	for _, v := range []any{k, &k, r, map[string]any{"k": k, "r": r}, []secret.Key{k}} {
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(j)
	}
	out := b.String()
	if !strings.Contains(out, "key 7 [secret]") {
		t.Error("the printed form does not name the key")
	}
	canary := []byte("canary!!")
	for _, form := range []string{
		"canary", hex.EncodeToString(canary), strings.ToUpper(hex.EncodeToString(canary)), "99 97 110", "0x63, 0x61",
		base64.StdEncoding.EncodeToString(canary[:6]), "U+0063", "143 141 156", "1100011 1100001",
	} {
		if strings.Contains(out, form) {
			t.Errorf("output holds the key as %s:\n%s", form, out)
		}
	}
}
