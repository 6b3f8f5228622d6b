package fetch

// Code is a published code that says why a fetch failed.
type Code string

// The codes of section 7 that a fetch can end with.
const (
	DestinationRefused Code = "destination_refused"
	RedirectRefused    Code = "redirect_refused"
	UpstreamRefused    Code = "upstream_refused"
	Unavailable        Code = "upstream_unavailable"
	Incomplete         Code = "upstream_incomplete"
	Timeout            Code = "upstream_timeout"
	ProtocolError      Code = "upstream_protocol_error"
	TooLarge           Code = "content_too_large"
	UnsupportedType    Code = "unsupported_media_type"
)

// Error says why a fetch failed. Its text is safe to show: it holds no address and nothing of the origin's.
type Error struct {
	Code           Code
	UpstreamStatus int    // the status of the answer, 0 if there was none
	Reason         string // a short sentence
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Reason }
