package handlers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/problem"
)

// checkRefusal fails on an error that is no 4xx or that names no place.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var fault *problem.Error
	if !errors.As(err, &fault) || fault.Code.Info().Status/100 != 4 || len(fault.Fields) == 0 || fault.Fields[0].Location == "" {
		t.Errorf("error %v", err)
	}
}

func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"name":"x","port":1,"inner":{"flag":true},"list":[{"a":1}],"free":{"x":[1.0]}}`, `{"name":1}`, "\ufeff{}",
		`{"list":[{"a":1},{"a":"x"}]}`, `{"name":"x","name":"y"}`, `{"a":[[[[{"b":{"c":[]}}]]]]}`,
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, strict bool) {
		_, err := decodeText(text, strict)
		checkRefusal(t, err)
	})
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"", "page=1&limit=2&sortOrder=asc", "startDate=2024-01-31&endDate=2024-02-29", "metadata.a.b=c&type=x", "%zz", "$a=1",
		"page=99999999999999999999&limit=0", "endDate=9999-12-31", "startDate=0001-01-01",
	} {
		f.Add(seed)
	}
	rules := pageRules{maxLimit: 100, months: 1, now: time.Now}
	known := knownParams(rules.pageParams())
	f.Fuzz(func(t *testing.T, raw string) {
		query, err := parseQuery(raw)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		checkRefusal(t, query.guard(known, true))
		page, err := rules.parse(query)
		checkRefusal(t, err)
		if err == nil && (page.window.Start.After(page.window.End) || page.number < 1 || page.limit < 1 || page.limit > 100) {
			t.Errorf("%q gives %+v", raw, page)
		}
		_ = query.metadata()
	})
}

func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		`{"configName":null,"port":1,"ssl":{"mode":"x","ca":null}}`, `{"ssl":null,"metadata":null}`, `{"ssl":[],"port":"1"}`,
		`{"port":1e400}`, `{"metadata":{"a":{"b":null}},"schema":""}`, `{"host":{"host":null}}`, `{"ssl":{"mode":{"x":[null]}}}`,
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, strict bool) {
		var body UpdateConnection
		ex := &exchange{edge: &edge{opts: Options{StrictJSON: strict}}, body: []byte(text)}
		err := decodeBody(context.WithValue(t.Context(), exchangeKey{}, ex), &body)
		checkRefusal(t, err)
		if p := body.patch(); err == nil && p.SSL.Given != body.SSL.Given || !p.Port.Given && p.Port.Value != nil {
			t.Errorf("%q gives another patch", text)
		}
	})
}
