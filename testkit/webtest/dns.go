package webtest

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// Answer is what a name server says to one question about a name's addresses.
type Answer struct {
	Addrs []string // IPv4 ones answer A, IPv6 ones AAAA; none at all is an answer without records
	Rcode int      // dns.RcodeServerFailure and the like; 0 is success
	Drop  bool     // says nothing at all
}

// Addrs is an Answer of addresses.
func Addrs(addrs ...string) Answer { return Answer{Addrs: addrs} }

// DNS is a name server on 127.0.0.1, over UDP and TCP. Names it was told nothing about don't exist.
// It is safe for concurrent use.
type DNS struct {
	addr string

	mu     sync.Mutex
	names  map[string]*script
	asking []net.Conn // of the resolvers
	closed bool
}

// script is the answers of one name, each for one look-up, the last one for ever. A look-up is a question for A and
// one for AAAA, in either order.
type script struct {
	answers []Answer
	asked   map[uint16]int
}

// NewDNS starts a name server.
func NewDNS(tb testing.TB) *DNS {
	tb.Helper()
	d := &DNS{names: map[string]*script{}}
	packets, stream := listenBoth(tb)
	d.addr = packets.LocalAddr().String()
	var ready, stopped sync.WaitGroup
	servers := []*dns.Server{{PacketConn: packets}, {Listener: stream}}
	for _, s := range servers {
		ready.Add(1)
		s.Handler, s.NotifyStartedFunc = dns.HandlerFunc(d.answer), ready.Done
		stopped.Go(func() { _ = s.ActivateAndServe() })
	}
	ready.Wait()
	tb.Cleanup(func() {
		d.hangUp()
		for _, s := range servers {
			_ = s.Shutdown()
		}
		stopped.Wait()
	})
	return d
}

// listenBoth finds a port that is free for UDP and TCP.
func listenBoth(tb testing.TB) (net.PacketConn, net.Listener) {
	tb.Helper()
	for range 50 {
		stream, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatalf("webtest: dns: %v", err)
		}
		if packets, err := net.ListenPacket("udp", stream.Addr().String()); err == nil {
			return packets, stream
		}
		_ = stream.Close()
	}
	tb.Fatal("webtest: dns: no port is free for UDP and TCP")
	return nil, nil
}

// Addr returns host:port of the server.
func (d *DNS) Addr() string { return d.addr }

// Resolver returns a resolver that asks this server only. When the test is over, it gives up what it still waits for.
func (d *DNS) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, d.addr)
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.closed {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		d.asking = append(d.asking, conn)
		return conn, nil
	}}
}

func (d *DNS) hangUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, conn := range d.asking {
		_ = conn.Close()
	}
}

// Set makes the name answer its n-th look-up from now on with the n-th answer, later ones with the last. The counts of
// questions start anew.
func (d *DNS) Set(name string, answers ...Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[canonical(name)] = &script{answers: answers, asked: map[uint16]int{}}
}

// Asked returns how often the name's A and AAAA records were asked for since Set.
func (d *DNS) Asked(name string) (a, aaaa int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.names[canonical(name)]
	if s == nil {
		return 0, 0
	}
	return s.asked[dns.TypeA], s.asked[dns.TypeAAAA]
}

func (d *DNS) answer(w dns.ResponseWriter, m *dns.Msg) {
	reply := new(dns.Msg)
	reply.SetReply(m)
	reply.RecursionAvailable = true // without, an answer without records reads as a broken server
	answer, ok := d.next(m.Question[0])
	switch {
	case !ok:
		reply.Rcode = dns.RcodeNameError
	case answer.Drop:
		return
	default:
		reply.Rcode = answer.Rcode
		reply.Answer = records(m.Question[0], answer.Addrs)
	}
	_ = w.WriteMsg(reply)
}

func (d *DNS) next(q dns.Question) (Answer, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.names[canonical(q.Name)]
	if s == nil {
		return Answer{}, false
	}
	n := s.asked[q.Qtype]
	s.asked[q.Qtype]++
	return s.answers[min(n, len(s.answers)-1)], true
}

func records(q dns.Question, addrs []string) []dns.RR {
	var out []dns.RR
	for _, text := range addrs {
		addr := netip.MustParseAddr(text)
		header := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET}
		switch {
		case q.Qtype == dns.TypeA && addr.Is4():
			out = append(out, &dns.A{Hdr: header, A: addr.AsSlice()})
		case q.Qtype == dns.TypeAAAA && addr.Is6():
			out = append(out, &dns.AAAA{Hdr: header, AAAA: addr.AsSlice()})
		}
	}
	return out
}

func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
