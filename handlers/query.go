package handlers

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

const (
	maxQueryKey   = 64
	maxQueryValue = 256

	metadataPrefix = "metadata."
)

// queryParams are the decoded parameters of a request, the last of each name. Empty values count as absent.
type queryParams map[string]string

// queryOf decodes the query of the request; FET-0405 when that can't be done.
func queryOf(ctx context.Context) (queryParams, error) {
	return parseQuery(exchangeOf(ctx).request.URL.RawQuery)
}

func parseQuery(raw string) (queryParams, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, problem.New(problem.QueryInvalid, "the query can't be decoded").
			With(problem.Field{Location: inQuery, Message: "can't be decoded"})
	}
	params := queryParams{}
	for name, all := range values {
		last := all[len(all)-1]
		if text := name + last; !utf8.ValidString(text) || strings.Contains(text, "\x00") {
			return nil, problem.New(problem.QueryInvalid, "the query is not text").
				With(problem.Field{Location: inQuery, Message: "must be UTF-8 without NUL"})
		}
		params[name] = last
	}
	return params, nil
}

// guard checks the parameters that are not known: they are ignored unless their form is suspicious. Each dotted
// segment of a metadata parameter is held to the same rules.
func (q queryParams) guard(known map[string]bool, metadata bool) error {
	var faults []problem.Field
	for name, value := range q {
		if known[name] {
			continue
		}
		segments := []string{name}
		if rest, ok := strings.CutPrefix(name, metadataPrefix); ok && metadata {
			segments = strings.Split(rest, ".")
		}
		if message := suspicious(segments, value); message != "" {
			faults = append(faults, problem.Field{Location: inQuery + "." + shorten(name), Message: message})
		}
	}
	if len(faults) > 0 {
		return problem.New(problem.QueryInvalid, "a query parameter is not accepted").With(faults...)
	}
	return nil
}

func suspicious(segments []string, value string) string {
	for _, s := range segments {
		switch {
		case strings.HasPrefix(s, "$") || strings.HasPrefix(s, "_"):
			return "must not start with $ or _"
		case utf8.RuneCountInString(s) > maxQueryKey:
			return "the name is longer than 64 characters"
		}
	}
	if utf8.RuneCountInString(value) > maxQueryValue {
		return "the value is longer than 256 characters"
	}
	return ""
}

// metadata returns the metadata filters, in the order of their names.
func (q queryParams) metadata() []store.MetadataMatch {
	var out []store.MetadataMatch
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if rest, ok := strings.CutPrefix(name, metadataPrefix); ok && q[name] != "" {
			out = append(out, store.MetadataMatch{Path: strings.Split(rest, "."), Value: q[name]})
		}
	}
	return out
}
