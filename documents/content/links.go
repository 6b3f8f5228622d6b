package content

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/fetcherhq/fetcher/documents/weburl"
)

// links holds the absolute URLs of a page while it is converted. The converter sees a word in the place of each: it
// would write URLs anew, and each counts in full only at the end.
type links struct {
	base *url.URL
	mark string // what the words start with; a page can't guess it
	urls []string
}

func newLinks(pageURL weburl.URL) (*links, error) {
	base, err := url.Parse(pageURL.String())
	if err != nil {
		return nil, fmt.Errorf("read the page's URL: %w", err)
	}
	return &links{base: base, mark: "x" + rand.Text() + "x"}, nil
}

// add takes a reference and returns the word for it, or "" if it leads nowhere that a reader may be sent to.
func (l *links) add(reference string, schemes ...string) string {
	absolute := l.absolute(reference, schemes)
	if absolute == "" {
		return ""
	}
	l.urls = append(l.urls, absolute)
	return l.mark + strconv.Itoa(len(l.urls)-1) + "x"
}

func (l *links) absolute(reference string, schemes []string) string {
	reference = strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return -1 // as browsers do
		}
		return r
	}, strings.TrimFunc(reference, func(r rune) bool { return r <= ' ' }))
	ref, err := url.Parse(reference)
	if err != nil {
		return ""
	}
	out := l.base.ResolveReference(ref)
	for _, s := range schemes {
		if out.Scheme == s && (out.Host != "" || out.Opaque != "") {
			return destination(out.String())
		}
	}
	return ""
}

// destination percent-encodes what could end a link's destination in Markdown.
func destination(s string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"'()<>[]\\^`{|}", c) >= 0 {
			out.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// resolve puts the URLs back into their places.
func (l *links) resolve(text []byte) ([]byte, error) {
	var out bytes.Buffer
	for {
		before, after, found := bytes.Cut(text, []byte(l.mark))
		out.Write(before)
		if out.Len() > maxMarkdown {
			return nil, refused(TooLarge, "the page's text is larger than 8 MiB")
		}
		if !found {
			return out.Bytes(), nil
		}
		number, rest, _ := bytes.Cut(after, []byte("x"))
		n, err := strconv.Atoi(string(number))
		if err != nil || n < 0 || n >= len(l.urls) {
			return nil, refused(Invalid, "the page can't be converted")
		}
		out.WriteString(l.urls[n])
		text = rest
	}
}
