package events

import (
	"context"
	"crypto/tls"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const kafkaPrefix = "ce_"

// KafkaOptions say how to reach Kafka.
type KafkaOptions struct {
	Brokers   []string // host:port
	TLS       bool
	Mechanism string // plain, scram-sha-256 or scram-sha-512; empty: no login
	User      string
	Password  string
}

// kafka writes to a topic, each record acknowledged by every replica that is in sync. The key is the job's id.
type kafka struct{ client *kgo.Client }

func newKafka(topic string, o KafkaOptions) (*kafka, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...), kgo.DefaultProduceTopic(topic), kgo.ClientID("fetcher"), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordDeliveryTimeout(brokerAnswer), kgo.DialTimeout(brokerConnect), kgo.UnknownTopicRetries(0), kgo.ProducerLinger(0),
	}
	if o.TLS {
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if o.Mechanism != "" {
		mechanism, err := o.mechanism()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return &kafka{client: client}, nil
}

func (o KafkaOptions) mechanism() (sasl.Mechanism, error) {
	switch o.Mechanism {
	case "plain":
		return plain.Auth{User: o.User, Pass: o.Password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: o.User, Pass: o.Password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: o.User, Pass: o.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("kafka: unknown mechanism %q", o.Mechanism)
}

// Name implements Transport.
func (*kafka) Name() string { return schemeKafka }

// Publish implements Transport.
func (k *kafka) Publish(ctx context.Context, m *Message) error {
	ctx, cancel := context.WithTimeout(ctx, brokerAnswer)
	defer cancel()
	record := &kgo.Record{Key: []byte(m.Subject), Value: m.Data, Headers: []kgo.RecordHeader{
		{Key: "content-type", Value: []byte(dataContentType)},
		{Key: headerSignature, Value: []byte(m.Signature)},
		{Key: headerKeyVersion, Value: []byte(strconv.Itoa(m.KeyVersion))},
	}}
	for _, a := range m.attributes() {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: kafkaPrefix + a.name, Value: []byte(a.value)})
	}
	if err := k.client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return &failure{reason: "the broker did not take the event", down: true, err: err}
	}
	return nil
}

// Check implements Transport.
func (k *kafka) Check(ctx context.Context) error { return k.client.Ping(ctx) }

// Close implements Transport.
func (k *kafka) Close(context.Context) error {
	k.client.Close()
	return nil
}
