package content

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"

	"github.com/fetcherhq/fetcher/documents/weburl"
)

const (
	maxPage     = 4 << 20
	maxMarkdown = 8 << 20 // absolute links can make a text longer than its page
)

// markdown converts a page. A <base> is not heeded: links are relative to the page's own URL.
func (c *Converter) markdown(ctx context.Context, page []byte, declared string, xhtml bool, pageURL weburl.URL) ([]byte, error) {
	if len(page) > maxPage {
		return nil, refused(TooLarge, "the page is larger than 4 MiB")
	}
	if err := c.acquire(ctx); err != nil {
		return nil, fmt.Errorf("wait to convert: %w", err)
	}
	defer c.release()
	text, err := decode(page, declared, metaCharset(page))
	if err != nil {
		return nil, err
	}
	if xhtml {
		text = openEmpty(text)
	}
	doc, err := html.Parse(bytes.NewReader(text))
	if err != nil { // from memory, it fails for one reason only
		return nil, tooDeep()
	}
	links, err := newLinks(pageURL)
	if err != nil {
		return nil, err
	}
	if err = sanitize(doc, links); err != nil {
		return nil, err
	}
	marked, err := render(ctx, doc)
	if err != nil {
		return nil, err
	}
	return links.resolve(marked)
}

func tooDeep() error { return refused(Invalid, "the page is nested too deeply") }

// canceled is what a rendering is left with when its context ends.
type canceled struct{}

// render makes Markdown of the sanitized tree. What it can't do with a page is the page's fault: the tree is bounded,
// and hostile ones must not bring down more than themselves.
func render(ctx context.Context, doc *html.Node) (text []byte, err error) {
	defer func() {
		switch v := recover(); v.(type) {
		case nil:
		case canceled:
			text, err = nil, fmt.Errorf("convert: %w", ctx.Err())
		default:
			text, err = nil, refused(Invalid, "the page can't be converted")
		}
	}()
	conv := converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal),
			table.WithNewlineBehavior(table.NewlineBehaviorPreserve)),
	))
	conv.Register.Renderer(func(converter.Context, converter.Writer, *html.Node) converter.RenderStatus {
		if ctx.Err() != nil {
			panic(canceled{})
		}
		return converter.RenderTryNext
	}, converter.PriorityEarly)
	// The converter leaves a bracket alone whose counterpart is not on its line; Markdown doesn't.
	conv.Register.UnEscaper(func(text []byte, i int) int {
		if text[i] == '[' {
			return 1
		}
		return -1
	}, converter.PriorityEarly)
	text, err = conv.ConvertNode(doc, converter.WithContext(ctx))
	if err != nil {
		return nil, refused(Invalid, "the page can't be converted")
	}
	return text, nil
}

// openEmpty writes XML's empty elements out, <script/> as <script></script>: to an HTML parser, they are not closed.
func openEmpty(page []byte) []byte {
	empty := regexp.MustCompile(`<([A-Za-z][A-Za-z0-9]*)((?:\s+[^\s=<>"'/]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*/>`)
	return empty.ReplaceAllFunc(page, func(tag []byte) []byte {
		parts := empty.FindSubmatch(tag)
		if isVoid(strings.ToLower(string(parts[1]))) {
			return tag
		}
		return fmt.Appendf(nil, "<%s%s></%s>", parts[1], parts[2], parts[1])
	})
}

func isVoid(name string) bool {
	switch name {
	case "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr":
		return true
	}
	return false
}
