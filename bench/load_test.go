package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load has clients ask over one connection each, one request after the other.
type load struct {
	address string
	clients int
	period  time.Duration
	request func(n int) []byte // the n-th of all clients' requests, from 0
}

// get is a request as it is on the wire.
func get(address, path, token string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nAccept: application/json\r\n\r\n", path, address, token)
}

// run returns the requests per second and their p50 and p99 in milliseconds. An answer other than 200 fails the test.
func (l load) run(t *testing.T) (perSecond, p50, p99 float64) {
	t.Helper()
	took := make([][]float64, l.clients)
	errs := make([]error, l.clients)
	var next atomic.Int64
	var clients sync.WaitGroup
	began := time.Now()
	for c := range l.clients {
		clients.Go(func() { took[c], errs[c] = l.client(&next, began.Add(l.period)) })
	}
	clients.Wait()
	elapsed := time.Since(began)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	return float64(len(all)) / elapsed.Seconds(), all[len(all)/2], all[len(all)*99/100]
}

func (l load) client(next *atomic.Int64, until time.Time) (took []float64, err error) {
	conn, err := net.Dial("tcp", l.address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for began := time.Now(); len(took) == 0 || began.Before(until); began = time.Now() {
		if err = exchange(conn, in, l.request(int(next.Add(1)-1))); err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/1e6)
	}
	return took, nil
}

func exchange(conn net.Conn, in *bufio.Reader, request []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("status %d: %s", answer.StatusCode, body)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
