package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// TestStopUnderLoadLosesNoRequest stops a manager while clients keep asking: every request that a connection was made for
// is answered well, also those that come while readiness says draining already, and the process ends with 0.
func TestStopUnderLoadLosesNoRequest(t *testing.T) {
	t.Parallel()
	d := shared(t)
	base, manager := launchDraining(t, d.Env(t))
	token := d.Tenant("acme").Tokens["viewer"]
	var answered, lost atomic.Int64
	var firstLoss sync.Once
	var loss error
	var clients sync.WaitGroup
	for range 6 {
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for {
				err := ask(t.Context(), client, base, token)
				switch {
				case err == nil:
					answered.Add(1)
				case errors.Is(err, errNotListening):
					return
				default:
					lost.Add(1)
					firstLoss.Do(func() { loss = err })
					return
				}
			}
		})
	}
	eventually(t, "requests are answered", func() bool { return answered.Load() > 50 })
	if err := syscall.Kill(manager.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	probe := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	eventually(t, "readiness says draining", func() bool {
		answer, err := probe.Get(base + "/readyz")
		if err != nil {
			t.Fatalf("the listener closed before readiness told: %v", err)
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusServiceUnavailable
	})
	draining := answered.Load()
	eventually(t, "requests are still answered while draining", func() bool { return answered.Load() > draining+10 })
	if err := manager.Wait(blackbox.StartTimeout); err != nil {
		t.Errorf("the manager's end: %v", err)
	}
	clients.Wait()
	if lost.Load() > 0 {
		t.Errorf("%d of %d requests were lost: %v", lost.Load(), answered.Load()+lost.Load(), loss)
	}
	t.Logf("%d requests answered, %d lost", answered.Load(), lost.Load())
}

// errNotListening: nobody listens any more. A connection that the kernel has made when the listener closes is reset before
// anybody took it, which is the same to its caller: no request was begun.
var errNotListening = errors.New("nobody listens")

func ask(ctx context.Context, client *http.Client, base, token string) error {
	fresh := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { fresh = !info.Reused }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+managed, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := client.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) || fresh && errors.Is(err, syscall.ECONNRESET) {
		return errNotListening
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	return nil
}

// launchDraining starts a manager that drains for long enough that a loaded machine sees it.
func launchDraining(t *testing.T, env []string) (base string, manager *blackbox.Process) {
	t.Helper()
	p, err := binary.Launch(append(env, "SERVER_ADDRESS=127.0.0.1:0", "READYZ_DRAIN_DELAY_SEC=10"), "manager")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() }) // it has ended unless the test failed
	return started(t, p), p
}

// started waits until the process says where it listens.
func started(t *testing.T, p *blackbox.Process) string {
	t.Helper()
	var address string
	for deadline := time.Now().Add(blackbox.StartTimeout); address == ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the process did not start:\n%s", p.Output)
		}
		address = startedAddress(p.Output.String())
	}
	return "http://" + address
}
