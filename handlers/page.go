package handlers

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

const (
	inQuery  = "query"  // in the document, and where a fault is
	inHeader = "header" // likewise

	defaultLimit = 10

	// maxPageNumber keeps the arithmetic of offsets far from overflow. No tenant has that many rows.
	maxPageNumber = 1 << 40
)

// pageRules bound the lists of a deployment.
type pageRules struct {
	maxLimit int
	months   int // widest creation-date window
	now      func() time.Time
}

// pageQuery is what a list was asked for.
type pageQuery struct {
	number int // as asked, whatever its size
	limit  int
	desc   bool
	window store.Window
}

// storePage is the page as the store takes it.
func (q pageQuery) storePage() store.Page {
	return store.Page{Number: min(q.number, maxPageNumber), Limit: q.limit, Desc: q.desc}
}

// Page is one page of a list.
type Page[T any] struct {
	Items []T   `json:"items" doc:"The rows; never null." nullable:"false"`
	Page  int   `json:"page" minimum:"1"`
	Limit int   `json:"limit" minimum:"1"`
	Total int64 `json:"total" minimum:"0" doc:"Rows of all pages."`
}

// pageParams documents the parameters that parse reads.
func (r pageRules) pageParams() []*huma.Param {
	date := func(name, tells string) *huma.Param {
		return queryParam(name, tells, &huma.Schema{Type: huma.TypeString, Format: "date"})
	}
	least, most := 1.0, float64(r.maxLimit)
	return []*huma.Param{
		queryParam("page", "Page number.", &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Default: 1}),
		queryParam("limit", "Rows per page.",
			&huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Default: min(defaultLimit, r.maxLimit)}),
		queryParam("sortOrder", "By creation date: asc or desc, in any case.",
			&huma.Schema{Type: huma.TypeString, Pattern: "^([Aa][Ss][Cc]|[Dd][Ee][Ss][Cc])$", Default: "desc"}),
		date("startDate", "Created at or after midnight UTC of this day."),
		date("endDate", "Created at or before midnight UTC of this day."),
	}
}

func queryParam(name, tells string, schema *huma.Schema) *huma.Param {
	return &huma.Param{Name: name, In: inQuery, Description: tells, Schema: schema}
}

// knownParams are the names in the documentation of an operation's query parameters.
func knownParams(params []*huma.Param) map[string]bool {
	known := map[string]bool{}
	for _, p := range params {
		if p.In == inQuery {
			known[p.Name] = true
		}
	}
	return known
}

// parse reads the page parameters. The first fault, in the order of the documentation, is the answer.
func (r pageRules) parse(q queryParams) (pageQuery, error) {
	out := pageQuery{number: 1, limit: min(defaultLimit, r.maxLimit), desc: true}
	var err error
	if out.number, err = positive(q, "page", out.number); err != nil {
		return out, err
	}
	if out.limit, err = positive(q, "limit", out.limit); err != nil {
		return out, err
	}
	if out.limit > r.maxLimit {
		return out, queryFault(problem.LimitTooLarge, "limit", "must be at most "+strconv.Itoa(r.maxLimit))
	}
	switch order := strings.ToLower(q["sortOrder"]); order {
	case "", "desc":
	case "asc":
		out.desc = false
	default:
		return out, queryFault(problem.SortOrderInvalid, "sortOrder", "must be asc or desc")
	}
	out.window, err = r.parseWindow(q)
	return out, err
}

var digits = regexp.MustCompile(`^[0-9]+$`)

// positive reads an integer of at least 1; one too large for an int is the largest int.
func positive(q queryParams, name string, absent int) (int, error) {
	text := q[name]
	if text == "" {
		return absent, nil
	}
	value := new(big.Int)
	if digits.MatchString(text) {
		value.SetString(text, 10)
	}
	switch {
	case value.Sign() <= 0:
		return 0, queryFault(problem.QueryInvalid, name, "must be an integer of at least 1")
	case value.IsInt64():
		return int(value.Int64()), nil
	default:
		return math.MaxInt, nil
	}
}

func queryFault(code problem.Code, name, message string) error {
	return problem.Newf(code, "the query parameter %s is not valid", name).
		With(problem.Field{Location: inQuery + "." + name, Message: message})
}
