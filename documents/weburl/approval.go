package weburl

import "strings"

// Prefix is a path prefix in canonical form. The zero Prefix is none, and has nothing below it.
type Prefix struct{ path string }

// String returns the prefix as it was given.
func (p Prefix) String() string { return p.path }

// ParsePrefix reads a path prefix, which starts with a slash. The error is an *Error.
func ParsePrefix(s string) (Prefix, error) {
	const subject = "path prefix"
	if s == "" || len(s) > maxPrefix {
		return Prefix{}, broken(subject, "must have 1 to 1024 characters")
	}
	if s[0] != '/' {
		return Prefix{}, broken(subject, "must start with a slash")
	}
	if err := checkBytes(subject, s); err != nil {
		return Prefix{}, err
	}
	if err := checkPath(subject, s); err != nil {
		return Prefix{}, err
	}
	return Prefix{path: s}, nil
}

// admits reports whether the path is the prefix or lies below it: /docs admits /docs and /docs/a but not
// /docs-internal; /docs/ doesn't admit /docs.
func (p Prefix) admits(path string) bool {
	rest, ok := strings.CutPrefix(path, p.path)
	if !ok || p.path == "" {
		return false
	}
	return rest == "" || rest[0] == '/' || strings.HasSuffix(p.path, "/")
}

// Approval is what an organisation has approved: the pages of one origin below one prefix. The zero Approval admits
// nothing.
type Approval struct {
	Origin Origin
	Prefix Prefix
}

// Admits reports whether the URL is inside: its origin is identical, and its path is the prefix or lies below it.
// Upper and lower case differ.
func (a Approval) Admits(u URL) bool { return a.Origin == u.origin && a.Prefix.admits(u.path) }

// Narrower reports whether the approval admits nothing that of doesn't: same origin, and a prefix that is equal or lies
// inside.
func (a Approval) Narrower(of Approval) bool {
	return a.Origin == of.Origin && of.Prefix.admits(a.Prefix.path)
}
