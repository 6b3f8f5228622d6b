package config

import (
	"encoding/base64"
	"net"
	"net/url"
	"slices"
	"strings"
)

// The schemes of EVENTS_URL.
const (
	schemeRabbit = "rabbit"
	schemeNATS   = "nats"
	schemeKafka  = "kafka"
)

func (c *Config) checkEvents(k *checker) {
	e := c.Events
	_, err := url.Parse(e.Source)
	k.require(err == nil, "EVENTS_SOURCE", "must be a URI reference")
	schemes := map[string]bool{}
	for _, text := range e.URLs {
		u, err := url.Parse(text)
		ok := err == nil && u.Host != "" && u.User == nil && (u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == "" &&
			slices.Contains([]string{schemeRabbit, schemeNATS, schemeKafka}, u.Scheme)
		k.require(ok, "EVENTS_URL", "must be rabbit://exchange, nats://subject or kafka://topic")
		if ok {
			k.require(!schemes[u.Scheme], "EVENTS_URL", "names a scheme twice")
			schemes[u.Scheme] = true
		}
	}
	k.require(!schemes[schemeRabbit] || e.RabbitURL.IsSet(), "RABBIT_SERVER_URL", "is required when EVENTS_URL has rabbit://")
	k.require(!schemes[schemeNATS] || e.NATSURL.IsSet(), "NATS_SERVER_URL", "is required when EVENTS_URL has nats://")
	k.require(!schemes[schemeKafka] || len(e.KafkaBrokers) > 0, "KAFKA_BROKERS", "is required when EVENTS_URL has kafka://")
	c.checkBrokers(k)
	c.checkWebhook(k)
}

func (c *Config) checkBrokers(k *checker) {
	e := c.Events
	if e.RabbitURL.IsSet() {
		k.require(hasScheme(e.RabbitURL.Reveal(), "amqp", "amqps"), "RABBIT_SERVER_URL", "must be an amqp:// or amqps:// URL")
	}
	for server := range strings.SplitSeq(e.NATSURL.Reveal(), ",") {
		k.require(!e.NATSURL.IsSet() || hasScheme(server, "nats", "tls"), "NATS_SERVER_URL", "must be nats:// or tls:// URLs, comma separated")
	}
	for _, broker := range e.KafkaBrokers {
		host, _, err := net.SplitHostPort(broker)
		k.require(err == nil && host != "" && isAddress(broker), "KAFKA_BROKERS", "must be host:port, comma separated")
	}
	known := slices.Contains([]string{"", "plain", "scram-sha-256", "scram-sha-512"}, e.KafkaMechanism)
	k.require(known, "KAFKA_SASL_MECHANISM", "must be plain, scram-sha-256 or scram-sha-512")
	k.require(!known || e.KafkaMechanism == "" || e.KafkaUser != "" && e.KafkaPassword.IsSet(), "KAFKA_USERNAME",
		"and KAFKA_PASSWORD are required when KAFKA_SASL_MECHANISM is set")
}

func (c *Config) checkWebhook(k *checker) {
	e := c.Events
	if !e.WebhookURL.IsSet() && !e.WebhookSecret.IsSet() {
		return
	}
	k.require(!c.Tenants.Multi, "EVENTS_WEBHOOK_URL", "is for single-tenant mode; fetcher tenant webhook sets each tenant's")
	u, err := url.Parse(e.WebhookURL.Reveal())
	k.require(err == nil && u.Scheme == schemeHTTPS && u.Hostname() != "" && u.User == nil && u.Fragment == "",
		"EVENTS_WEBHOOK_URL", "must be an https:// URL without credentials and fragment")
	text, marked := strings.CutPrefix(e.WebhookSecret.Reveal(), "whsec_")
	key, err := base64.StdEncoding.DecodeString(text)
	k.require(marked && err == nil && len(key) >= 24 && len(key) <= 64,
		"EVENTS_WEBHOOK_SECRET", "must be whsec_ and base64 of 24 to 64 bytes")
}

// checkSaaSEvents insists on TLS to the brokers; webhooks have no other way.
func (c *Config) checkSaaSEvents(k *checker, insist string) {
	e := c.Events
	k.require(!e.RabbitURL.IsSet() || hasScheme(e.RabbitURL.Reveal(), "amqps"), "RABBIT_SERVER_URL", insist)
	for server := range strings.SplitSeq(e.NATSURL.Reveal(), ",") {
		k.require(!e.NATSURL.IsSet() || hasScheme(server, "tls"), "NATS_SERVER_URL", insist)
	}
	k.require(len(e.KafkaBrokers) == 0 || e.KafkaTLS, "KAFKA_TLS", insist)
}

func hasScheme(text string, schemes ...string) bool {
	u, err := url.Parse(strings.TrimSpace(text))
	return err == nil && u.Host != "" && slices.Contains(schemes, u.Scheme)
}
