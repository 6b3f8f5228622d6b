package weburl

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fetcherhq/fetcher/dial"
)

const (
	defaultPort = 443
	maxPort     = 65535
)

// ParseOrigin reads an origin without a path, not even a slash. Its port, 443 when absent, must be one of allowedPorts.
// The error is an *Error.
func ParseOrigin(s string, allowedPorts []int) (Origin, error) {
	const subject = "origin"
	if len(s) > maxURL {
		return Origin{}, broken(subject, "must have at most 2048 characters")
	}
	rest, err := afterScheme(subject, s)
	if err != nil {
		return Origin{}, err
	}
	if strings.Contains(rest, "/") {
		return Origin{}, broken(subject, "must not have a path")
	}
	origin, err := parseAuthority(subject, rest)
	if err != nil {
		return Origin{}, err
	}
	if !slices.Contains(allowedPorts, origin.port) {
		return Origin{}, broken(subject, "must have one of the ports this service may use")
	}
	return origin, nil
}

func parseAuthority(subject, s string) (Origin, error) {
	if strings.Contains(s, "@") {
		return Origin{}, broken(subject, "must not contain userinfo")
	}
	if strings.ContainsAny(s, "[]") {
		return Origin{}, broken(subject, "must name a host, not an IP address")
	}
	host, service, hasPort := strings.Cut(s, ":")
	port := defaultPort
	if hasPort {
		if port = parsePort(service); port == 0 {
			return Origin{}, broken(subject, "must have a port from 1 to 65535 or none")
		}
	}
	if err := checkHost(subject, host); err != nil {
		return Origin{}, err
	}
	return Origin{host: strings.ToLower(host), port: port}, nil
}

// parsePort reads a port as it is written, without leading zeros, or returns 0.
func parsePort(s string) int {
	if s == "" || len(s) > len("65535") || s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		return 0
	}
	port, err := strconv.Atoi(s)
	if err != nil || port > maxPort {
		return 0
	}
	return port
}

func checkHost(subject, host string) error {
	labels := strings.Split(host, ".")
	last := strings.ToLower(labels[len(labels)-1])
	switch _, err := netip.ParseAddr(host); {
	case host == "":
		return broken(subject, "must name a host")
	case err == nil:
		return broken(subject, "must name a host, not an IP address")
	case last == "":
		return broken(subject, "must not end its host with a dot")
	case strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x"):
		return broken(subject, "must not have a host whose last label is a number")
	case len(labels) == 1:
		return broken(subject, "must have a host of two labels or more")
	case !dial.ValidHost(host):
		return broken(subject, "must have a valid host name")
	}
	return nil
}

// authority is the host with its port, unless that is the default.
func authority(host string, port int) string {
	if port == defaultPort {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}
