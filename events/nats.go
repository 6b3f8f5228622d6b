package events

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const natsPrefix = "ce-"

// natsStream publishes to subjects that a JetStream stream must cover. Without a stream nothing says that a message was
// taken, so plain NATS is no transport here.
type natsStream struct {
	url, subject string

	mu   sync.Mutex
	conn *nats.Conn
}

// Name implements Transport.
func (*natsStream) Name() string { return schemeNATS }

// Publish implements Transport. The stream drops repeats of an id within its own window.
func (n *natsStream) Publish(ctx context.Context, m *Message) error {
	ctx, cancel := context.WithTimeout(ctx, brokerAnswer)
	defer cancel()
	stream, err := n.stream()
	if err != nil {
		return &failure{reason: "the broker can't be reached", down: true, err: err}
	}
	msg := &nats.Msg{Subject: n.subject + "." + m.Kind(), Data: m.Data, Header: nats.Header{
		"content-type":   {dataContentType},
		headerSignature:  {m.Signature},
		headerKeyVersion: {strconv.Itoa(m.KeyVersion)},
	}}
	for _, a := range m.attributes() {
		msg.Header[natsPrefix+a.name] = []string{a.value}
	}
	if _, err = stream.PublishMsg(ctx, msg, jetstream.WithMsgID(m.ID)); err != nil {
		return &failure{reason: natsReason(err), down: true, err: err}
	}
	return nil
}

func natsReason(err error) string {
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return "no stream covers the subject"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return "the broker gave no answer in time"
	}
	return "the broker did not take the event"
}

func (n *natsStream) stream() (jetstream.JetStream, error) {
	conn, err := n.connect()
	if err != nil {
		return nil, err
	}
	return jetstream.New(conn)
}

// connect returns the connection, which the library keeps up once it came about.
func (n *natsStream) connect() (*nats.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn != nil && !n.conn.IsClosed() {
		return n.conn, nil
	}
	conn, err := nats.Connect(n.url, nats.Name("fetcher"), nats.Timeout(brokerConnect), nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1)) // while it is away, publishing fails instead of piling up
	if err != nil {
		return nil, err
	}
	n.conn = conn
	return conn, nil
}

// Check implements Transport.
func (n *natsStream) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, brokerConnect)
	defer cancel()
	conn, err := n.connect()
	if err != nil {
		return err
	}
	return conn.FlushWithContext(ctx)
}

// Close implements Transport.
func (n *natsStream) Close(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn != nil {
		n.conn.Close()
	}
	return nil
}
