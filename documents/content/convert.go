package content

import (
	"context"
	"encoding/json"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/fetcherhq/fetcher/documents/weburl"
)

const (
	typeMarkdown = "text/markdown"
	typeJSON     = "application/json"
	typeOctets   = "application/octet-stream"

	atOnce = 2
)

// Converter turns bodies into contents, two costly ones at a time: make one for the whole process. It is safe for
// concurrent use.
type Converter struct {
	slots chan struct{}
}

// New returns a converter.
func New() *Converter { return &Converter{slots: make(chan struct{}, atOnce)} }

// Convert returns what is stored for a body of the declared type, "" if none was declared. Links of a page become
// absolute against pageURL. The error is an *Error, or wraps ctx's own: waiting for a turn and conversion heed ctx.
//
// An empty body is a valid text, an empty page a valid (and empty) Markdown text. It is not JSON, and bears no
// signature.
func (c *Converter) Convert(ctx context.Context, declaredType string, body []byte, pageURL weburl.URL) (Content, error) {
	if strings.TrimSpace(declaredType) == "" {
		declaredType = typeOctets
	}
	mediaType, params, err := mime.ParseMediaType(declaredType)
	if err != nil && mediaType == "" { // parameters that can't be read count as absent
		return Content{}, refused(UnsupportedType, "the declared type can't be read")
	}
	switch {
	case mediaType == "text/plain", mediaType == typeMarkdown, mediaType == "text/csv":
		text, err := decode(body, params["charset"], "")
		return Content{mediaType, text}, err
	case mediaType == "text/html", mediaType == "application/xhtml+xml":
		text, err := c.markdown(ctx, body, params["charset"], mediaType != "text/html", pageURL)
		return Content{typeMarkdown, text}, err
	case mediaType == typeJSON, strings.HasSuffix(mediaType, "+json"):
		return Content{typeJSON, body}, checkJSON(body)
	case mediaType == typeOctets:
		found := c.signature(ctx, body)
		if found == "" {
			return Content{}, refused(UnsupportedType, "the type is not declared and the body bears no known signature")
		}
		return Content{found, body}, ctx.Err()
	case isBinary(mediaType):
		return Content{mediaType, body}, c.checkSignature(ctx, mediaType, body)
	}
	return Content{}, refused(UnsupportedType, "documents of the declared type are not stored")
}

func checkJSON(body []byte) error {
	if !utf8.Valid(body) || !json.Valid(body) {
		return refused(Invalid, "the body is not JSON in UTF-8")
	}
	return nil
}
