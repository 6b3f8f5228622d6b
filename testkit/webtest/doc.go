// Package webtest gives tests a web to fetch from, all of it on loopback: an authority of its own, a TLS origin with
// programmable answers, a raw TLS server that writes exact bytes, a name server that lies on request, and canaries,
// ports that no connection may ever reach. Only tests import it.
//
// It owns the ports and goroutines it starts and promises that none of them outlives the test they were started for.
// The origins listen on 127.0.0.1; every other address of 127.0.0.0/8 is free for canaries, so that a guard which
// admits 127.0.0.1/32 alone has something to refuse.
package webtest
