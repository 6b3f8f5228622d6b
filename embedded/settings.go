package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// settings are the server's parameters. Loopback only: no socket file, whose path has a length limit.
func (o PostgresOptions) settings(port int) map[string]string {
	const off = "off"
	s := map[string]string{ // #nosec G101 -- names of settings
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"port":                    strconv.Itoa(port),
		"max_connections":         strconv.Itoa(o.MaxConnections),
		"password_encryption":     "scram-sha-256",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_destination":         "stderr",
		"logging_collector":       off,
		"log_min_messages":        "warning",
		"log_min_error_statement": "panic", // statements may hold secrets
	}
	if o.Unsafe {
		s["fsync"] = off
		s["synchronous_commit"] = off
		s["full_page_writes"] = off
		s["shared_buffers"] = "64MB"
	}
	maps.Copy(s, o.Parameters)
	return s
}

// deathSignal is what the server gets when this process dies: the fast shutdown, or, where the data doesn't matter,
// the immediate one.
func (o PostgresOptions) deathSignal() syscall.Signal {
	if o.Unsafe {
		return syscall.SIGQUIT
	}
	return syscall.SIGINT
}

// choosePort returns the port kept at path if it is free, so that addresses handed out before stay good, else a
// free one.
func choosePort(path string) (int, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- in our own directory
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("kept port: %w", err)
	}
	kept, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err == nil && kept > 0 {
		if port, err := listenOnce(kept); err == nil {
			return port, nil
		}
	}
	return freePort()
}

// freePort returns a loopback port that was free a moment ago.
func freePort() (int, error) { return listenOnce(0) }

func listenOnce(port int) (int, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return 0, fmt.Errorf("choose a port: %w", err)
	}
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.New("choose a port: not TCP")
	}
	return addr.Port, nil
}
