package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// redacted stands for what is not shown.
const redacted = "[redacted]"

// redactor takes secrets out of what is logged: by the name of an attribute, and by the form of what a text quotes.
type redactor struct {
	userinfo, assignment, token, bearer, ageKey, pem *regexp.Regexp

	names nameMemo
}

// nameMemo remembers of names of attributes whether they are those of secrets. Code gives the names, and few.
type nameMemo struct {
	known sync.Map // of string to bool
	count atomic.Int32
}

// maxNames bounds what is remembered, should names come from outside after all.
const maxNames = 1024

func (m *nameMemo) secret(name string) bool {
	if known, ok := m.known.Load(name); ok {
		return known == true
	}
	secret := secretName(name)
	if m.count.Add(1) <= maxNames {
		m.known.Store(name, secret)
	}
	return secret
}

func newRedactor() *redactor {
	return &redactor{
		userinfo: regexp.MustCompile(`://[^\s"'<>]*@`),
		// A word, a colon and a blank is how errors begin, "secret: unknown version": only a password is taken from that.
		assignment: regexp.MustCompile(`(?i)((?:` +
			`(?:pass(?:word|wd|phrase)|pwd)["']?\s*[=:]\s*|` +
			`(?:secret|token|(?:api|access|secret|private|enc|ssl)[_-]?key)(?:["']\s*[=:]\s*|\s*=\s*|:)|` +
			`authorization["']?\s*[=:]\s*(?:basic\s+|bearer\s+)?` +
			`))(?:"[^"]*"|'[^']*'|[^\s;&,}]+)`),
		token:  regexp.MustCompile(`eyJ[\w-]*\.[\w-]*(?:\.[\w-]*)*`),
		bearer: regexp.MustCompile(`(?i)(bearer\s+)[\w.~+/=-]{16,}`),
		ageKey: regexp.MustCompile(`AGE-SECRET-KEY-[\w-]+`),
		pem:    regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`),
	}
}

// replace is the hook of slog's handlers. Its values are resolved already.
func (r *redactor) replace(groups []string, a slog.Attr) slog.Attr {
	if r.names.secret(a.Key) || slices.ContainsFunc(groups, r.names.secret) {
		switch a.Value.Kind() {
		case slog.KindBool, slog.KindDuration, slog.KindTime: // how long and since when is no secret
			return a
		default:
			return slog.String(a.Key, redacted)
		}
	}
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(r.scrub(a.Value.String()))
	case slog.KindAny:
		a.Value = r.value(a.Value.Any())
	default:
	}
	return a
}

// value redacts a value of any type. What is not a simple one is turned into JSON, so that its members have names.
func (r *redactor) value(v any) slog.Value {
	switch v := v.(type) {
	case slog.Level:
		return slog.StringValue(v.String()) // as it would be written, but not by way of encoding/json
	case nil, *slog.Source:
		return slog.AnyValue(v)
	case error:
		return slog.StringValue(r.scrub(v.Error()))
	case *url.URL:
		return slog.StringValue(r.scrub(v.String()))
	case []byte:
		return slog.StringValue(fmt.Sprintf("%d bytes", len(v)))
	}
	text, err := json.Marshal(v)
	if err != nil {
		return slog.StringValue(fmt.Sprintf("(%T)", v))
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&tree); err != nil {
		return slog.StringValue(fmt.Sprintf("(%T)", v))
	}
	tree = r.tree(tree)
	if s, ok := tree.(string); ok {
		return slog.StringValue(s)
	}
	return slog.AnyValue(tree)
}

// tree redacts decoded JSON in place.
func (r *redactor) tree(v any) any {
	switch v := v.(type) {
	case string:
		return r.scrub(v)
	case []any:
		for i := range v {
			v[i] = r.tree(v[i])
		}
	case map[string]any:
		for name, member := range v {
			if secretName(name) {
				v[name] = redacted
			} else {
				v[name] = r.tree(member)
			}
		}
	}
	return v
}

// scrub takes credentials in URLs, assignments to secret names, tokens and private keys out of a text. Most texts can
// have none of them and are spared the search.
func (r *redactor) scrub(s string) string {
	if harmless(s) {
		return s
	}
	if strings.Contains(s, "PRIVATE KEY") {
		s = r.pem.ReplaceAllLiteralString(s, redacted)
	}
	if strings.Contains(s, "AGE-SECRET") {
		s = r.ageKey.ReplaceAllLiteralString(s, redacted)
	}
	if strings.Contains(s, "eyJ") {
		s = r.token.ReplaceAllLiteralString(s, redacted)
	}
	if strings.Contains(s, "earer") || strings.Contains(s, "EARER") {
		s = r.bearer.ReplaceAllString(s, "${1}"+redacted)
	}
	if mayAssign(s) {
		s = r.assignment.ReplaceAllString(s, "${1}"+redacted)
	}
	if strings.Contains(s, "://") {
		s = r.userinfo.ReplaceAllLiteralString(s, "://"+redacted+"@")
	}
	return s
}

// harmless reports whether a text is a word, an id or a path without any of the marks that scrub looks for: all but tokens
// and keys of age have a blank, a colon or an equals sign.
func harmless(s string) bool {
	for i := range len(s) {
		switch s[i] {
		case ' ', '\t', '\r', '\n', '\f', '\v', ':', '=', 'J', 'K':
			return false
		}
	}
	return true
}

// mayAssign reports whether a text has an equals sign or colon after a letter that ends one of the names of assignment.
func mayAssign(s string) bool {
	for rest := s; ; {
		i := strings.IndexAny(rest, "=:")
		if i < 0 {
			return false
		}
		name := strings.TrimRight(rest[:i], " \t\r\n\f\v\"'")
		if name != "" && strings.IndexByte("dentyDENTY", name[len(name)-1]) >= 0 {
			return true
		}
		rest = rest[i+1:]
	}
}

// secretName reports whether a name is that of a secret.
func secretName(name string) bool {
	lower := strings.ToLower(name)
	for _, part := range [...]string{
		"password", "passwd", "passphrase", "secret", "token", "authorization", "cookie", "credential",
	} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	if strings.HasSuffix(lower, "dsn") || strings.HasSuffix(lower, "pwd") {
		return true
	}
	// Keys are secret, but for those that only name or order something.
	what, ok := strings.CutSuffix(lower, "key")
	if !ok {
		return false
	}
	switch strings.TrimRight(what, "_-. ") {
	case "object", "primary", "foreign", "partition", "public", "routing", "cache", "sort":
		return false
	default:
		return true
	}
}
