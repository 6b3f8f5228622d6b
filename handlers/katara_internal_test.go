package handlers

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/documents"
)

func TestRecent(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for age, want := range map[time.Duration]bool{
		0: true, recency: true, recency + time.Second: false, -clockSkew: true, -clockSkew - time.Second: false,
	} {
		if got := recent(now, now.Add(-age)); got != want {
			t.Errorf("%s ago: %v", age, got)
		}
	}
	if recent(now, time.Time{}) {
		t.Error("no sign-in at all is recent")
	}
}

func TestIsAccount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"acme/mia": true, "robot": true, "müller/mia": true, strings.Repeat("a", maxAccount): true,
		"": false, " ": false, "a b": false, "a\tb": false, "a\x7f": false, strings.Repeat("a", maxAccount+1): false,
	} {
		if got := isAccount(text); got != want {
			t.Errorf("%.20q: %v", text, got)
		}
	}
}

// TestEnveloped pins an error with every member, and one with the least of them.
func TestEnveloped(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("01a22ed4-8c31-7405-a762-b6ee25fa0b35")
	for want, fault := range map[string]*documents.Error{
		`{"error":{"message":"There is no such resource.","type":"resource","code":"not_found","param":null,"request_id":"r","upstream_status":null}}`: documents.Fault(documents.NotFound),
		`{"error":{"message":"m","type":"policy","code":"redirect_refused","param":"p","request_id":"r","upstream_status":302,"action":"support",` +
			`"operation_id":"01a22ed4-8c31-7405-a762-b6ee25fa0b35","snapshot_ref":"01a22ed4-8c31-7405-a762-b6ee25fa0b35"}}`: {
			Code: documents.RedirectRefused, Message: "m", Param: "p", UpstreamStatus: 302, Action: "support", OperationID: id, SnapshotRef: id,
		},
	} {
		text, err := encodeJSON(enveloped(fault, "r"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want+"\n", string(text)); diff != "" {
			t.Error(diff)
		}
		kept, err := renderError(fault)
		if err != nil {
			t.Fatal(err)
		}
		again, err := readdress(kept.Body, "r")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(text), string(again)); diff != "" {
			t.Error("kept and given again:", diff)
		}
	}
	if got := enveloped(&documents.Error{Code: documents.Internal, Message: strings.Repeat("é", 501)}, "").Fault.Message; got != strings.Repeat("é", 500) {
		t.Errorf("a message of %d bytes", len(got))
	}
}

// TestPanicBelowKatara: what nobody has foreseen is told in the terms of the path's contract, and not in its own words.
func TestPanicBelowKatara(t *testing.T) {
	t.Parallel()
	base, logs := newEdge(t, func(_ *edge, engine *gin.Engine) {
		for _, path := range []string{"/katara/v1/panic", "/v1/panic"} {
			engine.GET(path, func(*gin.Context) { panic("canary") })
		}
	})
	for path, want := range map[string]string{
		"/katara/v1/panic": `{"error":{"message":"Something unforeseen happened.","type":"internal","code":"internal","param":null,"request_id":"r","upstream_status":null,"action":"support"}}`,
		"/v1/panic":        `{"type":"/problems/FET-0002","title":"Internal Server Error","status":500,"detail":"Something unforeseen happened.","instance":"/v1/panic#r","code":"FET-0002"}`,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Request-ID", "r")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("%s: %d, %v", path, resp.StatusCode, err)
		}
		if diff := cmp.Diff(want+"\n", string(got)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	if strings.Contains(logs(), "canary") {
		t.Error("the log quotes the panic")
	}
}

// FuzzDecodeStrict: whatever is accepted is an object with exactly these members, each once.
func FuzzDecodeStrict(f *testing.F) {
	for _, seed := range []string{
		`{"url":"a","object_id":"b"}`, `{"url":"a","object_id":"b"}x`, `{"URL":"a"}`, `{"url":null}`, `{"url":"a","url":"a"}`, "", "null", "[]", "\ufeff{}",
		`{"url":"\ud800","object_id":""}`, `{"url":{"url":1}}`, `{"":0`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		ctx := context.WithValue(t.Context(), exchangeKey{}, &exchange{body: body})
		in, err := decodeStrict[SyncSource](ctx)
		if err != nil {
			fault := documents.AsError(err)
			if fault.Code != documents.InvalidRequest || fault.Param == "" || in != nil {
				t.Errorf("%q: %+v, %v", body, fault, in)
			}
			return
		}
		var members map[string]string
		if err := json.Unmarshal(body, &members); err != nil {
			t.Fatalf("%q was accepted: %v", body, err)
		}
		if diff := cmp.Diff(map[string]string{"url": *in.URL, "object_id": *in.ObjectID}, members); diff != "" {
			t.Errorf("%q: %s", body, diff)
		}
	})
}
