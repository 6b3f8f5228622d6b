// Package events owns the way of a job's event from the tenant's outbox to whoever waits for it: the dispatcher, the
// brokers, the webhooks and their signatures.
//
// It touches tenants' outboxes through leases, the marks in the control database that say which tenants to look at, the
// brokers that the operator configured, and tenants' webhooks through the guarded dialer. It promises:
//
//   - An event in an outbox is handed to every transport at least once, whichever process dies when. It may be handed
//     over again; its id is the same then.
//   - A transport that is down holds up no other transport and no other tenant.
//   - What a transport does not take within a day of trying is parked: kept, counted, and sent again on request.
//   - No host, secret or text of a peer shows in errors, logs or the reasons that are stored.
package events

import (
	"context"
	"time"

	"github.com/fetcherhq/fetcher/store"
)

// Message is one event as transports send it.
type Message struct {
	ID       string // the same for every delivery
	Type     string // fetcher.job.completed or fetcher.job.failed
	Source   string
	Subject  string // the job's id
	Time     string // RFC 3339, in the text that is sent and signed
	TenantID string
	Data     []byte // JSON

	Trace      string // W3C traceparent; may be empty
	Signature  string // of the broker's copy
	KeyVersion int    // that it was signed with
}

const (
	specVersion     = "1.0"
	dataContentType = "application/json"
	typePrefix      = "fetcher."

	headerSignature  = "fetcher-signature"
	headerKeyVersion = "fetcher-key-version"
	headerTrace      = "traceparent"
)

// Kind is the type without the product: job.completed or job.failed. It is the routing key.
func (m *Message) Kind() string { return m.Type[min(len(typePrefix), len(m.Type)):] }

// attribute is one attribute of CloudEvents.
type pair struct{ name, value string }

// attributes lists those that are sent beside the data, but for datacontenttype, which transports have a place for.
func (m *Message) attributes() []pair {
	all := []pair{
		{"specversion", specVersion}, {"id", m.ID}, {"source", m.Source}, {"type", m.Type}, {"subject", m.Subject},
		{"time", m.Time}, {"tenantid", m.TenantID},
	}
	if m.Trace != "" {
		all = append(all, pair{headerTrace, m.Trace}) // the extension for distributed tracing
	}
	return all
}

func newMessage(source, tenantID string, d store.Delivery) *Message {
	return &Message{
		ID: d.ID, Type: d.Type, Source: source, Subject: d.JobID.String(), Time: d.Time.UTC().Format(time.RFC3339Nano),
		TenantID: tenantID, Data: d.Data, Trace: d.Trace,
	}
}

// Transport is a broker. It is safe for concurrent use.
type Transport interface {
	// Name is that of its scheme. What is undelivered is remembered under it.
	Name() string
	// Publish returns nil when the broker has taken the message for good.
	Publish(ctx context.Context, m *Message) error
	// Check returns nil when the broker can be used at the moment.
	Check(ctx context.Context) error
	Close(ctx context.Context) error
}
