package source

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/fetcherhq/fetcher/dial"
)

// What the client side of a connection can find, alike for every kind. None of these looks at a driver's own errors: a kind
// that has some asks for them beside, in the order in which they say more.

// NameUnknown reports whether a host has no address.
func NameUnknown(err error) bool {
	var lookup *net.DNSError
	return errors.Is(err, dial.ErrNameNotFound) || errors.As(err, &lookup)
}

// TimedOut reports whether the time of a network operation was up.
func TimedOut(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout() || errors.Is(err, os.ErrDeadlineExceeded)
}

// TLSAlert reports whether the peer, or we, ended TLS with an alert, or the peer with one that was lost, see Encrypt: in TLS
// 1.3 a client's certificate is refused only after the handshake.
func TLSAlert(err error) bool {
	var (
		op      *net.OpError
		refused *refusedError
	)
	return errors.As(err, &refused) || errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error")
}

// Unreached reports whether nobody took the connection.
func Unreached(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// ConnectionEnded reports whether the connection ended, whatever was said on it.
func ConnectionEnded(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.As(err, &op)
}
