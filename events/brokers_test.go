package events_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fetcherhq/fetcher/events"
	"github.com/fetcherhq/fetcher/testkit"
)

func open(t *testing.T, target string, b events.Brokers) events.Transport {
	t.Helper()
	return must(b.Open(must(events.ParseTarget(target))))
}

// headers are what every broker is given beside the data, by the prefix of its binding.
func (p *plant) headers(prefix, subject string, data []byte) map[string]string {
	const at = "2026-02-03T04:05:06.12Z"
	id := "fetcher.job.failed." + subject
	return map[string]string{
		prefix + "specversion": "1.0", prefix + "id": id, prefix + "source": "/fetcher", prefix + "type": "fetcher.job.failed",
		prefix + "subject": subject, prefix + "time": at, prefix + "tenantid": acme,
		prefix + "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"fetcher-key-version":  "1", "fetcher-signature": events.Sign(must(p.keys.ExternalHMACKey(1, acme)), id, at, data),
	}
}

// wire passes bytes between clients and a server until it is cut.
type wire struct {
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func newWire(t *testing.T, target string) *wire {
	w := &wire{listener: must(net.Listen("tcp", "127.0.0.1:0")), target: target}
	w.work.Go(func() {
		for {
			client, err := w.listener.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			server, err := net.Dial("tcp", w.target)
			if err != nil || w.cut {
				_ = client.Close()
			}
			if err == nil && w.cut {
				_ = server.Close()
			}
			if err == nil && !w.cut {
				w.conns = append(w.conns, client, server)
				w.work.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
				w.work.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
			}
			w.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = w.listener.Close()
		w.sever(true)
		w.work.Wait()
	})
	return w
}

// sever cuts the wire, or mends it.
func (w *wire) sever(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for _, c := range w.conns {
			_ = c.Close()
		}
		w.conns = nil
	}
}

func TestRabbit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts RabbitMQ")
	}
	address := must(url.Parse(testkit.Rabbit(t)))
	p := newPlant(t, acme)
	exchange := "ex-" + rand.Text()
	w := newWire(t, address.Host)
	through := *address
	through.Host = w.listener.Addr().String()
	transport := open(t, "rabbit://"+exchange, events.Brokers{RabbitURL: through.String()})
	if err := transport.Check(t.Context()); err != nil { // makes the exchange
		t.Fatal(err)
	}
	conn := must(amqp.Dial(address.String()))
	defer conn.Close()
	channel := must(conn.Channel())
	queue := must(channel.QueueDeclare("", false, true, true, false, nil))
	if err := channel.QueueBind(queue.Name, "job.failed", exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	deliveries := must(channel.Consume(queue.Name, "", true, true, false, false, nil))
	p.dispatcher(func(o *events.Options) { o.Transports = []events.Transport{transport} })

	job := p.end(acme)
	got := <-deliveries
	headers := map[string]string{}
	for name, value := range got.Headers {
		headers[name] = fmt.Sprint(value)
	}
	if diff := cmp.Diff(p.headers("cloudEvents_", job.String(), got.Body), headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if got.RoutingKey != "job.failed" || got.ContentType != "application/json" || got.DeliveryMode != amqp.Persistent || !strings.Contains(string(got.Body), job.String()) {
		t.Errorf("delivery %+v", got)
	}

	// Otherwise the broker's word may be lost, and the first one comes again.
	p.eventually("it is published", func() bool { return p.count(acme, published) == 1 })
	w.sever(true)
	job = p.end(acme)
	p.eventually("it was tried", func() bool {
		return p.count(acme, `SELECT count(*) FROM event_deliveries WHERE attempts > 0 AND delivered_at IS NULL`) == 1
	})
	w.sever(false)
	if got = <-deliveries; got.MessageId != "fetcher.job.failed."+job.String() {
		t.Errorf("message %s", got.MessageId)
	}
	p.eventually("both are published", func() bool { return p.count(acme, published) == 2 })

	if err := channel.QueueUnbind(queue.Name, "job.failed", exchange, nil); err != nil {
		t.Fatal(err)
	}
	p.end(acme) // nobody asks for it
	p.eventually("all are published", func() bool { return p.count(acme, published) == 3 })
	if err := channel.ExchangeDelete(exchange, false, false); err != nil {
		t.Error(err)
	}
}

func natsServer(t *testing.T) *natsserver.Server {
	t.Helper()
	server := must(natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	}))
	server.Start()
	t.Cleanup(func() {
		server.Shutdown()
		server.WaitForShutdown()
	})
	if !server.ReadyForConnections(patient) {
		t.Fatal("NATS did not start")
	}
	return server
}

func TestNATS(t *testing.T) {
	t.Parallel()
	server := natsServer(t)
	p := newPlant(t, acme)
	transport := open(t, "nats://fetcher.events", events.Brokers{NATSURL: server.ClientURL()})
	p.dispatcher(func(o *events.Options) { o.Transports = []events.Transport{transport} })
	job := p.end(acme)
	var reason string
	p.eventually("it was tried", func() bool {
		return p.pools[acme].QueryRow(t.Context(), `SELECT reason FROM event_deliveries WHERE attempts > 0`).Scan(&reason) == nil
	})
	if reason != "no stream covers the subject" { // plain NATS proves nothing
		t.Errorf("reason %q", reason)
	}
	conn := must(nats.Connect(server.ClientURL()))
	defer conn.Close()
	js := must(jetstream.New(conn))
	stream := must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"fetcher.events.>"}}))
	consumer := must(stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{}))
	got := must(consumer.Next(jetstream.FetchMaxWait(patient)))
	want := p.headers("ce-", job.String(), got.Data())
	want["content-type"], want["Nats-Msg-Id"] = "application/json", "fetcher.job.failed."+job.String()
	headers := map[string]string{}
	for name := range got.Headers() {
		headers[name] = got.Headers().Get(name)
	}
	if diff := cmp.Diff(want, headers); diff != "" || got.Subject() != "fetcher.events.job.failed" {
		t.Errorf("subject %s, headers (-want +got):\n%s", got.Subject(), diff)
	}
	p.eventually("it is published", func() bool { return p.count(acme, published) == 1 })
	if err := transport.Check(t.Context()); err != nil {
		t.Error(err)
	}
	server.Shutdown()
	server.WaitForShutdown()
	p.eventually("the check fails", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return transport.Check(ctx) != nil
	})
}

func TestKafka(t *testing.T) {
	t.Parallel()
	cluster := must(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "extractions")))
	t.Cleanup(cluster.Close)
	p := newPlant(t, acme)
	brokers := events.KafkaOptions{Brokers: cluster.ListenAddrs()}
	transport := open(t, "kafka://extractions", events.Brokers{Kafka: brokers})
	p.dispatcher(func(o *events.Options) { o.Transports = []events.Transport{transport} })
	job := p.end(acme)
	p.eventually("it is published", func() bool { return p.count(acme, published) == 1 })
	consumer := must(kgo.NewClient(kgo.SeedBrokers(brokers.Brokers...), kgo.ConsumeTopics("extractions")))
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	records := consumer.PollRecords(ctx, 1).Records()
	if len(records) != 1 {
		t.Fatalf("%d records", len(records))
	}
	want := p.headers("ce_", job.String(), records[0].Value)
	want["content-type"] = "application/json"
	headers := map[string]string{}
	for _, h := range records[0].Headers {
		headers[h.Key] = string(h.Value)
	}
	if diff := cmp.Diff(want, headers); diff != "" || string(records[0].Key) != job.String() {
		t.Errorf("key %s, headers (-want +got):\n%s", records[0].Key, diff)
	}
	if err := transport.Check(ctx); err != nil {
		t.Error(err)
	}
}

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]events.Target{
		"rabbit://fetcher-events": {Scheme: "rabbit", Name: "fetcher-events"},
		"nats://a.b":              {Scheme: "nats", Name: "a.b"},
		"kafka://Topic_1":         {Scheme: "kafka", Name: "Topic_1"},
	} {
		if got, err := events.ParseTarget(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "rabbit://", "rabbit:fetcher", "amqp://x", "nats://u:p@x", "kafka://a/b", "kafka://a?b=c", "kafka://a#b", "://"} {
		if got, err := events.ParseTarget(text); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
