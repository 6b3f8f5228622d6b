package content

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/JohannesKaufmann/html-to-markdown/v2/marker"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// maxDepth bounds how deep elements may be nested; the converter is recursive.
	maxDepth = 512
	// maxWork bounds the bytes of text times the lists and quotations around them, each of which goes over what is in
	// it once more and puts a prefix before every line.
	maxWork = 64 << 20
	// linePrefix is what a list or quotation adds to a line.
	linePrefix = 4
	// maxStart is the largest number a list of Markdown may start with.
	maxStart = 999_999_999
)

// sanitize takes out of the tree what isn't shown or isn't safe, and all attributes but those the converter has a use
// for and may be trusted with.
func sanitize(doc *html.Node, l *links) error {
	var gone []*html.Node
	walk(doc, func(n *html.Node, _ int) bool {
		if unwanted(n) || !clean(n, l) {
			gone = append(gone, n)
			return false
		}
		return true
	})
	for _, n := range gone {
		n.Parent.RemoveChild(n)
	}
	mergeText(doc)
	boundTables(doc)
	flattenCells(doc)
	return bound(doc)
}

// walk visits the tree in order, without recursion. visit says whether to descend.
func walk(root *html.Node, visit func(n *html.Node, depth int) bool) {
	n, depth := root, 0
	for {
		if visit(n, depth) && n.FirstChild != nil {
			n = n.FirstChild
			depth++
			continue
		}
		for n != root && n.NextSibling == nil {
			n = n.Parent
			depth--
		}
		if n == root {
			return
		}
		n = n.NextSibling
	}
}

func unwanted(n *html.Node) bool {
	switch n.Type {
	case html.TextNode, html.DocumentNode:
		return false
	case html.ElementNode:
	default:
		return true
	}
	switch n.DataAtom {
	case atom.Head, atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Link, atom.Meta, atom.Base, atom.Title,
		atom.Iframe, atom.Frame, atom.Frameset, atom.Noframes, atom.Object, atom.Embed, atom.Applet, atom.Param,
		atom.Canvas, atom.Svg, atom.Input, atom.Textarea:
		return true
	}
	return false
}

// clean makes the node safe, or reports that nothing of it may stay.
func clean(n *html.Node, l *links) bool {
	if n.Type == html.TextNode {
		n.Data = plain(n.Data)
		return true
	}
	old := n.Attr
	n.Attr = nil
	switch n.DataAtom {
	case atom.A:
		href, ok := get(old, "href")
		word := ""
		if ok {
			word = l.add(href, "https", "http", "mailto", "tel")
		}
		if word == "" { // its text stays
			n.Data, n.DataAtom = "span", atom.Span
			return true
		}
		set(n, "href", word)
		keepWords(n, old, "title")
	case atom.Img:
		src, _ := get(old, "src")
		word := l.add(src, "https", "http")
		if src == "" || word == "" {
			return false
		}
		set(n, "src", word)
		keepWords(n, old, "title")
		keepWords(n, old, "alt")
	case atom.Code, atom.Pre:
		class, _ := get(old, "class")
		if i := slices.IndexFunc(strings.Fields(class), isLanguage); i >= 0 {
			set(n, "class", strings.Fields(class)[i])
		}
	case atom.Ol:
		keepNumber(n, old, "start", 0, maxStart)
	case atom.Td, atom.Th:
		keepNumber(n, old, "colspan", 1, 1000)
		keepNumber(n, old, "rowspan", 1, 65534)
		if align, _ := get(old, "align"); slices.Contains([]string{"left", "right", "center"}, strings.ToLower(align)) {
			set(n, "align", strings.ToLower(align))
		}
	case atom.Table:
		if role, _ := get(old, "role"); role == presentation {
			set(n, "role", presentation)
		}
	}
	return true
}

// isLanguage reports whether a class names the language of a code block, and nothing else.
func isLanguage(class string) bool {
	name, ok := strings.CutPrefix(class, "language-")
	if !ok {
		name, ok = strings.CutPrefix(class, "lang-")
	}
	return ok && len(name) <= 32 && strings.IndexFunc(name, func(r rune) bool {
		return r > '~' || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("+#._-", r)
	}) < 0
}

// plain drops control characters, and the character the converter puts in place of line ends.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0x7f || r == marker.MarkerCodeBlockNewline {
			return -1
		}
		return r
	}, s)
}

// keepWords keeps an attribute that is shown, without anything that Markdown could take for markup.
func keepWords(n *html.Node, attributes []html.Attribute, key string) {
	value, _ := get(attributes, key)
	words := strings.FieldsFunc(plain(value), func(r rune) bool { return strings.ContainsRune("[]<>\\`\" \t\n|", r) })
	if len(words) > 0 {
		set(n, key, strings.Join(words, " "))
	}
}

func keepNumber(n *html.Node, attributes []html.Attribute, key string, least, most int) {
	value, ok := get(attributes, key)
	if number, err := strconv.Atoi(strings.TrimSpace(value)); ok && err == nil && number >= least && number <= most {
		set(n, key, strconv.Itoa(number))
	}
}

func get(attributes []html.Attribute, key string) (string, bool) {
	for _, a := range attributes {
		if a.Key == key && a.Namespace == "" {
			return a.Val, true
		}
	}
	return "", false
}

func set(n *html.Node, key, value string) {
	n.Attr = append(n.Attr, html.Attribute{Key: key, Val: value})
}

// mergeText makes one node of neighbouring texts, in one go: the converter would do it pair by pair.
func mergeText(doc *html.Node) {
	var first []*html.Node // of the runs
	walk(doc, func(n *html.Node, _ int) bool {
		if isText(n) && isText(n.NextSibling) && !isText(n.PrevSibling) {
			first = append(first, n)
		}
		return true
	})
	for _, n := range first {
		var whole strings.Builder
		whole.WriteString(n.Data)
		for isText(n.NextSibling) {
			whole.WriteString(n.NextSibling.Data)
			n.Parent.RemoveChild(n.NextSibling)
		}
		n.Data = whole.String()
	}
}

func isText(n *html.Node) bool { return n != nil && n.Type == html.TextNode }

// bound refuses trees that would cost too much.
func bound(doc *html.Node) error {
	around := make([]int, maxDepth+2) // by depth: how many lists and quotations are around
	work, deep := 0, false
	walk(doc, func(n *html.Node, depth int) bool {
		if depth > maxDepth {
			deep = true
			return false
		}
		around[depth+1] = around[depth]
		switch n.DataAtom {
		case atom.Ul, atom.Ol, atom.Menu, atom.Dir, atom.Blockquote:
			around[depth+1]++
		}
		lines := 1
		if isText(n) {
			lines += strings.Count(n.Data, "\n")
			work += len(n.Data)
		}
		work += around[depth] * (lines*linePrefix + len(n.Data))
		return true
	})
	if deep || work > maxWork {
		return tooDeep()
	}
	return nil
}
