package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/config"
)

// holder is whatever has a secret: in a field that others see, behind a pointer, and in one that no method is called on.
type holder struct {
	Shown  config.Secret
	Behind *config.Secret
	hidden config.Secret
	given  config.Options
	list   []config.Secret
}

// TestSecretUnderEveryVerb: no verb and no flag of fmt brings a value to light, wherever it is held.
func TestSecretUnderEveryVerb(t *testing.T) {
	t.Parallel()
	s := config.NewSecret(canary)
	held := holder{Shown: s, Behind: &s, hidden: s, list: []config.Secret{s}, given: config.Options{"k": s}}
	options := config.Options{"k": s}
	for verb := rune(' '); verb < 127; verb++ {
		for _, flag := range []string{"", "+", "#", "-", " ", "0", "40", ".3"} {
			format := "%" + flag + string(verb)
			for _, value := range []any{s, &s, held, &held, []config.Secret{s}, map[string]config.Secret{"k": s}, options, &options} {
				text := fmt.Sprintf(format, value)
				if hexed := fmt.Sprintf("%x", canary); strings.Contains(text, canary) || strings.Contains(strings.ToLower(text), hexed) {
					t.Errorf("%s of %T: %s", format, value, text)
				}
			}
		}
	}
	got := []string{
		fmt.Sprintf("%v", s), fmt.Sprintf("%q", s), fmt.Sprintf("%#v", &s), fmt.Sprintf("%d", s), fmt.Sprint(config.Secret{}),
		fmt.Sprintf("%d", options),
	}
	if diff := cmp.Diff([]string{"******", `"******"`, "******", "******", "", "k=******"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestSecretElsewhere: nor does an encoding, a log or an error.
func TestSecretElsewhere(t *testing.T) {
	t.Parallel()
	value := struct {
		Secret  config.Secret
		Options config.Options
	}{config.NewSecret(canary), config.Options{"k": config.NewSecret(canary)}}
	encoded, err := json.Marshal(value) //nolint:musttag // how it encodes by accident is the point
	if err != nil {
		t.Fatal(err)
	}
	document, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var plain, structured bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&plain, nil), slog.NewJSONHandler(&structured, nil)} {
		log := slog.New(handler)
		log.Info("m", "secret", value.Secret, "options", value.Options)
		log.Info("m", "both", value, "pointer", &value)
	}
	failure := errors.Join(fmt.Errorf("with %v and %d", value.Secret, value.Options), fmt.Errorf("with %+v", value))
	for _, text := range []string{string(encoded), string(document), plain.String(), structured.String(), failure.Error()} {
		if strings.Contains(text, canary) || !strings.Contains(text, "******") {
			t.Errorf("got %s", text)
		}
	}
	if diff := cmp.Diff(`{"Secret":"******","Options":"k=******"}`, string(encoded)); diff != "" {
		t.Error(diff)
	}
}

// TestSecretsAreEqual by what they hold.
func TestSecretsAreEqual(t *testing.T) {
	t.Parallel()
	a := config.NewSecret(canary)
	if !a.Equal(config.NewSecret(canary)) || a.Equal(config.NewSecret("other")) || a.Equal(config.Secret{}) {
		t.Error("secrets are compared by something else than their values")
	}
	if empty := config.NewSecret(""); empty.IsSet() || empty.Reveal() != "" || !a.IsSet() || a.Reveal() != canary {
		t.Error("a secret does not hold what it was given")
	}
}

// TestKeyForms: what config takes for a key is what the key ring reads, and what it refuses isn't.
func TestKeyForms(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"APP_ENC_KEY=" + key():                          "<nil>",
		"APP_ENC_KEY=" + strings.TrimRight(key(), "="):  "<nil>",
		"APP_ENC_KEY=" + strings.Repeat("A", 42) + "B=": "the configuration is not valid:\n  APP_ENC_KEY: must be base64 of 32 bytes or more",
		"APP_ENC_KEYS_RETIRED=4294967296:" + key():      "the configuration is not valid:\n  APP_ENC_KEYS_RETIRED: must be version:base64, comma separated, each key of 32 bytes or more",
	} {
		_, err := config.Load(sound(set), every)
		if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
			t.Errorf("%s: %s", set, diff)
		}
	}
}
