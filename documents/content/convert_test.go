package content_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"

	"github.com/fetcherhq/fetcher/documents/content"
	"github.com/fetcherhq/fetcher/documents/weburl"
)

const docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

func convert(t testing.TB, declared, body string) (content.Content, error) {
	t.Helper()
	page, err := weburl.Parse("https://docs.example.com:8443/docs/guide/page")
	if err != nil {
		t.Fatal(err)
	}
	return content.New().Convert(t.Context(), declared, []byte(body), page)
}

// code is the code of an error, or "".
func code(t testing.TB, err error) content.Code {
	t.Helper()
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*content.Error](err)
	if !ok || e.Error() != string(e.Code)+": "+e.Reason {
		t.Fatalf("not an error of content: %v", err)
	}
	return e.Code
}

func archive(t testing.TB, fill int, names ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range names {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f.Write(make([]byte, fill)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const (
	pdf  = "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
	png  = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
	jpeg = "\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01"
)

// The table of types: what is declared, what is in it, what is stored.
func TestTypes(t *testing.T) {
	t.Parallel()
	word := archive(t, 10, "[Content_Types].xml", "_rels/.rels", "word/document.xml")
	lateWord := archive(t, 8000, "[Content_Types].xml", "_rels/.rels", "word/document.xml")
	sheet := archive(t, 10, "[Content_Types].xml", "xl/workbook.xml")
	plainZip := archive(t, 10, "a.txt")
	notWord := archive(t, 10, "a.txt", "word/document.xml")
	const (
		unsupported = content.UnsupportedType
		mismatch    = content.TypeMismatch
		invalid     = content.Invalid
	)
	for _, c := range []struct {
		declared, body, stored string
		code                   content.Code
	}{
		{"text/plain", "hello", "text/plain", ""},
		{"Text/Plain; charset=UTF-8", "hello", "text/plain", ""},
		{"text/markdown; variant=GFM", "# hello", "text/markdown", ""},
		{"text/csv;header=present", "a,b\r\n1,2\r\n", "text/csv", ""},
		{"application/json", ` {"a":1}` + "\n", "application/json", ""},
		{"application/json; charset=utf-8", `1`, "application/json", ""},
		{"application/ld+json", `[]`, "application/json", ""},
		{"application/vnd.api+JSON", `null`, "application/json", ""},
		{"application/json", `{"a":1} x`, "", invalid},
		{"application/json", "\"\xff\"", "", invalid},
		{"application/json", "\xef\xbb\xbf{}", "", invalid},
		{"application/json", "{\x00}", "", invalid},
		{"application/problem+json", `{`, "", invalid},
		{"application/pdf", pdf, "application/pdf", ""},
		{"application/pdf", "\xef\xbb\xbf\r\n" + pdf, "application/pdf", ""},
		{"image/png", png, "image/png", ""},
		{"image/jpeg", jpeg, "image/jpeg", ""},
		{"application/zip", plainZip, "application/zip", ""},
		{"application/zip", word, "application/zip", ""},
		{"application/zip", sheet, "application/zip", ""},
		{docx, word, docx, ""},
		{docx, lateWord, docx, ""},
		{docx, plainZip, "", mismatch},
		{docx, sheet, "", mismatch},
		{docx, notWord, "", mismatch},
		{"application/pdf", png, "", mismatch},
		{"application/pdf", "hello", "", mismatch},
		{"application/pdf", "<html><p>%PDF-1.7", "", mismatch},
		{"image/png", jpeg, "", mismatch},
		{"image/jpeg", png, "", mismatch},
		{"application/zip", pdf, "", mismatch},
		{"", pdf, "application/pdf", ""},
		{"  ", png, "image/png", ""},
		{"application/octet-stream", jpeg, "image/jpeg", ""},
		{"application/octet-stream; x=y", plainZip, "application/zip", ""},
		{"", word, docx, ""},
		{"", lateWord, docx, ""},
		{"", sheet, "application/zip", ""},
		{"", "hello", "", unsupported},
		{"", "<!doctype html><p>hello", "", unsupported},
		{"", `{"a":1}`, "", unsupported},
		{"application/octet-stream", "GIF89a", "", unsupported},
		{"image/gif", "GIF89a", "", unsupported},
		{"image/svg+xml", "<svg/>", "", unsupported},
		{"text/css", "a{}", "", unsupported},
		{"text/javascript", "1", "", unsupported},
		{"application/xml", "<a/>", "", unsupported},
		{"application/msword", word, "", unsupported},
		{"text/json", "{}", "", unsupported},
		{"multipart/mixed; boundary=x", "", "", unsupported},
		{"text", "hello", "", unsupported},
		{"text/plain, text/html", "hello", "", unsupported},
		{"/plain", "hello", "", unsupported},
		{"text/plain; charset", "hello", "text/plain", ""},
	} {
		got, err := convert(t, c.declared, c.body)
		if diff := cmp.Diff(c.code, code(t, err)); diff != "" {
			t.Errorf("%q %.20q: %s", c.declared, c.body, diff)
		}
		if err != nil {
			continue
		}
		if diff := cmp.Diff(content.Content{MediaType: c.stored, Bytes: []byte(c.body)}, got); diff != "" {
			t.Errorf("%q %.20q: %s", c.declared, c.body, diff)
		}
	}
}

// An empty body is a text without characters, but no JSON and nothing that must begin with a signature.
func TestEmptyBodies(t *testing.T) {
	t.Parallel()
	for declared, want := range map[string]string{
		"text/plain": "text/plain", "text/markdown": "text/markdown", "text/csv": "text/csv", "text/html": "text/markdown",
		"application/xhtml+xml": "text/markdown", "text/plain; charset=shift_jis": "text/plain", "text/csv; charset=utf-16": "text/csv",
		"application/json": "content_invalid", "application/ld+json": "content_invalid",
		"application/pdf": "content_type_mismatch", "image/png": "content_type_mismatch", "image/jpeg": "content_type_mismatch",
		"application/zip": "content_type_mismatch", docx: "content_type_mismatch",
		"": "unsupported_media_type", "application/octet-stream": "unsupported_media_type",
	} {
		got, err := convert(t, declared, "")
		outcome := got.MediaType
		if err != nil {
			outcome = string(code(t, err))
		}
		if outcome != want || len(got.Bytes) != 0 {
			t.Errorf("%q: %s %q, want %s", declared, outcome, got.Bytes, want)
		}
	}
}

func encoded(t testing.TB, encode func(string) (string, error), s string) string {
	t.Helper()
	out, err := encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCharsets(t *testing.T) {
	t.Parallel()
	sjis := encoded(t, japanese.ShiftJIS.NewEncoder().String, "日本語テスト")
	latin := encoded(t, charmap.Windows1252.NewEncoder().String, "café – “€”")
	const (
		little = "\xff\xfeh\x00\xe9\x00=\xd8\x00\xde" // hé😀
		big    = "\xfe\xff\x00h\x00\xe9\xd8=\xde\x00"
	)
	for _, c := range []struct {
		declared, body, want string
		code                 content.Code
	}{
		{"text/plain", "café", "café", ""},
		{"text/plain", "\xef\xbb\xbfcafé", "café", ""},
		{"text/plain", latin, "", content.Invalid},
		{"text/plain", "a\xc0\x80", "", content.Invalid},
		{"text/plain", "\xed\xa0\x80", "", content.Invalid},
		{"text/plain; charset=utf-8", latin, "", content.Invalid},
		{"text/plain; charset=ISO-8859-1", latin, "café – “€”", ""},
		{"text/plain; charset=iso-8859-1", "caf\xe9 \x80", "café €", ""},
		{"text/plain; charset=us-ascii", "caf\xe9", "café", ""},
		{`text/csv; charset="windows-1252"`, latin, "café – “€”", ""},
		{"text/plain; charset=Shift_JIS", sjis, "日本語テスト", ""},
		{"text/markdown; charset=x-sjis", sjis, "日本語テスト", ""},
		{"text/plain; charset=Shift_JIS", sjis + "\x81", "", content.Invalid},
		{"text/plain; charset=Shift_JIS", "\xfd\xfe", "", content.Invalid},
		{"text/plain", sjis, "", content.Invalid},
		{"text/plain", little, "hé😀", ""},
		{"text/plain", big, "hé😀", ""},
		{"text/plain; charset=utf-8", little, "hé😀", ""},
		{"text/plain; charset=utf-16be", little, "hé😀", ""},
		{"text/plain; charset=utf-16", little[2:], "hé😀", ""},
		{"text/plain; charset=utf-16be", big[2:], "hé😀", ""},
		{"text/plain; charset=iso-8859-1", "\xef\xbb\xbfcafé", "café", ""},
		{"text/plain", little + "x", "", content.Invalid},
		{"text/plain", little[:8], "", content.Invalid},
		{"text/plain", "\xff\xfe\x00\xde", "", content.Invalid},
		{"text/plain", "\xff\xfe\x3d\xd8h\x00", "", content.Invalid},
		{"text/plain", "\xff\xfe\xfd\xff", "\ufffd", ""},
		{"text/plain", "a\ufffd", "a\ufffd", ""},
		{"text/plain", "a\x00b", "", content.Invalid},
		{"text/plain; charset=utf-16le", "a\x00\x00\x00", "", content.Invalid},
		{"text/csv; charset=iso-8859-1", "a\x00", "", content.Invalid},
		{"text/plain; charset=unheard-of", "a", "", content.Invalid},
		{"text/plain; charset=utf-7", "a", "", content.Invalid},
		{"text/plain; charset=iso-2022-kr", "a", "", content.Invalid}, // WHATWG's replacement encoding
		{"text/plain; charset=", "café", "café", ""},

		{"text/html", "<p>café", "café", ""},
		{"text/html", "<meta charset=iso-8859-1><p>caf\xe9", "café", ""},
		{"text/html", "<meta http-equiv=Content-Type content='text/html; charset=Shift_JIS'><p>" + sjis, "日本語テスト", ""},
		{"text/html", `<META CONTENT="text/html;charset = &quot;shift_jis&quot; ; x" HTTP-EQUIV=content-type><p>` + sjis, "日本語テスト", ""},
		{"text/html", "<!-- <meta charset=shift_jis> --><p>café", "café", ""},
		{"text/html", "<meta name=a content='charset=shift_jis'><p>café", "café", ""},
		{"text/html", "<meta charset=utf-16><p>café", "café", ""},
		{"text/html", "<meta charset=unheard-of><p>café", "café", ""},
		{"text/html", strings.Repeat(" ", 1100) + "<meta charset=iso-8859-1><p>caf\xe9", "", content.Invalid},
		{"text/html; charset=utf-8", "<meta charset=iso-8859-1><p>café", "café", ""},
		{"text/html", "\xef\xbb\xbf<meta charset=iso-8859-1><p>café", "café", ""},
		{"text/html", "\xff\xfe<\x00p\x00>\x00\xe9\x00", "é", ""},
		{"text/html", "<p>caf\xe9", "", content.Invalid},
		{"text/html", "<p>a\x00b", "", content.Invalid},
		{"text/html; charset=unheard-of", "<p>a", "", content.Invalid},
		{"application/xhtml+xml", `<?xml version="1.0" encoding="ISO-8859-1"?><html><body><p>caf` + "\xe9</p></body></html>", "café", ""},
	} {
		got, err := convert(t, c.declared, c.body)
		if diff := cmp.Diff(c.code, code(t, err)); diff != "" {
			t.Errorf("%q %q: %s", c.declared, c.body, diff)
		}
		if diff := cmp.Diff(c.want, string(got.Bytes)); diff != "" && err == nil {
			t.Errorf("%q %q: %s", c.declared, c.body, diff)
		}
	}
}

// Only two pages are converted at a time; who waits for a turn may leave.
func TestTurns(t *testing.T) {
	t.Parallel()
	c := content.New()
	page, err := weburl.Parse("https://docs.example.com/")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if _, err = c.Convert(ctx, "text/html", []byte("<p>x"), page); !errors.Is(err, context.Canceled) {
			t.Fatalf("canceled: %v", err)
		}
	}
	for range 20 { // no turn was lost
		if _, err = c.Convert(t.Context(), "text/html", []byte("<p>x"), page); err != nil {
			t.Fatal(err)
		}
	}
}
