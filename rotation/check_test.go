package rotation_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/fetcherhq/fetcher/rotation"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// A version keeps the key that it was first used with, until nothing is sealed under it.
func TestCheckKeys(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	other := func(version int, retired ...secret.Key) *secret.Keyring {
		return must(secret.NewKeyring(secret.Key{Version: version, Bytes: bytes.Repeat([]byte{99}, 32)}, retired...))
	}
	first := secret.Key{Version: 1, Bytes: bytes.Repeat([]byte{1}, 32)} // as ring has it
	for _, step := range []struct {
		name string
		keys *secret.Keyring
		want *rotation.WrongKeyError
	}{
		{"the first", ring(1), nil},
		{"again", ring(1), nil},
		{"another key", other(1), &rotation.WrongKeyError{Version: 1, Current: true}},
		{"another version, without the first", ring(2), nil},
		{"another version, with the first", ring(2, 1), nil},
		{"another key for the first, retired", must(secret.NewKeyring(secret.Key{Version: 2, Bytes: bytes.Repeat([]byte{2}, 32)}, secret.Key{Version: 1, Bytes: bytes.Repeat([]byte{99}, 32)})), &rotation.WrongKeyError{Version: 1}},
		{"another key for the second", other(2, first), &rotation.WrongKeyError{Version: 2, Current: true}},
		{"that key under a version of its own", other(3, first), nil},
	} {
		err := rotation.CheckKeys(t.Context(), p.control, step.keys)
		var wrong *rotation.WrongKeyError
		if errors.As(err, &wrong) != (step.want != nil) || wrong != nil && *wrong != *step.want || wrong == nil && err != nil {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
	if err := p.control.ForgetKeyVersions(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := rotation.CheckKeys(t.Context(), p.control, other(1)); err != nil {
		t.Errorf("a version that is free again: %v", err)
	}
}

// Where a program from before left nothing to check by, the addresses of tenants tell.
func TestCheckKeysByAddresses(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	row := control.Tenant{ID: acme, DSNSealed: must(tenant.SealDSN(ring(1), acme, "postgres://u:p@127.0.0.1:1/d"))}
	if err := p.control.CreateTenant(t.Context(), &row); err != nil {
		t.Fatal(err)
	}
	if err := p.control.UseKeyVersion(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	other := must(secret.NewKeyring(secret.Key{Version: 1, Bytes: bytes.Repeat([]byte{99}, 32)}))
	if _, ok := errors.AsType[*rotation.WrongKeyError](rotation.CheckKeys(t.Context(), p.control, other)); !ok {
		t.Error("another key than the addresses are sealed under is taken")
	}
	for range 2 {
		if err := rotation.CheckKeys(t.Context(), p.control, ring(1)); err != nil {
			t.Error(err)
		}
	}
	if _, ok := errors.AsType[*rotation.WrongKeyError](rotation.CheckKeys(t.Context(), p.control, other)); !ok {
		t.Error("another key than the first is taken")
	}
}
