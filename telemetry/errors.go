package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// errorLogInterval is how often a failing exporter may say so.
const errorLogInterval = 30 * time.Second

// exportError is a failure to export, told by a safe category: the original names the collector's address.
type exportError string

func (e exportError) Error() string { return string(e) }

// safeError keeps of an error what may be logged.
func safeError(err error) error {
	var network net.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return exportError("export timed out")
	case errors.As(err, &network), strings.Contains(err.Error(), "://"):
		return exportError("export failed")
	default:
		return err
	}
}

// errorLog hands OpenTelemetry's errors to the logger, some of them: a collector that is down fails every few seconds.
type errorLog struct {
	log *slog.Logger
	now func() time.Time

	mu         sync.Mutex
	next       time.Time
	suppressed int
}

// Handle logs the error, or counts it for the next that is logged.
func (l *errorLog) Handle(err error) {
	if err == nil {
		return
	}
	if suppressed, due := l.due(); due {
		l.log.Warn("telemetry failed", "error", safeError(err), "suppressed", suppressed)
	}
}

// due reports whether an error is to be logged now, and how many were not since the last that was.
func (l *errorLog) due() (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Before(l.next) {
		l.suppressed++
		return 0, false
	}
	suppressed, l.suppressed = l.suppressed, 0
	l.next = now.Add(errorLogInterval)
	return suppressed, true
}
