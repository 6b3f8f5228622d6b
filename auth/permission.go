package auth

import "strings"

// Permission is what an operation asks for.
type Permission struct {
	Application string
	Resource    string
	Action      string
	Place       Place
}

// Place is where an operation acts, in ids of lower case; empty ones are not part of it.
type Place struct {
	Environment string
	Source      string
}

// permission is what decisions are about: the part of a Permission that the identity service knows.
type permission struct{ application, resource, action string }

// granted reports whether a grant of a token covers the permission at the place: application:resource:action,
// application:resource:* or application:*, which may be limited by one suffix @environment/{id} or @source/{id}. The ids
// are UUIDs, of any case in the grant.
func (ask permission) granted(grant string, at Place) bool {
	grant, limit, limited := strings.Cut(grant, "@")
	return ask.within(grant) && (!limited || at.within(limit))
}

// within reports whether a limit, such as source/{id}, holds the place.
func (at Place) within(limit string) bool {
	kind, id, _ := strings.Cut(limit, "/")
	var here string
	switch kind {
	case "environment":
		here = at.Environment
	case "source":
		here = at.Source
	}
	return here != "" && strings.EqualFold(id, here)
}

// within reports whether a grant without its limit covers the permission.
func (ask permission) within(granted string) bool {
	rest, ok := cutSegment(granted, ask.application)
	if !ok {
		return false
	}
	if rest == "*" {
		return true
	}
	rest, ok = cutSegment(rest, ask.resource)
	return ok && (rest == "*" || rest == ask.action)
}

// cutSegment returns what follows "segment:" in s.
func cutSegment(s, segment string) (string, bool) {
	rest, ok := strings.CutPrefix(s, segment)
	if !ok {
		return "", false
	}
	return strings.CutPrefix(rest, ":")
}
