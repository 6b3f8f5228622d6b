package events

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	brokerConnect   = 5 * time.Second
	brokerAnswer    = 10 * time.Second // for the broker to take a message
	rabbitHeartbeat = 10 * time.Second

	// rabbitPrefix is what the AMQP binding of CloudEvents puts before the names of attributes.
	rabbitPrefix = "cloudEvents_"
)

// rabbit publishes to an exchange with publisher confirms, over one connection that it opens when it is needed.
type rabbit struct {
	url, exchange string
	unrouted      func(ctx context.Context)

	mu      sync.Mutex
	conn    *amqp.Connection
	channel *amqp.Channel
	work    sync.WaitGroup
}

// Name implements Transport.
func (*rabbit) Name() string { return schemeRabbit }

// Publish implements Transport. A message that no queue is bound for counts as taken: nobody asked for it.
func (r *rabbit) Publish(ctx context.Context, m *Message) error {
	ctx, cancel := context.WithTimeout(ctx, brokerAnswer)
	defer cancel()
	confirm, err := r.send(ctx, m)
	if err != nil {
		return &failure{reason: "the broker can't be reached", down: true, err: err}
	}
	taken, err := confirm.WaitContext(ctx)
	switch {
	case err != nil:
		r.drop()
		return &failure{reason: "the broker gave no answer in time", down: true, err: err}
	case !taken:
		return &failure{reason: "the broker refused the event", down: true}
	}
	return nil
}

func (r *rabbit) send(ctx context.Context, m *Message) (*amqp.DeferredConfirmation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	channel, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, r.exchange, m.Kind(), true, false, amqp.Publishing{
		ContentType: dataContentType, DeliveryMode: amqp.Persistent, MessageId: m.ID, Type: m.Type,
		Headers: m.table(), Body: m.Data,
	})
	if err != nil {
		r.closeLocked()
		return nil, err
	}
	return confirm, nil
}

func (m *Message) table() amqp.Table {
	t := amqp.Table{headerSignature: m.Signature, headerKeyVersion: strconv.Itoa(m.KeyVersion)}
	for _, a := range m.attributes() {
		t[rabbitPrefix+a.name] = a.value
	}
	return t
}

// open returns the channel, a new one if there is none that works. The exchange is made, durable and of type topic, when
// there is none of its name.
func (r *rabbit) open(ctx context.Context) (*amqp.Channel, error) {
	if r.channel != nil && !r.channel.IsClosed() {
		return r.channel, nil
	}
	r.closeLocked()
	conn, err := amqp.DialConfig(r.url, amqp.Config{
		Heartbeat: rabbitHeartbeat, Properties: amqp.Table{"connection_name": "fetcher"},
		Dial: func(network, address string) (net.Conn, error) { return dialBroker(ctx, network, address) },
	})
	if err != nil {
		return nil, err
	}
	channel, err := r.declare(conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	r.work.Go(func() {
		for range returns { // ends with the channel
			r.unrouted(context.WithoutCancel(ctx))
		}
	})
	r.conn, r.channel = conn, channel
	return channel, nil
}

func (r *rabbit) declare(conn *amqp.Connection) (*amqp.Channel, error) {
	channel, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if channel.ExchangeDeclarePassive(r.exchange, amqp.ExchangeTopic, true, false, false, false, nil) != nil {
		if channel, err = conn.Channel(); err != nil { // the broker closed the other one
			return nil, err
		}
		if err = channel.ExchangeDeclare(r.exchange, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
			return nil, err
		}
	}
	return channel, channel.Confirm(false)
}

// dialBroker connects, and bounds the greeting as the library's own dialer does.
func dialBroker(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: brokerConnect}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(brokerConnect))
}

// Check implements Transport.
func (r *rabbit) Check(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.open(ctx); err != nil {
		return fmt.Errorf("check broker: %w", err)
	}
	return nil
}

func (r *rabbit) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeLocked()
}

func (r *rabbit) closeLocked() {
	if r.conn != nil {
		_ = r.conn.CloseDeadline(time.Now().Add(time.Second)) // with its channel; it may be gone already
	}
	r.conn, r.channel = nil, nil
}

// Close implements Transport.
func (r *rabbit) Close(context.Context) error {
	r.drop()
	r.work.Wait()
	return nil
}
