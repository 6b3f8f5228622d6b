package events

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

// The schemes of brokers, which are also the names of transports.
const (
	schemeRabbit = "rabbit"
	schemeNATS   = "nats"
	schemeKafka  = "kafka"
)

// Brokers say where the brokers are that EVENTS_URL names a place at.
type Brokers struct {
	RabbitURL string // amqp:// or amqps://
	NATSURL   string // nats:// or tls://; several with commas
	Kafka     KafkaOptions

	unrouted func(context.Context)
}

// Target is one entry of EVENTS_URL: rabbit://exchange, nats://subject or kafka://topic.
type Target struct{ Scheme, Name string }

// ParseTarget takes an entry of EVENTS_URL apart.
func ParseTarget(text string) (Target, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return Target{}, errors.New("must be rabbit://exchange, nats://subject or kafka://topic")
	}
	switch u.Scheme {
	case schemeRabbit, schemeNATS, schemeKafka:
		return Target{u.Scheme, u.Host}, nil
	}
	return Target{}, errors.New("must be rabbit://exchange, nats://subject or kafka://topic")
}

// Open returns the transport to the target. It connects to nothing yet.
func (b Brokers) Open(t Target) (Transport, error) {
	switch t.Scheme {
	case schemeRabbit:
		unrouted := b.unrouted
		if unrouted == nil {
			unrouted = func(context.Context) {}
		}
		return &rabbit{url: b.RabbitURL, exchange: t.Name, unrouted: unrouted}, nil
	case schemeNATS:
		return &natsStream{url: b.NATSURL, subject: t.Name}, nil
	case schemeKafka:
		return newKafka(t.Name, b.Kafka)
	}
	return nil, fmt.Errorf("events: unknown transport %q", t.Scheme)
}
