package events_test

import (
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fetcherhq/fetcher/events"
)

// The recipes of docs/events.md accept what was really delivered, and nothing else.
func TestGuide(t *testing.T) {
	t.Parallel()
	guide := string(must(os.ReadFile(filepath.Join("..", "docs", "events.md"))))
	p := newPlant(t, acme)
	r, b := newReceiver(t), &broker{}
	p.hook(acme, r)
	p.dispatcher(r.trust, func(o *events.Options) { o.Transports = []events.Transport{b} })
	p.end(acme)
	p.eventually("it is published", func() bool { return p.count(acme, published) == 1 })
	posted, sent := r.requests()[0], b.messages()[0]
	for _, test := range []struct {
		name, body string
		env        []string
	}{
		{"webhook", posted.body, []string{
			"WEBHOOK_ID=" + posted.header.Get("Webhook-Id"), "WEBHOOK_TIMESTAMP=" + posted.header.Get("Webhook-Timestamp"),
			"WEBHOOK_SIGNATURE=" + posted.header.Get("Webhook-Signature"), "WEBHOOK_SECRET=" + hookSecret,
		}},
		{"broker", string(sent.Data), []string{
			"CE_ID=" + sent.ID, "CE_TIME=" + sent.Time, "SIGNATURE=" + sent.Signature,
			"EXTERNAL_KEY=" + hex.EncodeToString(must(p.keys.ExternalHMACKey(1, acme))),
		}},
	} {
		for language, command := range map[string][]string{"sh": {"sh", "-eu", "-c"}, "python": {"python3", "-c"}} {
			t.Run(test.name+" "+language, func(t *testing.T) {
				t.Parallel()
				for _, tool := range []string{command[0], "openssl"} {
					if _, err := exec.LookPath(tool); err != nil {
						t.Skipf("the recipe was not run: there is no %s", tool)
					}
				}
				recipe := block(guide, language+" "+test.name)
				if recipe == "" {
					t.Fatal("there is no recipe")
				}
				run := func(body string) error {
					dir := t.TempDir()
					if err := os.WriteFile(filepath.Join(dir, "body"), []byte(body), 0o600); err != nil {
						t.Fatal(err)
					}
					cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], recipe)...)
					cmd.Dir, cmd.Env = dir, append(os.Environ(), test.env...)
					out, err := cmd.CombinedOutput()
					t.Logf("%s", out)
					return err
				}
				if err := run(test.body); err != nil {
					t.Errorf("what was delivered: %v", err)
				}
				if run(strings.Replace(test.body, "FET-1025", "FET-1026", 1)) == nil {
					t.Error("another body was accepted")
				}
			})
		}
	}
}

// block is the text of the code block with that info string.
func block(markdown, info string) string {
	_, rest, _ := strings.Cut(markdown, "```"+info+"\n")
	text, _, _ := strings.Cut(rest, "```")
	return text
}
