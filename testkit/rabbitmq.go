package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// RabbitURL names the variable with the amqp:// URL of a RabbitMQ to use instead of an own one.
const RabbitURL = "TEST_RABBIT_URL"

// Rabbit returns the URL of a RabbitMQ that the tests of this process share and that starts with the first call. What a
// test declares there it names so that nobody else does.
func Rabbit(tb testing.TB) string {
	tb.Helper()
	if given := os.Getenv(RabbitURL); given != "" {
		return given
	}
	if _, err := os.Stat(rabbitServer); err != nil {
		tb.Skip("there is no RabbitMQ; tools/servers.sh installs it")
	}
	node, err := sharedRabbit.start()
	if err != nil {
		tb.Fatalf("testkit: RabbitMQ: %v", err)
	}
	return node.url
}

// rabbitNode is a running RabbitMQ with an epmd of its own.
type rabbitNode struct {
	url    string
	keeper *exec.Cmd
	life   io.Closer // the keeper kills both when it closes
	done   chan struct{}
	log    string
}

// sharedNode is started at most once per process.
type sharedNode struct {
	once sync.Once
	dir  *tempDir
	node *rabbitNode
	err  error
}

// sharedRabbit is a global for the same reason as shared.
var sharedRabbit sharedNode

func (s *sharedNode) start() (*rabbitNode, error) {
	s.once.Do(func() {
		if s.dir, s.err = newTempDir(); s.err == nil {
			s.node, s.err = startRabbit(s.dir.path)
		}
	})
	return s.node, s.err
}

// stop ends what start began; a later start returns an error.
func (s *sharedNode) stop() error {
	s.once.Do(func() { s.err = errors.New("the tests of this process are over") })
	var err error
	if s.node != nil {
		err = s.node.stop()
	}
	if s.dir != nil {
		err = errors.Join(err, s.dir.remove())
	}
	return err
}

// rabbitServer is the server itself: the command on the path changes user and directories.
const rabbitServer = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// rabbitKeeper runs epmd and the server until the server ends or our end of the pipe closes, by us or by our death.
const rabbitKeeper = `
trap '' INT TERM HUP
kept=$1
: >"$kept" || exit
exec 3<&0 </dev/null
epmd 3<&- & epmd=$!
"$2" 3<&- & server=$!
(read -r _ <&3; kill -KILL $server $epmd) & watcher=$!
wait $server
kill -KILL $watcher $epmd
rm -f -- "$kept"
`

const rabbitPorts = 3 // how often free ports are chosen: they may be taken before the server gets to them

func startRabbit(dir string) (node *rabbitNode, err error) {
	for i := range rabbitPorts {
		home := filepath.Join(dir, strconv.Itoa(i))
		if err = os.Mkdir(home, 0o700); err != nil {
			return nil, err
		}
		if node, err = launchRabbit(home, filepath.Join(dir, keptFile)); err != nil {
			return nil, err
		}
		if err = node.awaitReady(); err == nil {
			return node, nil
		}
		_ = node.life.Close()
		<-node.done
	}
	return nil, err
}

func launchRabbit(home, kept string) (*rabbitNode, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	plugins := filepath.Join(home, "plugins")
	if err = os.WriteFile(plugins, []byte("[]."), 0o600); err != nil {
		return nil, err
	}
	n := &rabbitNode{url: "amqp://guest:guest@127.0.0.1:" + ports[0] + "/", done: make(chan struct{}), log: filepath.Join(home, "output")}
	output, err := os.Create(n.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	n.keeper = exec.CommandContext(context.Background(), "/bin/sh", "-c", rabbitKeeper, "sh", kept, rabbitServer)
	n.keeper.Dir = home
	n.keeper.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8",
		"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + ports[1], "RABBITMQ_DIST_PORT=" + ports[2],
		"RABBITMQ_NODENAME=t" + strings.ToLower(rand.Text()[:10]) + "@localhost",
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT=" + ports[0],
		"RABBITMQ_MNESIA_BASE=" + home + "/mnesia", "RABBITMQ_LOG_BASE=" + home + "/log", "RABBITMQ_PID_FILE=" + home + "/pid",
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + plugins, "RABBITMQ_CONFIG_FILE=" + home + "/none", "RABBITMQ_CONF_ENV_FILE=" + home + "/none",
		"RABBITMQ_ALLOW_INPUT=1", // so that the shell becomes the server
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput +sbwt none +S 2:2",
	}
	n.keeper.Stdout, n.keeper.Stderr = output, output
	n.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // spared by a Ctrl-C
	if n.life, err = n.keeper.StdinPipe(); err != nil {
		return nil, err
	}
	if err := n.keeper.Start(); err != nil {
		return nil, errors.Join(err, n.life.Close())
	}
	go func() {
		_ = n.keeper.Wait() // how a killed server ended says nothing
		close(n.done)
	}()
	return n, nil
}

// freePorts chooses ports of the loopback address.
func freePorts(n int) ([]string, error) {
	ports := make([]string, 0, n)
	for range n {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("choose a port: %w", err)
		}
		defer func() { _ = l.Close() }() // all at the end, so that they differ
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

func (n *rabbitNode) awaitReady() error {
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := amqp.Dial(n.url)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-n.done:
			return n.ended()
		case <-deadline:
			return fmt.Errorf("the server doesn't answer: %w", err)
		case <-tick.C:
		}
	}
}

// stop kills the server, whose data nobody needs, and waits until it is gone. It is an error if it was gone before.
func (n *rabbitNode) stop() error {
	var err error
	select {
	case <-n.done:
		err = n.ended()
	default:
	}
	_ = n.life.Close() // fails if the keeper has ended: Wait closes it then
	<-n.done
	return err
}

func (n *rabbitNode) ended() error {
	output, err := os.ReadFile(n.log)
	return errors.Join(fmt.Errorf("the server ended by itself: %s", output), err)
}
