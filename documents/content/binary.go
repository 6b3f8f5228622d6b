package content

import (
	"archive/zip"
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

const (
	typePDF  = "application/pdf"
	typeZIP  = "application/zip"
	typeDOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
)

func binaryTypes() []string {
	return []string{typePDF, "image/png", "image/jpeg", typeDOCX, typeZIP}
}

func isBinary(mediaType string) bool { return slices.Contains(binaryTypes(), mediaType) }

// signature returns the most special of the binary types that the body bears the signature of, or "".
func (c *Converter) signature(ctx context.Context, body []byte) string {
	for found := mimetype.Detect(body); found != nil; found = found.Parent() {
		for _, t := range binaryTypes() {
			if !found.Is(t) {
				continue
			}
			switch {
			case t == typeZIP && c.isDOCX(ctx, body):
				return typeDOCX
			case t == typePDF && !bytes.HasPrefix(bytes.TrimLeft(body, "\ufeff \t\r\n"), []byte("%PDF-")):
				return "" // readers would find it further on, as they would in a page
			}
			return t
		}
	}
	return ""
}

// checkSignature tells whether the body bears the signature of the type. A docx is also a zip.
func (c *Converter) checkSignature(ctx context.Context, mediaType string, body []byte) error {
	found := c.signature(ctx, body)
	if err := ctx.Err(); err != nil {
		return err
	}
	if found != mediaType && (mediaType != typeZIP || found != typeDOCX) {
		return refused(TypeMismatch, "the body bears not the signature of the declared type")
	}
	return nil
}

// isDOCX looks into the archive's directory. The signature is read off the first few thousand bytes only, which
// may not reach the names that make a docx of a zip.
func (c *Converter) isDOCX(ctx context.Context, body []byte) bool {
	if c.acquire(ctx) != nil {
		return false
	}
	defer c.release()
	archive, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return false
	}
	types, word := false, false
	for _, file := range archive.File {
		types = types || file.Name == "[Content_Types].xml"
		word = word || strings.HasPrefix(file.Name, "word/")
	}
	return types && word
}

// acquire waits for a turn.
func (c *Converter) acquire(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Converter) release() { <-c.slots }
