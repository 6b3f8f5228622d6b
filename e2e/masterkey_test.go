package e2e

import (
	"encoding/base64"
	"strings"
	"testing"
)

// Another master key under the version of the first is refused by whatever would seal or open with it, and named.
func TestAnotherMasterKey(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--no-worker")
	other := base64.StdEncoding.EncodeToString([]byte("another key that is 32 bytes or more"))
	var env []string
	var first string
	for _, v := range d.Env(t) {
		if key, ok := strings.CutPrefix(v, "APP_ENC_KEY="); ok {
			first = key
		} else {
			env = append(env, v)
		}
	}
	wrong := append([]string{"APP_ENC_KEY=" + other}, env...)
	for _, command := range [][]string{{"manager"}, {"worker"}, {"serve"}, {"migrate"}, {"tenant", "list"}, {"keys", "rotate"}} {
		said := fails(t, wrong, 2, "", command...)
		if !strings.Contains(said, "APP_ENC_KEY: version 1 of the master key was another key here before") || strings.Contains(said, other) {
			t.Errorf("%v: %s", command, said)
		}
	}
	retired := append([]string{"APP_ENC_KEY=" + first, "APP_ENC_KEY_VERSION=2", "APP_ENC_KEYS_RETIRED=1:" + other}, env...)
	if said := fails(t, retired, 2, "", "tenant", "list"); !strings.Contains(said, "APP_ENC_KEYS_RETIRED: version 1") {
		t.Errorf("as a retired key: %s", said)
	}
	binary.Command(t, append([]string{"APP_ENC_KEY=" + first}, env...), "tenant", "list")
}
