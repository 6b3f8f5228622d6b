package weburl

import "strings"

// checkPath checks a path that starts with a slash.
func checkPath(subject, path string) error {
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		if segment == "" && i < len(segments)-1 {
			return broken(subject, "must not have empty path segments")
		}
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return broken(subject, "must not have . or .. as path segments")
		}
	}
	for i := range len(path) {
		if c := path[i]; c != '/' && !isPchar(c) {
			return broken(subject, "must not have characters in its path that RFC 3986 doesn't allow there")
		}
	}
	return nil
}

// isPchar reports whether c is a pchar of RFC 3986 other than the start of a percent-encoding.
func isPchar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0
}
