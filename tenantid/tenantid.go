// Package tenantid owns the form of tenant ids. It touches nothing. Whoever reads an id from a token, a command or the
// registry canonicalises it here, so that one tenant never has two spellings.
package tenantid

import (
	"regexp"
	"strings"
)

var (
	form     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
	uuidForm = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)
)

// Canonical returns the canonical form of an id, and whether it is one. UUIDs are lower-cased; other ids are
// case-sensitive.
func Canonical(id string) (canonical string, ok bool) {
	if !form.MatchString(id) {
		return "", false
	}
	if IsUUID(id) {
		return strings.ToLower(id), true
	}
	return id, true
}

// IsUUID reports whether the id is a UUID in its 8-4-4-4-12 form, of any case.
func IsUUID(id string) bool { return uuidForm.MatchString(id) }
