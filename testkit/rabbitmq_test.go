package testkit

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestRabbit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts RabbitMQ")
	}
	conn, err := amqp.Dial(Rabbit(t))
	if err != nil {
		t.Fatal(err)
	}
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = channel.QueueDeclare("", false, true, true, false, nil); err != nil {
		t.Error(err)
	}
	if err = conn.Close(); err != nil {
		t.Error(err)
	}
}
