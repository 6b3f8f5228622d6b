package handlers

import (
	"net/netip"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

const (
	probesPerSecond = 20
	probesBurst     = 100
	probeClients    = 4096 // remembered at once
)

// clientLimiter limits requests per client address, in bounded memory: the addresses seen longest ago are forgotten.
type clientLimiter struct {
	clients *lru.Cache[string, *rate.Limiter]
}

func newClientLimiter() (*clientLimiter, error) {
	clients, err := lru.New[string, *rate.Limiter](probeClients)
	if err != nil {
		return nil, err
	}
	return &clientLimiter{clients: clients}, nil
}

// allow spends one request of the client.
func (l *clientLimiter) allow(address string) bool {
	fresh := rate.NewLimiter(probesPerSecond, probesBurst)
	limiter, known, _ := l.clients.PeekOrAdd(clientKey(address), fresh)
	if !known {
		return fresh.Allow()
	}
	l.clients.Get(clientKey(address)) // now the most recent
	return limiter.Allow()
}

// clientKey is the address, or the /64 of an IPv6 one: whoever has one address of it has them all.
func clientKey(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap(); ip.Is6() {
		if network, err := ip.Prefix(64); err == nil {
			return network.String()
		}
	}
	return ip.String()
}
