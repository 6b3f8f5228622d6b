package events_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/events"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
)

// An event reaches the broker and the webhook, signed, and counts as published when both have it.
func TestDelivered(t *testing.T) {
	t.Parallel()
	p := newPlant(t, acme, "globex")
	r, b := newReceiver(t), &broker{}
	p.hook(acme, r)
	p.dispatcher(r.trust, func(o *events.Options) { o.Transports = []events.Transport{b} })
	job, other := p.end(acme), p.end("globex")
	p.eventually("both are published", func() bool { return p.count(acme, published) == 1 && p.count("globex", published) == 1 })

	want := map[string]any{
		"specversion": "1.0", "id": "fetcher.job.failed." + job.String(), "source": "/fetcher", "type": "fetcher.job.failed",
		"subject": job.String(), "time": "2026-02-03T04:05:06.12Z", "datacontenttype": "application/json", "tenantid": acme,
		"data": map[string]any{
			"jobId": job.String(), "status": "failed", "metadata": map[string]any{"note": "<&>"},
			"error": map[string]any{"code": "FET-1025", "message": "the job was canceled"},
		},
	}
	got := r.requests()
	if len(got) != 1 {
		t.Fatalf("%d requests", len(got))
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(got[0].body), &body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	h := got[0].header
	if id := h.Get("Webhook-Id"); id != want["id"] {
		t.Errorf("webhook-id %s", id)
	}
	key := must(base64.StdEncoding.DecodeString(strings.TrimPrefix(hookSecret, "whsec_")))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(h.Get("Webhook-Id") + "." + h.Get("Webhook-Timestamp") + "." + got[0].body))
	if sig := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); h.Get("Webhook-Signature") != sig {
		t.Errorf("webhook-signature %s, want %s", h.Get("Webhook-Signature"), sig)
	}
	if h.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" || h.Get("Traceparent") == "" {
		t.Errorf("headers %v", h)
	}
	seen := map[string]string{}
	for _, m := range b.messages() {
		key := must(p.keys.ExternalHMACKey(1, m.TenantID))
		if m.Signature != events.Sign(key, m.ID, m.Time, m.Data) || m.KeyVersion != 1 {
			t.Errorf("signature %s of %+v", m.Signature, m)
		}
		seen[m.TenantID] = m.Subject + " " + m.Kind()
	}
	if diff := cmp.Diff(map[string]string{acme: job.String() + " job.failed", "globex": other.String() + " job.failed"}, seen); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	p.eventually("no mark is left", func() bool {
		var marks int
		_ = p.control.Pool().QueryRow(t.Context(), `SELECT count(*) FROM event_marks`).Scan(&marks)
		return marks == 0
	})
}

// A receiver that is down gets its events when it is back, and holds up neither the broker nor other tenants.
func TestReceiverDownForAWhile(t *testing.T) {
	t.Parallel()
	p := newPlant(t, acme, "globex")
	r, b := newReceiver(t), &broker{}
	p.hook(acme, r)
	r.answer(http.StatusServiceUnavailable)
	p.dispatcher(r.trust, func(o *events.Options) { o.Transports = []events.Transport{b} })
	const n = 5
	for range n {
		p.end(acme)
	}
	p.end("globex")
	p.eventually("the broker has all", func() bool { return len(b.messages()) == n+1 })
	p.eventually("it is tried again", func() bool { return r.attempts() > 2 })
	p.eventually("the other tenant's is published", func() bool { return p.count("globex", published) == 1 })
	if got := p.count(acme, published); got != 0 {
		t.Errorf("%d published", got)
	}
	r.answer(http.StatusOK)
	p.eventually("all are published", func() bool { return p.count(acme, published) == n })
	ids := map[string]int{}
	for _, got := range r.requests() {
		ids[got.header.Get("Webhook-Id")]++
	}
	if len(ids) != n || len(b.messages()) != n+1 {
		t.Errorf("ids %v, %d messages", ids, len(b.messages()))
	}
	if failures := p.count(acme, `SELECT count(*) FROM event_transports`); failures != 0 {
		t.Errorf("%d transports rest", failures)
	}
}

// A receiver that is down for more than a day loses nothing: events are parked, shown, and sent again on request.
func TestParkedAndReplayed(t *testing.T) {
	t.Parallel()
	p := newPlant(t, acme)
	r, b := newReceiver(t), &broker{}
	p.hook(acme, r)
	r.answer(http.StatusNotFound)
	p.dispatcher(r.trust, func(o *events.Options) {
		o.Transports = []events.Transport{b}
		o.RetryUnit, o.RetryMax = 100*time.Millisecond, 100*time.Millisecond
	})
	job, fresh := p.end(acme), p.end(acme)
	p.eventually("both were tried", func() bool {
		return p.count(acme, `SELECT count(*) FROM event_deliveries WHERE transport = 'webhook' AND attempts > 0`) == 2
	})
	p.exec(acme, `UPDATE event_deliveries SET begun_at = begun_at - interval '24 hours' WHERE event_id = $1`, "fetcher.job.failed."+job.String())
	p.eventually("the older one is parked", func() bool {
		return p.count(acme, `SELECT count(*) FROM outbox_events WHERE parked_at IS NOT NULL`) == 1
	})
	r.answer(http.StatusOK)
	p.eventually("the other one is published", func() bool { return p.count(acme, published) == 1 })
	p.eventually("the mark tells", func() bool {
		all, err := p.control.EventBacklog(t.Context())
		return err == nil && all.Parked == 1 && all.Pending == 0
	})
	if ids := must(p.control.TenantsWithParkedEvents(t.Context())); !cmp.Equal(ids, []string{acme}) {
		t.Errorf("tenants %v", ids)
	}
	lease := must(p.tenants.Acquire(t.Context(), acme))
	defer lease.Release()
	outbox := store.NewOutbox(lease.DB(t.Context()))
	parked := must(outbox.Parked(t.Context(), nil))
	if len(parked) != 1 || parked[0].JobID != job || parked[0].Transport != "webhook" || parked[0].Reason != "answered with status 404" || parked[0].Attempts < 1 {
		t.Errorf("parked %+v", parked)
	}
	if n := must(outbox.Replay(t.Context(), &fresh)); n != 0 {
		t.Errorf("%d replayed of a job without parked events", n)
	}
	if n := must(outbox.Replay(t.Context(), &job)); n != 1 {
		t.Errorf("%d replayed", n)
	}
	if err := p.control.MarkEvents(t.Context(), acme); err != nil {
		t.Fatal(err)
	}
	p.eventually("the replayed one is published", func() bool { return p.count(acme, published) == 2 })
	if got := r.requests(); len(got) != 2 || got[1].header.Get("Webhook-Id") != "fetcher.job.failed."+job.String() {
		t.Errorf("requests %+v", got)
	}
	if len(b.messages()) != 2 { // it had its copies long ago
		t.Errorf("%d messages", len(b.messages()))
	}
}

// When a receiver has been unreachable for a day, what waits for it is parked without being tried one by one.
func TestParkedTogether(t *testing.T) {
	t.Parallel()
	p := newPlant(t, acme)
	r := newReceiver(t)
	p.hook(acme, r)
	r.answer(http.StatusBadGateway)
	const n = 20
	for range n {
		p.end(acme)
	}
	p.dispatcher(r.trust, func(o *events.Options) { o.RetryUnit, o.RetryMax = 100*time.Millisecond, 100*time.Millisecond })
	p.eventually("it is tried", func() bool { return r.attempts() > 0 && p.count(acme, `SELECT count(*) FROM event_deliveries`) == n })
	p.exec(acme, `UPDATE event_deliveries SET begun_at = begun_at - interval '24 hours'`)
	p.eventually("all are parked", func() bool {
		return p.count(acme, `SELECT count(*) FROM outbox_events WHERE parked_at IS NOT NULL`) == n
	})
}

// A webhook is reached under the rules for sources, over TLS it can trust, and redirects are not followed.
func TestWebhookRules(t *testing.T) {
	t.Parallel()
	elsewhere := newReceiver(t)
	for _, test := range []struct {
		name, reason string
		change       func(*receiver, *events.Options)
	}{
		{"private address", "the host is not allowed", func(_ *receiver, o *events.Options) { o.Guard = must(dial.NewGuard(dial.Policy{})) }},
		{"unknown certificate", "TLS failed", func(_ *receiver, o *events.Options) { o.TLS = nil }},
		{"redirect", "answered with status 307", func(r *receiver, _ *events.Options) {
			r.status, r.header = http.StatusTemporaryRedirect, http.Header{"Location": {elsewhere.server.URL}}
		}},
		{"nobody there", "no connection", func(r *receiver, _ *events.Options) { r.server.Close() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t, acme)
			r := newReceiver(t)
			p.hook(acme, r)
			p.dispatcher(r.trust, func(o *events.Options) { test.change(r, o) })
			p.end(acme)
			var reason string
			p.eventually("it was tried", func() bool {
				err := p.pools[acme].QueryRow(t.Context(), `SELECT reason FROM event_deliveries WHERE attempts > 0`).Scan(&reason)
				return err == nil
			})
			if reason != test.reason {
				t.Errorf("reason %q", reason)
			}
			if len(r.requests())+elsewhere.attempts() != 0 {
				t.Error("it was delivered")
			}
		})
	}
}

// A suspended tenant's events are sent; the marks of a tenant that is gone disappear.
func TestSuspendedAndGone(t *testing.T) {
	t.Parallel()
	p := newPlant(t, acme)
	b := &broker{}
	p.endUnmarked(acme)
	if _, err := p.control.SetTenantStatus(t.Context(), acme, control.TenantSuspended); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{acme, "nobody"} {
		if err := p.control.MarkEvents(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	p.dispatcher(func(o *events.Options) { o.Transports = []events.Transport{b} })
	p.eventually("no mark is left", func() bool {
		var marks int
		err := p.control.Pool().QueryRow(t.Context(), `SELECT count(*) FROM event_marks`).Scan(&marks)
		return err == nil && marks == 0
	})
	if n := p.count(acme, published); n != 1 || len(b.messages()) != 1 {
		t.Errorf("%d published, %d messages", n, len(b.messages()))
	}
}

// Several dispatchers share the work: every event is sent, and none twice while all of them live.
func TestSeveralDispatchers(t *testing.T) {
	t.Parallel()
	p := newPlant(t, acme, "globex")
	b := &broker{}
	for range 3 {
		p.dispatcher(func(o *events.Options) { o.Transports, o.Batch = []events.Transport{b}, 3 })
	}
	const n = 30
	for range n {
		p.end(acme)
		p.end("globex")
	}
	p.eventually("all are published", func() bool { return p.count(acme, published)+p.count("globex", published) == 2*n })
	ids := map[string]int{}
	for _, m := range b.messages() {
		ids[m.ID]++
	}
	if len(ids) != 2*n || len(b.messages()) != 2*n {
		t.Errorf("%d ids in %d messages", len(ids), len(b.messages()))
	}
}

// vanishing is the control database of a dispatcher that dies before it has noted anything.
type vanishing struct {
	*control.DB

	dead atomic.Bool
}

func (v *vanishing) SettleEventMark(ctx context.Context, m control.EventMark, left control.Backlog) error {
	if v.dead.Load() {
		return errors.New("dead")
	}
	return v.DB.SettleEventMark(ctx, m, left)
}

// What a dispatcher that died had claimed is taken over.
func TestClaimIsTakenOver(t *testing.T) {
	t.Parallel()
	p := newPlant(t, acme)
	dead := &vanishing{DB: p.control}
	dead.dead.Store(true)
	broken := &broker{err: errors.New("down")}
	d := p.dispatcher(func(o *events.Options) { o.Marks, o.Transports = dead, []events.Transport{broken} })
	p.end(acme)
	p.eventually("it is claimed and tried", func() bool { return p.count(acme, `SELECT count(*) FROM event_deliveries WHERE attempts > 0`) == 1 })
	if err := d.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.control.Pool().Exec(t.Context(), `UPDATE event_marks SET claimed_until = now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	b := &broker{}
	p.dispatcher(func(o *events.Options) { o.Transports = []events.Transport{b} })
	p.eventually("it is published", func() bool { return p.count(acme, published) == 1 })
}

// Without any transport events are published at once: they are read at the API.
func TestNoTransport(t *testing.T) {
	t.Parallel()
	p := newPlant(t, acme)
	p.dispatcher()
	p.end(acme)
	p.eventually("it is published", func() bool { return p.count(acme, published) == 1 })
}

func TestPurge(t *testing.T) {
	t.Parallel()
	p := newPlant(t, acme)
	p.dispatcher()
	old, young := p.end(acme), p.end(acme)
	p.eventually("both are published", func() bool { return p.count(acme, published) == 2 })
	p.exec(acme, `UPDATE outbox_events SET published_at = published_at - interval '7 days' WHERE job_id = $1`, old)
	lease := must(p.tenants.Acquire(t.Context(), acme))
	defer lease.Release()
	outbox := store.NewOutbox(lease.DB(t.Context()))
	if n := must(outbox.Purge(t.Context(), 7*24*time.Hour, 10)); n != 1 {
		t.Errorf("%d purged", n)
	}
	var left uuid.UUID
	if err := p.pools[acme].QueryRow(t.Context(), `SELECT job_id FROM outbox_events`).Scan(&left); err != nil || left != young {
		t.Errorf("left %s, %v", left, err)
	}
}

func TestWebhookValidate(t *testing.T) {
	t.Parallel()
	const url = "https://hooks.example.com/a?b=c"
	for _, test := range []struct {
		url, secret string
		want        error
	}{
		{url, hookSecret, nil},
		{url, events.GenerateWebhookSecret(), nil},
		{"http://hooks.example.com", hookSecret, events.ErrWebhookURL},
		{"https://user:pw@hooks.example.com", hookSecret, events.ErrWebhookURL},
		{"https://", hookSecret, events.ErrWebhookURL},
		{"https://hooks.example.com/#a", hookSecret, events.ErrWebhookURL},
		{"://", hookSecret, events.ErrWebhookURL},
		{url, "", events.ErrWebhookSecret},
		{url, "whsec_", events.ErrWebhookSecret},
		{url, "whsec_c2hvcnQ=", events.ErrWebhookSecret},
		{url, strings.TrimPrefix(hookSecret, "whsec_"), events.ErrWebhookSecret},
	} {
		if err := (events.Webhook{URL: test.url, Secret: test.secret}).Validate(); !errors.Is(err, test.want) {
			t.Errorf("%s %s: %v", test.url, test.secret, err)
		}
	}
}
