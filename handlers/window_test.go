package handlers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/problem"
)

func TestWindow(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		now        string
		months     int
		query      string
		start, end string
		code       problem.Code
	}{
		"neither":                      {"2024-06-15T13:14:15Z", 1, "", "2024-05-16", "2024-06-16", ""},
		"neither, last day of a month": {"2024-03-30T00:00:00Z", 1, "", "2024-02-29", "2024-03-31", ""},
		"neither, not a leap year":     {"2023-03-30T23:59:59Z", 1, "", "2023-02-28", "2023-03-31", ""},
		"neither, two months":          {"2024-01-15T00:00:00Z", 2, "", "2023-11-16", "2024-01-16", ""},
		"today is in UTC":              {"2024-06-15T23:30:00-05:00", 1, "", "2024-05-17", "2024-06-17", ""},
		"start only":                   {"2024-06-15T00:00:00Z", 1, "startDate=2020-02-28", "2020-02-28", "2020-02-29", ""},
		"end only":                     {"2024-06-15T00:00:00Z", 1, "endDate=2023-03-31", "2023-02-28", "2023-03-31", ""},
		"both":                         {"2024-06-15T00:00:00Z", 1, "startDate=2023-03-01&endDate=2023-03-05", "2023-03-01", "2023-03-05", ""},
		"equal":                        {"2024-06-15T00:00:00Z", 1, "startDate=2023-12-31&endDate=2023-12-31", "2023-12-31", "2024-01-01", ""},
		"exactly one month":            {"2024-06-15T00:00:00Z", 1, "startDate=2023-02-28&endDate=2023-03-31", "2023-02-28", "2023-03-31", ""},
		"too wide":                     {"2024-06-15T00:00:00Z", 1, "startDate=2023-02-27&endDate=2023-03-31", "2023-02-28", "2023-03-31", ""},
		"far too wide":                 {"2024-06-15T00:00:00Z", 3, "startDate=1999-01-01&endDate=2023-05-31", "2023-02-28", "2023-05-31", ""},
		"empty counts as absent":       {"2024-06-15T00:00:00Z", 1, "startDate=&endDate=2023-03-31", "2023-02-28", "2023-03-31", ""},
		"last one wins":                {"2024-06-15T00:00:00Z", 1, "endDate=bad&endDate=2023-03-31", "2023-02-28", "2023-03-31", ""},
		"start after end":              {"2024-06-15T00:00:00Z", 1, "startDate=2023-03-02&endDate=2023-03-01", "", "", problem.DateRangeInvalid},
		"no such day":                  {"2024-06-15T00:00:00Z", 1, "startDate=2023-02-29", "", "", problem.DateInvalid},
		"with a time":                  {"2024-06-15T00:00:00Z", 1, "endDate=2023-02-01T00:00:00Z", "", "", problem.DateInvalid},
		"short":                        {"2024-06-15T00:00:00Z", 1, "endDate=2023-2-1", "", "", problem.DateInvalid},
		"year zero":                    {"2024-06-15T00:00:00Z", 1, "endDate=0000-01-01", "", "", problem.DateInvalid},
		"other digits":                 {"2024-06-15T00:00:00Z", 1, "endDate=%D9%A2023-02-01", "", "", problem.DateInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, err := time.Parse(time.RFC3339, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			rules := pageRules{maxLimit: 100, months: tc.months, now: func() time.Time { return now }}
			query, err := parseQuery(tc.query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := rules.parse(query)
			if tc.code != "" {
				if problem.CodeOf(err) != tc.code {
					t.Fatalf("error %v, want %s", err, tc.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			dates := []string{got.window.Start.Format(time.RFC3339), got.window.End.Format(time.RFC3339)}
			if diff := cmp.Diff([]string{tc.start + "T00:00:00Z", tc.end + "T00:00:00Z"}, dates); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPageParameters(t *testing.T) {
	t.Parallel()
	type page struct {
		Number, Limit int
		Desc          bool
	}
	for name, tc := range map[string]struct {
		query    string
		maxLimit int
		want     page
		code     problem.Code
		location string
	}{
		"defaults":              {"", 100, page{1, 10, true}, "", ""},
		"default is capped":     {"", 5, page{1, 5, true}, "", ""},
		"given":                 {"page=3&limit=7&sortOrder=AsC", 100, page{3, 7, false}, "", ""},
		"empty":                 {"page=&limit=&sortOrder=", 100, page{1, 10, true}, "", ""},
		"largest":               {"limit=100&sortOrder=DESC", 100, page{1, 100, true}, "", ""},
		"last wins":             {"page=0&page=2", 100, page{2, 10, true}, "", ""},
		"last wins, empty":      {"page=0&page=", 100, page{1, 10, true}, "", ""},
		"huge page":             {"page=99999999999999999999999", 100, page{1<<63 - 1, 10, true}, "", ""},
		"page zero":             {"page=0", 100, page{}, problem.QueryInvalid, "query.page"},
		"page negative":         {"page=-1", 100, page{}, problem.QueryInvalid, "query.page"},
		"page signed":           {"page=%2B1", 100, page{}, problem.QueryInvalid, "query.page"},
		"page fraction":         {"page=1.0", 100, page{}, problem.QueryInvalid, "query.page"},
		"page blank":            {"page=%20", 100, page{}, problem.QueryInvalid, "query.page"},
		"limit zero":            {"limit=0", 100, page{}, problem.QueryInvalid, "query.limit"},
		"limit word":            {"limit=ten", 100, page{}, problem.QueryInvalid, "query.limit"},
		"limit too large":       {"limit=101", 100, page{}, problem.LimitTooLarge, "query.limit"},
		"limit beyond integers": {"limit=99999999999999999999", 100, page{}, problem.LimitTooLarge, "query.limit"},
		"sort order":            {"sortOrder=up", 100, page{}, problem.SortOrderInvalid, "query.sortOrder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := pageRules{maxLimit: tc.maxLimit, months: 1, now: time.Now}
			query, err := parseQuery(tc.query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := rules.parse(query)
			if tc.code != "" {
				checkFault(t, err, tc.code, tc.location)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, page{got.number, got.limit, got.desc}); diff != "" {
				t.Error(diff)
			}
			if stored := got.storePage(); stored.Number < 1 || stored.Number*stored.Limit < 0 {
				t.Errorf("the store gets %+v", stored)
			}
		})
	}
}

func TestQueryGuard(t *testing.T) {
	t.Parallel()
	long := letters
	for name, tc := range map[string]struct {
		query    string
		location string // empty: accepted
	}{
		"nothing":                  {"", ""},
		"unknown is ignored":       {"foo=bar&metadata=x&METADATA.a=b", ""},
		"dollar":                   {"$where=1", "query.$where"},
		"underscore":               {"_id=1", "query._id"},
		"key of 64":                {long(64) + "=1", ""},
		"key of 65":                {long(65) + "=1", "query." + long(65)},
		"value of 256":             {"a=" + long(256), ""},
		"value of 257":             {"a=" + long(257), "query.a"},
		"value of 256 runes":       {"a=" + "%C3%A9" + long(255), ""},
		"known value may be long":  {"type=" + long(300), ""},
		"metadata":                 {"metadata.a.b=1", ""},
		"metadata dollar":          {"metadata.$a=1", "query.metadata.$a"},
		"metadata dollar deeper":   {"metadata.a.$b=1", "query.metadata.a.$b"},
		"metadata underscore":      {"metadata._a=1", "query.metadata._a"},
		"metadata segments of 64":  {"metadata." + long(64) + "." + long(64) + "=1", ""},
		"metadata segment too big": {"metadata.a." + long(65) + "=1", "query.metadata.a." + long(65)},
		"metadata value too big":   {"metadata.a=" + long(257), "query.metadata.a"},
		"bad escape":               {"a=%zz", "query"},
		"semicolon":                {"a=1;b=2", "query"},
		"not UTF-8":                {"a=%ff", "query"},
		"NUL":                      {"type=%00", "query"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			query, err := parseQuery(tc.query)
			if err == nil {
				err = query.guard(map[string]bool{"type": true}, true)
			}
			if tc.location == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			checkFault(t, err, problem.QueryInvalid, tc.location)
		})
	}
}
