package content

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
)

const (
	utf8Name    = "utf-8"
	utf16Little = "utf-16le"
	utf16Big    = "utf-16be"
	// prescan is how much of a page is searched for the name of its charset, as WHATWG has it.
	prescan = 1024
)

// decode returns the body as UTF-8 without a byte order mark: by that mark, else by the charset declared in the header,
// else by the one the body names itself, else as the UTF-8 it must then be. Names are those of WHATWG, for which
// ISO-8859-1 is windows-1252.
func decode(body []byte, declared, inBody string) ([]byte, error) {
	name, body := byMark(body)
	if name == "" {
		name = utf8Name
		if _, found := charset.Lookup(inBody); found != "" {
			name = found
		}
		if declared = strings.TrimSpace(declared); declared != "" {
			if _, name = charset.Lookup(declared); name == "" {
				return nil, refused(Invalid, "the declared charset is unknown")
			}
		}
	}
	text, ok := toUTF8(body, name)
	if !ok {
		return nil, refused(Invalid, "the body is not valid in its charset")
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, refused(Invalid, "the body has NUL characters")
	}
	return text, nil
}

// byMark returns the charset that a byte order mark tells, and the body without it.
func byMark(body []byte) (string, []byte) {
	for mark, name := range map[string]string{"\xef\xbb\xbf": utf8Name, "\xff\xfe": utf16Little, "\xfe\xff": utf16Big} {
		if rest, ok := bytes.CutPrefix(body, []byte(mark)); ok {
			return name, rest
		}
	}
	return "", body
}

// toUTF8 decodes strictly.
func toUTF8(body []byte, name string) ([]byte, bool) {
	switch name {
	case utf8Name:
		return body, utf8.Valid(body)
	case utf16Little:
		return fromUTF16(body, binary.LittleEndian)
	case utf16Big:
		return fromUTF16(body, binary.BigEndian)
	}
	encoding, _ := charset.Lookup(name)
	text, err := encoding.NewDecoder().Bytes(body)
	// No decoder fails: what it can't read becomes U+FFFD, which no text in these charsets has reason to hold.
	return text, err == nil && !bytes.ContainsRune(text, utf8.RuneError)
}

// fromUTF16 decodes UTF-16. Unlike a general decoder it tells an unpaired surrogate from a U+FFFD that is in the text.
func fromUTF16(body []byte, order binary.ByteOrder) ([]byte, bool) {
	if len(body)%2 != 0 {
		return nil, false
	}
	text := make([]byte, 0, len(body))
	for i := 0; i < len(body); i += 2 {
		r := rune(order.Uint16(body[i:]))
		if utf16.IsSurrogate(r) {
			if i += 2; i == len(body) {
				return nil, false
			}
			if r = utf16.DecodeRune(r, rune(order.Uint16(body[i:]))); r == utf8.RuneError {
				return nil, false
			}
		}
		text = utf8.AppendRune(text, r)
	}
	return text, true
}

// metaCharset returns the label of the charset that a page names in its first bytes, by its XML declaration or a meta
// element, or "". A page that was readable so far is not in UTF-16, whatever it says.
func metaCharset(page []byte) string {
	page = page[:min(len(page), prescan)]
	label := xmlCharset(page)
	tokens := html.NewTokenizer(bytes.NewReader(page))
	for label == "" {
		switch tokens.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken, html.SelfClosingTagToken:
			if token := tokens.Token(); token.Data == "meta" {
				label = charsetOf(token.Attr)
			}
		}
	}
	if _, name := charset.Lookup(label); name == utf16Little || name == utf16Big {
		return utf8Name
	}
	return label
}

// xmlCharset reads the encoding of an XML declaration.
func xmlCharset(page []byte) string {
	declaration, ok := bytes.CutPrefix(page, []byte("<?xml"))
	declaration, _, ended := bytes.Cut(declaration, []byte("?>"))
	if !ok || !ended {
		return ""
	}
	_, value, ok := strings.Cut(string(declaration), "encoding")
	value = strings.TrimLeft(value, " \t\r\n=")
	if !ok || value == "" || value[0] != '"' && value[0] != '\'' {
		return ""
	}
	label, _, _ := strings.Cut(value[1:], value[:1])
	return label
}

// charsetOf returns what the attributes of a meta element say about the charset.
func charsetOf(attributes []html.Attribute) string {
	var equiv, inType string
	for _, a := range attributes {
		switch a.Key {
		case "charset":
			return a.Val
		case "http-equiv":
			equiv = a.Val
		case "content":
			inType = a.Val
		}
	}
	if !strings.EqualFold(strings.TrimSpace(equiv), "content-type") {
		return ""
	}
	_, value, _ := strings.Cut(strings.ToLower(inType), "charset")
	value, ok := strings.CutPrefix(strings.TrimLeft(value, " \t"), "=")
	if !ok {
		return ""
	}
	value, _, _ = strings.Cut(strings.Trim(value, " \t\"'"), ";")
	return strings.Trim(value, " \t\"'")
}
