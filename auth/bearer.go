package auth

import "strings"

// maxTokenBytes bounds a token: half of what all headers of a request may have.
const maxTokenBytes = 16 << 10

// ParseBearer takes the token from the lines of the Authorization header. The scheme is compared without case.
//
// Errors are problem.Unauthenticated. No line, an empty one, another scheme, and the scheme alone count as a missing
// token: errors.Is(err, ErrNoToken). A second line, or anything that can't be one token, is an invalid one.
func ParseBearer(header []string) (string, error) {
	if len(header) > 1 {
		return "", invalid(errMalformed)
	}
	if len(header) == 0 {
		return "", missing()
	}
	scheme, rest, _ := strings.Cut(strings.Trim(header[0], " \t"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", missing()
	}
	token := strings.TrimLeft(rest, " ")
	if token == "" {
		return "", missing()
	}
	if len(token) > maxTokenBytes || strings.IndexByte(token, ' ') >= 0 {
		return "", invalid(errMalformed)
	}
	return token, nil
}

// wellFormed reports whether a token has nothing but the characters of a compact JWS.
func wellFormed(token string) bool {
	for i := range len(token) {
		switch c := token[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return token != ""
}
