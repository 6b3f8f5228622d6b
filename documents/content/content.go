// Package content owns what becomes of a fetched body: which declared types are stored, under which type and as which
// bytes.
//
// It touches nothing but memory. It promises that what it returns is valid as the type it returns, that hostile input
// costs bounded time and memory, and that its errors carry a code and quote nothing.
package content

// Code is a published code that says why a body is not stored.
type Code string

// The codes of section 7 that a body can be refused with.
const (
	TooLarge        Code = "content_too_large"
	UnsupportedType Code = "unsupported_media_type"
	TypeMismatch    Code = "content_type_mismatch"
	Invalid         Code = "content_invalid"
)

// Error says why a body is refused. Its text is safe to show.
type Error struct {
	Code   Code
	Reason string // a short sentence without anything of the body or the declared type
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Reason }

func refused(code Code, reason string) error { return &Error{Code: code, Reason: reason} }

// Content is what is stored for a body.
type Content struct {
	MediaType string // without parameters
	Bytes     []byte // may share memory with the body it was made from
}
