package handlers

import (
	"context"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fetcherhq/fetcher/documents"
)

const (
	queryLimit  = "limit"
	queryCursor = "cursor"
)

// listed is one page of a listing as it is answered.
type listed[T any] struct {
	Items      []T     `json:"items" nullable:"false" doc:"In the order of creation."`
	NextCursor *string `json:"next_cursor" required:"true" nullable:"true" doc:"For the parameter cursor; null: this is the last page."`
}

// listOf renders a page of a listing.
func listOf[R, V any](page documents.Page[R], view func(R) V) listed[V] {
	out := listed[V]{Items: make([]V, 0, len(page.Items))}
	for _, row := range page.Items {
		out.Items = append(out.Items, view(row))
	}
	if page.NextCursor != "" {
		out.NextCursor = &page.NextCursor
	}
	return out
}

// listParams documents the parameters that listFrom reads.
func listParams() []*huma.Param {
	least, most := 1.0, float64(documents.MaxLimit)
	return []*huma.Param{
		queryParam(queryLimit, "Rows per page.",
			&huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Default: documents.DefaultLimit}),
		queryParam(queryCursor, "next_cursor of the page before.", &huma.Schema{Type: huma.TypeString}),
	}
}

// listFrom reads which page of a listing is asked for, and returns the query for other parameters. Of a parameter that
// comes twice the last one counts.
func listFrom(ctx context.Context) (documents.List, url.Values, error) {
	var list documents.List
	query, err := url.ParseQuery(exchangeOf(ctx).request.URL.RawQuery)
	if err != nil {
		return list, nil, documents.Invalid(inQuery, "The query can't be decoded.")
	}
	if text, ok := lastOf(query, queryLimit); ok {
		limit, err := strconv.Atoi(text)
		if err != nil || !digits.MatchString(text) || limit < 1 || limit > documents.MaxLimit {
			return list, nil, documents.Invalid(queryLimit, "The limit must be an integer from 1 to 100.")
		}
		list.Limit = limit
	}
	list.Cursor, _ = lastOf(query, queryCursor)
	return list, query, nil
}

func lastOf(query url.Values, name string) (string, bool) {
	all := query[name]
	if len(all) == 0 {
		return "", false
	}
	return all[len(all)-1], true
}
