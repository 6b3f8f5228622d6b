package content

import (
	"slices"
	"strconv"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// presentation is the role of tables that the converter doesn't make tables of.
	presentation = "presentation"
	// maxCells bounds the grid of a table, in which short rows are filled up.
	maxCells = 1 << 20
	// maxShifts bounds the cells that are moved for those that span columns or rows.
	maxShifts = 1 << 20
)

// grid is what a table would measure.
type grid struct {
	rows, columns int
	spanned       int // cells that are there only because others span them
	spanning      []*html.Node
}

// boundTables takes spans from tables where they would cost too much, and the table from texts whose grid would.
func boundTables(doc *html.Node) {
	grids := map[*html.Node]*grid{}
	walk(doc, func(n *html.Node, _ int) bool {
		if n.DataAtom == atom.Tr {
			measure(grids, n)
		}
		return true
	})
	for table, g := range grids {
		if g.spanned*(g.columns+g.spanned) > maxShifts {
			for _, cell := range g.spanning {
				cell.Attr = slices.DeleteFunc(cell.Attr, func(a html.Attribute) bool { return a.Key != "align" })
			}
			g.spanned = 0
		}
		if g.rows*(g.columns+g.spanned) > maxCells {
			table.Attr = nil
			set(table, "role", presentation)
		}
	}
}

// measure adds a row to the grids of all tables around it: a table counts the rows of those within it as its own.
func measure(grids map[*html.Node]*grid, row *html.Node) {
	cells, spanned := 0, 0
	var spanning []*html.Node
	for cell := row.FirstChild; cell != nil; cell = cell.NextSibling {
		if cell.DataAtom != atom.Td && cell.DataAtom != atom.Th {
			continue
		}
		cells++
		if extra := span(cell, "colspan")*span(cell, "rowspan") - 1; extra > 0 {
			spanned += extra
			spanning = append(spanning, cell)
		}
	}
	for n := row.Parent; n != nil; n = n.Parent {
		if n.DataAtom != atom.Table {
			continue
		}
		g := grids[n]
		if g == nil {
			g = &grid{rows: 1} // the header that is added where there is none
			grids[n] = g
		}
		g.rows++
		g.columns = max(g.columns, cells)
		g.spanned += spanned
		g.spanning = append(g.spanning, spanning...)
	}
}

// flattenCells makes lines of the paragraphs in cells: a row of a Markdown table has no room for more.
func flattenCells(doc *html.Node) {
	var paragraphs []*html.Node
	walk(doc, func(n *html.Node, _ int) bool {
		if n.DataAtom == atom.P && (n.Parent.DataAtom == atom.Td || n.Parent.DataAtom == atom.Th) {
			paragraphs = append(paragraphs, n)
		}
		return true
	})
	for _, p := range paragraphs {
		p.Data, p.DataAtom = "span", atom.Span
		if p.NextSibling != nil {
			p.Parent.InsertBefore(&html.Node{Type: html.ElementNode, Data: "br", DataAtom: atom.Br}, p.NextSibling)
		}
	}
}

func span(cell *html.Node, key string) int {
	value, _ := get(cell.Attr, key)
	if n, err := strconv.Atoi(value); err == nil {
		return n
	}
	return 1
}
