package events

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/fetcherhq/fetcher/dial"
)

const (
	webhookName    = "webhook"
	webhookTimeout = 10 * time.Second
	webhookAnswer  = 64 << 10 // more of an answer is not read
	structured     = "application/cloudevents+json; charset=utf-8"
)

// failure is why a delivery failed, in words that may be stored and logged.
type failure struct {
	reason string
	down   bool // for a reason that is not the event's: the transport rests
	err    error
}

func (f *failure) Error() string { return f.reason }
func (f *failure) Unwrap() error { return f.err }

// poster posts events to webhooks.
type poster struct {
	client *http.Client
	now    func() time.Time
}

// newPoster returns a poster that connects through the dialer only, follows no redirect and uses no proxy.
func newPoster(dialer func(ctx context.Context, network, address string) (net.Conn, error), conf *tls.Config, now func() time.Time) *poster {
	transport := &http.Transport{
		DialContext: dialer, TLSClientConfig: conf, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: webhookTimeout, MaxIdleConnsPerHost: postsAtOnce, IdleConnTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: 32 << 10,
	}
	return &poster{now: now, client: &http.Client{
		Transport: transport, Timeout: webhookTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (p *poster) close() { p.client.CloseIdleConnections() }

// post delivers m: as a whole CloudEvent in JSON, signed as Standard Webhooks has it. Any 2xx is a success.
func (p *poster) post(ctx context.Context, w Webhook, m *Message) error {
	key, err := w.key()
	if err != nil {
		return &failure{reason: "the webhook's secret can't be used", down: true, err: err}
	}
	if _, err = w.Host(); err != nil {
		return &failure{reason: "the webhook's address can't be used", down: true, err: err}
	}
	body, err := m.structured()
	if err != nil {
		return &failure{reason: "the event can't be written", err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return &failure{reason: "the webhook's address can't be used", down: true, err: ErrWebhookURL}
	}
	timestamp, signature := signWebhook(key, m.ID, p.now(), body)
	req.Header.Set("Content-Type", structured)
	req.Header.Set("User-Agent", "fetcher")
	req.Header.Set("Webhook-Id", m.ID)
	req.Header.Set("Webhook-Timestamp", timestamp)
	req.Header.Set("Webhook-Signature", signature)
	if m.Trace != "" {
		req.Header.Set("Traceparent", m.Trace)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return &failure{reason: unreachable(err), down: true, err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, webhookAnswer)) // so that the connection can be used again
	return judge(resp.StatusCode)
}

// judge says what a status means. Answers that are about the receiver rather than the event let the webhook rest.
func judge(status int) error {
	if status >= 200 && status < 300 {
		return nil
	}
	down := status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status < 400
	return &failure{reason: fmt.Sprintf("answered with status %d", status), down: down}
}

// unreachable says why there was no answer, without the words of the network, which name hosts.
func unreachable(err error) string {
	var (
		timeout net.Error
		verify  *tls.CertificateVerificationError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, dial.ErrNotAllowed):
		return "the host is not allowed"
	case errors.Is(err, dial.ErrNameNotFound):
		return "the host's name can't be resolved"
	case errors.As(err, &verify), errors.As(err, &record):
		return "TLS failed"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	}
	return "no connection"
}

// structured is m as one JSON document, as GET /v1/fetcher/{id}/events shows it.
func (m *Message) structured() ([]byte, error) {
	return json.Marshal(struct {
		SpecVersion     string          `json:"specversion"`
		ID              string          `json:"id"`
		Source          string          `json:"source"`
		Type            string          `json:"type"`
		Subject         string          `json:"subject"`
		Time            string          `json:"time"`
		DataContentType string          `json:"datacontenttype"`
		TenantID        string          `json:"tenantid"`
		Data            json.RawMessage `json:"data"`
	}{specVersion, m.ID, m.Source, m.Type, m.Subject, m.Time, dataContentType, m.TenantID, m.Data})
}
