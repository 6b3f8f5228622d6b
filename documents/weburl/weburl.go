// Package weburl owns the grammar of web addresses: which URLs a caller may name, which origins and path prefixes an
// organisation may approve, and which of the former lie inside the latter.
//
// It touches nothing but strings. It promises that what isn't in canonical form is refused, never mended (the case of
// the host, a superfluous :443 and the missing path of a bare origin excepted), so that the string that was checked is
// the string that is sent, stored and answered; and that its errors name a rule and never quote what was given.
package weburl

import (
	"strings"
)

const (
	minURL    = 12
	maxURL    = 2048
	maxPrefix = 1024
	scheme    = "https://"
)

// Error says which rule a URL, origin or prefix breaks. Its text is safe to show: it quotes nothing.
type Error struct {
	// Rule completes the sentence "the URL …" (or origin, or prefix), such as "must not contain userinfo".
	Rule string

	subject string
}

func (e *Error) Error() string { return "the " + e.subject + " " + e.Rule }

func broken(subject, rule string) error { return &Error{Rule: rule, subject: subject} }

// Origin is an https origin in canonical form. The zero Origin is none.
type Origin struct {
	host string
	port int
}

// Host returns the host name, in lower case.
func (o Origin) Host() string { return o.host }

// Port returns the port, 443 when none was named.
func (o Origin) Port() int { return o.port }

// String returns the canonical form, such as https://docs.example.com or https://docs.example.com:8443.
func (o Origin) String() string { return scheme + authority(o.host, o.port) }

// URL is an https URL without query and fragment, in canonical form. The zero URL is none; two URLs are the same page
// exactly if they are ==.
type URL struct {
	origin Origin
	path   string
}

// Origin returns the origin of the URL.
func (u URL) Origin() Origin { return u.origin }

// Path returns the path as it is sent, which starts with a slash.
func (u URL) Path() string { return u.path }

// String returns the canonical form.
func (u URL) String() string { return u.origin.String() + u.path }

// Parse reads a URL as documents are named by. The error is an *Error.
func Parse(s string) (URL, error) {
	const subject = "URL"
	if len(s) < minURL || len(s) > maxURL {
		return URL{}, broken(subject, "must have 12 to 2048 characters")
	}
	rest, err := afterScheme(subject, s)
	if err != nil {
		return URL{}, err
	}
	end := strings.IndexByte(rest, '/')
	if end < 0 {
		end = len(rest)
	}
	origin, err := parseAuthority(subject, rest[:end])
	if err != nil {
		return URL{}, err
	}
	path := rest[end:]
	if path == "" {
		path = "/"
	}
	if err := checkPath(subject, path); err != nil {
		return URL{}, err
	}
	return URL{origin: origin, path: path}, nil
}

// afterScheme refuses what no part of a URL may hold and returns what follows https://.
func afterScheme(subject, s string) (string, error) {
	rest, ok := strings.CutPrefix(s, scheme)
	if !ok {
		return "", broken(subject, "must start with https://")
	}
	return rest, checkBytes(subject, rest)
}

// checkBytes refuses the characters that are told apart from others by a rule of their own. What else is not allowed
// is found by the rules of the host and the path.
func checkBytes(subject, s string) error {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '?' || c == '#':
			return broken(subject, "must not have a query or fragment")
		case c == '%':
			return broken(subject, "must not contain percent-encoding")
		case c == '\\':
			return broken(subject, "must not contain a backslash")
		case c <= ' ' || c >= 0x7f:
			return broken(subject, "must consist of visible ASCII characters")
		}
	}
	return nil
}
