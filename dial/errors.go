package dial

import "errors"

// ErrNotAllowed says that the guard refused the host or one of its addresses. Nothing was sent to it.
var ErrNotAllowed = errors.New("host not allowed")

// ErrNameNotFound says that the name did not resolve, whatever the reason: no such name, no answer, a failing server.
var ErrNameNotFound = errors.New("host name not found")

// failure names what failed in words that hold no host, address or port. The cause stays reachable for errors.Is and
// errors.As, and for them only: the texts of net and its resolver quote addresses.
type failure struct {
	text   string
	causes []error
}

func (f *failure) Error() string   { return f.text }
func (f *failure) Unwrap() []error { return f.causes }

func notAllowed(reason string) error {
	return &failure{text: ErrNotAllowed.Error() + ": " + reason, causes: []error{ErrNotAllowed}}
}

func nameNotFound(cause error) error {
	f := &failure{text: ErrNameNotFound.Error(), causes: []error{ErrNameNotFound}}
	if cause != nil {
		f.causes = append(f.causes, cause)
	}
	return f
}

func connectFailed(cause error) error {
	return &failure{text: "connect failed", causes: []error{cause}}
}
