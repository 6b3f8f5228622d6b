package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// listings are the operations with pages.
func listings() []string { return []string{managed, managed + "/unassigned", "/v1/fetcher"} }

// testPagination is what section 4 says of the parameters themselves.
func testPagination(t *testing.T, s *apiSuite) {
	c := s.admin()
	type refused struct{ query, code, location string }
	rows := []refused{
		{"page=0", "FET-0405", "query.page"}, {"page=-1", "FET-0405", "query.page"}, {"page=x", "FET-0405", "query.page"},
		{"page=1.5", "FET-0405", "query.page"}, {"page=%201", "FET-0405", "query.page"}, {"page=1e1", "FET-0405", "query.page"},
		{"page=0x1", "FET-0405", "query.page"},
		{"limit=0", "FET-0405", "query.limit"}, {"limit=-5", "FET-0405", "query.limit"}, {"limit=ten", "FET-0405", "query.limit"},
		{"limit=101", "FET-0406", "query.limit"}, {"limit=1000000", "FET-0406", "query.limit"}, {"limit=99999999999999999999", "FET-0406", "query.limit"},
		{"sortOrder=up", "FET-0407", "query.sortOrder"}, {"sortOrder=ascending", "FET-0407", "query.sortOrder"},
		{"sortOrder=-1", "FET-0407", "query.sortOrder"},
		{"startDate=yesterday", "FET-0408", "query.startDate"}, {"startDate=2026-02-30", "FET-0408", "query.startDate"},
		{"startDate=2026-1-1", "FET-0408", "query.startDate"}, {"startDate=2026-01-01T00:00:00Z", "FET-0408", "query.startDate"},
		{"endDate=01-01-2026", "FET-0408", "query.endDate"}, {"endDate=20260101", "FET-0408", "query.endDate"},
		{"endDate=2026-13-01", "FET-0408", "query.endDate"},
		{"startDate=2026-01-02&endDate=2026-01-01", "FET-0409", ""},
		{"limit=1&limit=x", "FET-0405", "query.limit"}, // the last one wins
	}
	for _, path := range listings() {
		for _, row := range rows {
			f := c.failsAnywhere(t, row.code, get(path+"?"+row.query))
			if row.location != "" {
				if diff := cmp.Diff([]string{row.location}, f.locations()); diff != "" {
					t.Errorf("%s?%s: %s", path, row.query, diff)
				}
			}
		}
		for _, query := range []string{
			"$where=1", "_id=1", "%24x=1", strings.Repeat("k", 65) + "=1", "other=" + strings.Repeat("v", 257),
			"x=%zz", "x=%ff%", "a;b=1", "x=%e0%80",
		} {
			c.failsAnywhere(t, "FET-0405", get(path+"?"+query))
		}
		for _, query := range []string{
			"", "page=&limit=&sortOrder=&startDate=&endDate=&type=&status=", "limit=x&limit=1", "page=x&page=2", "limit=100",
			"sortOrder=ASC", "sortOrder=Desc", "unknown=1&also=%24x", strings.Repeat("k", 64) + "=" + strings.Repeat("v", 256), "page=1000000", "page=99999999999999999999",
		} {
			c.succeeds(t, http.StatusOK, get(path+"?"+query))
		}
	}
	for _, query := range []string{"$a=1", "a.$b=1", "a._b=1", strings.Repeat("k", 65) + "=1", "a." + strings.Repeat("k", 65) + "=1", "a=" + strings.Repeat("v", 257)} {
		c.failsAnywhere(t, "FET-0405", get(managed+"?metadata."+query))
	}
	c.fails(t, "FET-0405", get("/v1/fetcher?status=done"), "query.status")
	for _, status := range []string{"pending", "processing", "completed", "failed"} {
		c.succeeds(t, http.StatusOK, get("/v1/fetcher?status="+status))
	}

	// Numbers of an operator's own.
	few := s.manager(t, "MAX_PAGINATION_LIMIT=4", "MAX_PAGINATION_MONTH_DATE_RANGE=3")
	few.fails(t, "FET-0406", get(managed+"?limit=5"), "query.limit")
	var page struct{ Limit int }
	few.succeeds(t, http.StatusOK, get(managed)).Decode(t, &page)
	if page.Limit != 4 {
		t.Errorf("the default limit is %d", page.Limit)
	}
}

// failsAnywhere is fails without a look at the locations.
func (c caller) failsAnywhere(t *testing.T, code string, r call) fault {
	t.Helper()
	got := c.do(t, r)
	var f fault
	if got.Status >= http.StatusBadRequest {
		got.Decode(t, &f)
	}
	if f.Code != code {
		t.Errorf("%s %s %.300s\ngot  %d: %.1000s\nwant %s", r.method, r.path, r.body, got.Status, got.Body, code)
	}
	return f
}

// page is a page of connections, by their names.
type page struct {
	Names       []string
	Page, Limit int
	Total       int
}

func (c caller) list(t *testing.T, path string, headers ...string) page {
	t.Helper()
	var body struct {
		Items       []connection
		Page, Limit int
		Total       int
	}
	got := c.succeeds(t, http.StatusOK, get(path, headers...))
	got.Decode(t, &body)
	if !strings.Contains(string(got.Body), `"items":[`) {
		t.Errorf("items is no array: %s", got.Body)
	}
	out := page{Names: []string{}, Page: body.Page, Limit: body.Limit, Total: body.Total}
	for _, item := range body.Items {
		out.Names = append(out.Names, item.ConfigName)
	}
	return out
}

// testLists is what section 4 says of the rows.
func testLists(t *testing.T, s *apiSuite) {
	c := s.tenant(t, "lists")
	if got := c.list(t, managed); !cmp.Equal(got, page{[]string{}, 1, 10, 0}) {
		t.Errorf("nothing: %+v", got)
	}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	day := func(n int) string { return today.AddDate(0, 0, n).Format(time.DateOnly) }
	rows := []struct {
		name    string
		created time.Time
		changes object
	}{
		{"row-45", today.AddDate(0, 0, -45), object{"metadata": object{"n": 5, "deep": object{"er": "x", "flag": true}}}},
		{"row-20", today.AddDate(0, 0, -20), object{"metadata": object{"n": "5", "word": "a b", "deep": object{"er": "y"}}}},
		{"row-10", today.AddDate(0, 0, -10).Add(12 * time.Hour), object{"metadata": object{"n": 5.0, "big": json.Number("12345678901234567890"), "flag": true}}},
		{"row-0", today, object{"type": "MYSQL", "ssl": nil, "metadata": object{"n": 5, "flag": "true", "list": []int{5}, "none": nil}}},
		{"row-0-noon", today.Add(12 * time.Hour), object{"type": "MYSQL", "ssl": nil}},
	}
	for _, row := range rows {
		made := c.create(t, "p", row.changes)
		s.superuser(t, "lists", "UPDATE connections SET created_at = $1, config_name = $2 WHERE id = $3", row.created, row.name, made.ID)
	}
	all := []string{"row-0-noon", "row-0", "row-10", "row-20"} // row-45 is outside of the default window
	want := func(names ...string) page { return page{append([]string{}, names...), 1, 10, len(names)} }
	for query, expected := range map[string]page{
		"":                      want(all...),
		"sortOrder=asc":         want("row-20", "row-10", "row-0", "row-0-noon"),
		"sortOrder=DESC":        want(all...),
		"limit=3":               {all[:3], 1, 3, 4},
		"limit=3&page=2":        {all[3:], 2, 3, 4},
		"limit=3&page=3":        {[]string{}, 3, 3, 4},
		"page=9&page=1":         want(all...),
		"startDate=" + day(-20): want("row-20"),
		"startDate=" + day(-10): want("row-10"),
		"startDate=" + day(-21): want("row-20"), // its end, inclusive at midnight
		"startDate=" + day(0):   want("row-0-noon", "row-0"),
		"endDate=" + day(-10):   want("row-20"), // the rest of the day is outside
		"endDate=" + day(-9):    want("row-10", "row-20"),
		"endDate=" + day(0):     want("row-0", "row-10", "row-20"),
		"startDate=" + day(-10) + "&endDate=" + day(-10): want("row-10"),
		"startDate=" + day(-46) + "&endDate=" + day(-44): want("row-45"),
		"startDate=" + day(-60) + "&endDate=" + day(0):   want("row-0", "row-10", "row-20"), // the start moved forward
		"startDate=" + day(-10) + "&endDate=":            want("row-10"),
		"type=mysql":                                     want("row-0-noon", "row-0"),
		"type=POSTGRESQL":                                want("row-10", "row-20"),
		"type=nonsense":                                  want(),
		"metadata.n=5":                                   want("row-0", "row-10", "row-20"),
		"metadata.word=a+b":                              want("row-20"),
		"metadata.word=a":                                want(),
		"metadata.deep.er=y":                             want("row-20"),
		"metadata.flag=true":                             want("row-0", "row-10"),
		"metadata.big=12345678901234567890":              want("row-10"),
		"metadata.big=12345678901234567891":              want(),
		"metadata.n=5&metadata.flag=true":                want("row-0", "row-10"),
		"metadata.n=5&metadata.word=other":               want(),
		"metadata.n=5&type=mysql&limit=1":                {[]string{"row-0"}, 1, 1, 1},
		"metadata.nothing=1":                             want(),
		"metadata.n=1&metadata.n=5&type=mysql":           want("row-0"),
	} {
		if diff := cmp.Diff(expected, c.list(t, managed+"?"+query)); diff != "" {
			t.Errorf("%s (-want +got): %s", query, diff)
		}
	}
	for _, query := range []string{ // the noon after the end is outside
		"startDate=" + day(-11), "startDate=" + day(-11) + "&endDate=" + day(-11), "startDate=" + day(-12) + "&endDate=" + day(-10),
	} {
		if diff := cmp.Diff(want(), c.list(t, managed+"?"+query)); diff != "" {
			t.Errorf("%s (-want +got): %s", query, diff)
		}
	}
	testWindowEdge(t, s, c, today)
	s.superuser(t, "lists", "UPDATE connections SET product_name = NULL WHERE config_name <> 'row-10'")
	for query, expected := range map[string]page{
		"":                             want("row-0-noon", "row-0", "row-20"),
		"sortOrder=asc&limit=1&page=2": {[]string{"row-0"}, 2, 1, 3},
		"type=mysql":                   want("row-0-noon", "row-0", "row-20"), // of list-connections only
		"metadata.n=7":                 want("row-0-noon", "row-0", "row-20"),
		"endDate=" + day(-10):          want("row-20"),
	} {
		if diff := cmp.Diff(expected, c.list(t, managed+"/unassigned?"+query, "X-Product-Name", "p")); diff != "" {
			t.Errorf("unassigned, %s (-want +got): %s", query, diff)
		}
	}
	testInternalFirst(t, s)
	testTies(t, s, c)
}

// testWindowEdge: the default window starts a calendar month before tomorrow, to the microsecond, and so does one that was
// too wide.
func testWindowEdge(t *testing.T, s *apiSuite, c caller, today time.Time) {
	t.Helper()
	tomorrow := today.AddDate(0, 0, 1)
	first := time.Date(tomorrow.Year(), tomorrow.Month()-1, 1, 0, 0, 0, 0, time.UTC)
	edge := first.AddDate(0, 0, min(tomorrow.Day(), first.AddDate(0, 1, -1).Day())-1)
	for name, created := range map[string]time.Time{
		"edge-before": edge.Add(-time.Microsecond), "edge-start": edge, "edge-end": tomorrow, "edge-after": tomorrow.Add(time.Microsecond),
	} {
		made := c.create(t, "edge", nil)
		s.superuser(t, "lists", "UPDATE connections SET created_at = $1, config_name = $2 WHERE id = $3", created, name, made.ID)
	}
	for _, query := range []string{"", "endDate=" + tomorrow.Format(time.DateOnly), "startDate=2001-01-01&endDate=" + tomorrow.Format(time.DateOnly)} {
		got := c.list(t, managed+"?"+query, "X-Product-Name", "edge")
		if diff := cmp.Diff(page{[]string{"edge-end", "edge-start"}, 1, 10, 2}, got); diff != "" {
			t.Errorf("%q (-want +got): %s", query, diff)
		}
	}
	s.superuser(t, "lists", "DELETE FROM connections WHERE product_name = 'edge'")
}

// testInternalFirst: internal datasources lead the first page, on top of the limit, and count on every page.
func testInternalFirst(t *testing.T, s *apiSuite) {
	c, product := s.admin(), unique("internal")
	names := []string{c.create(t, product, nil).ConfigName, c.create(t, product, nil).ConfigName}
	for query, want := range map[string]page{
		"limit=1":                       {[]string{internalDown, names[1]}, 1, 1, 3},
		"limit=1&page=2":                {[]string{names[0]}, 2, 1, 3},
		"startDate=2001-01-01":          {[]string{internalDown}, 1, 10, 1},
		"metadata.a=b":                  {[]string{internalDown}, 1, 10, 1},
		"type=mysql":                    {[]string{}, 1, 10, 0},
		"type=postgresql&sortOrder=asc": {[]string{internalDown, names[0], names[1]}, 1, 10, 3},
	} {
		if diff := cmp.Diff(want, c.list(t, managed+"?"+query, "X-Product-Name", product)); diff != "" {
			t.Errorf("%s (-want +got): %s", query, diff)
		}
	}
}

// testTies: rows of one instant come in the order of their ids, in pages without gaps.
func testTies(t *testing.T, s *apiSuite, c caller) {
	s.superuser(t, "lists", "UPDATE connections SET created_at = now(), product_name = 'ties'")
	var ids []string
	for number := range 5 {
		var body struct{ Items []connection }
		c.succeeds(t, http.StatusOK, get(fmt.Sprintf("%s?limit=1&sortOrder=asc&page=%d", managed, number+1), "X-Product-Name", "ties")).Decode(t, &body)
		if len(body.Items) != 1 {
			t.Fatalf("page %d has %d items", number+1, len(body.Items))
		}
		if len(ids) > 0 && ids[len(ids)-1] >= body.Items[0].ID {
			t.Errorf("page %d: %s does not come after %s", number+1, body.Items[0].ID, ids[len(ids)-1])
		}
		ids = append(ids, body.Items[0].ID)
	}
	c.succeeds(t, http.StatusOK, get(managed+"?"+url.Values{"metadata.word": {"a b"}}.Encode()))
}
