package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/events"
	"github.com/fetcherhq/fetcher/handlers"
)

// openBrokers prepares the transports of EVENTS_URL. They connect when there is something to send, or when readiness asks.
func (a *app) openBrokers() error {
	e := a.cfg.Events
	brokers := events.Brokers{
		RabbitURL: e.RabbitURL.Reveal(), NATSURL: e.NATSURL.Reveal(),
		Kafka: events.KafkaOptions{
			Brokers: e.KafkaBrokers, TLS: e.KafkaTLS, Mechanism: e.KafkaMechanism, User: e.KafkaUser, Password: e.KafkaPassword.Reveal(),
		},
	}
	for _, text := range e.URLs {
		target, err := events.ParseTarget(text)
		if err != nil {
			return usageError{fmt.Errorf("EVENTS_URL %w", err)}
		}
		broker, err := brokers.Open(target)
		if err != nil {
			return fmt.Errorf("opening EVENTS_URL: %w", err)
		}
		a.brokers = append(a.brokers, broker)
		a.onClose(broker.Close)
	}
	return nil
}

// dispatcher is what sends the events of every tenant.
func (a *app) dispatcher() (*events.Dispatcher, error) {
	d, err := events.New(events.Options{
		Marks: a.control, Tenants: a.router, Keys: a.keys, Guard: a.guard, Transports: a.brokers, Webhook: a.webhook,
		Source: a.cfg.Events.Source, Logger: a.log, Meter: a.tel.Meter("events"), Tracer: a.tel.TracerProvider(),
	})
	if err != nil {
		return nil, fmt.Errorf("building the dispatcher: %w", err)
	}
	return d, nil
}

// webhook is that of the one tenant in single-tenant mode.
func (a *app) webhook(string) *events.Webhook {
	if !a.cfg.Events.WebhookURL.IsSet() {
		return nil
	}
	return &events.Webhook{URL: a.cfg.Events.WebhookURL.Reveal(), Secret: a.cfg.Events.WebhookSecret.Reveal()}
}

// eventsCheck tells whether the brokers can be used. They being down makes no process unready: events wait.
func (a *app) eventsCheck(role config.Role) handlers.Check {
	skipped := func(reason string) handlers.Check {
		return handlers.Check{Name: "events", Run: func(context.Context) handlers.CheckResult {
			return handlers.CheckResult{Status: handlers.StatusSkipped, Reason: reason}
		}}
	}
	switch {
	case role&config.RoleWorker == 0:
		return skipped("workers send the events")
	case len(a.brokers) == 0:
		return skipped("no broker is configured; events are read at the API")
	}
	ping := handlers.PingCheck("events", false, a.log, func(ctx context.Context) error {
		for _, b := range a.brokers {
			if err := b.Check(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	tls := a.brokersTLS()
	return handlers.Check{Name: ping.Name, Run: func(ctx context.Context) handlers.CheckResult {
		result := ping.Run(ctx)
		result.TLS = &tls
		if result.Status == handlers.StatusDown {
			result = handlers.CheckResult{Status: handlers.StatusDegraded, TLS: &tls, Reason: "a broker can't be used; events wait"}
		}
		return result
	}}
}

// brokersTLS tells whether every broker is talked to over TLS.
func (a *app) brokersTLS() bool {
	e := a.cfg.Events
	servers := []string{}
	if e.RabbitURL.IsSet() {
		servers = append(servers, e.RabbitURL.Reveal())
	}
	if e.NATSURL.IsSet() {
		servers = append(servers, strings.Split(e.NATSURL.Reveal(), ",")...)
	}
	plain := slices.ContainsFunc(servers, func(s string) bool {
		scheme, _, _ := strings.Cut(strings.TrimSpace(s), "://")
		return scheme == "amqp" || scheme == "nats"
	})
	return !plain && (len(e.KafkaBrokers) == 0 || e.KafkaTLS)
}
