package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/trace"
)

// NewLogger returns a logger that redacts, and that adds to each line what its context carries: the trace's id and the
// attributes of WithAttrs. The level is debug, info, warn or error, info if empty; the format json or text, json if
// empty.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var lowest slog.Level
	if level != "" {
		if err := lowest.UnmarshalText([]byte(level)); err != nil {
			return nil, errors.New("log level must be debug, info, warn or error")
		}
	}
	options := &slog.HandlerOptions{Level: lowest, ReplaceAttr: newRedactor().replace}
	var h slog.Handler
	switch format {
	case "", "json":
		h = slog.NewJSONHandler(w, options)
	case "text":
		h = slog.NewTextHandler(w, options)
	default:
		return nil, errors.New("log format must be json or text")
	}
	return slog.New(&handler{root: h, next: h}), nil
}

type attrsKey struct{}

// WithAttrs returns ctx with attributes that every line logged with it will have, beside those it carries already.
func WithAttrs(ctx context.Context, attrs ...slog.Attr) context.Context {
	carries := &attrsContext{Context: ctx}
	if carried, ok := ctx.Value(attrsKey{}).(*attrsContext); ok {
		carries.attrs = append(carries.few[:0], carried.attrs...)
	} else {
		carries.attrs = carries.few[:0]
	}
	carries.attrs = append(carries.attrs, attrs...)
	return carries
}

// attrsContext is a context with attributes. Every request has one with one of them, hence the room.
type attrsContext struct {
	context.Context

	attrs []slog.Attr
	few   [2]slog.Attr
}

// Value returns the context itself for the attributes' key.
func (c *attrsContext) Value(key any) any {
	if _, ok := key.(attrsKey); ok {
		return c
	}
	return c.Context.Value(key)
}

// contextAttrs appends what ctx adds to a line.
func contextAttrs(ctx context.Context, attrs []slog.Attr) []slog.Attr {
	if carried, ok := ctx.Value(attrsKey{}).(*attrsContext); ok {
		attrs = append(attrs, carried.attrs...)
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		attrs = append(attrs,
			slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return attrs
}

// handler adds what the context carries, at the top level even where the logger is inside a group.
type handler struct {
	root slog.Handler // with everything up to the first group
	next slog.Handler // with everything
	rest []step       // from root to next: the first group and what came after it
}

// step opens a group or adds attributes.
type step func(slog.Handler) slog.Handler

// Enabled reports whether the level is logged.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle writes one line.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	var few [4]slog.Attr
	attrs := contextAttrs(ctx, few[:0])
	switch {
	case len(attrs) == 0:
		return h.next.Handle(ctx, r)
	case len(h.rest) == 0:
		r = r.Clone()
		r.AddAttrs(attrs...)
		return h.next.Handle(ctx, r)
	}
	next := h.root.WithAttrs(attrs)
	for _, s := range h.rest {
		next = s(next)
	}
	return next.Handle(ctx, r)
}

// WithAttrs returns a handler with more attributes.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	if len(h.rest) == 0 {
		root := h.root.WithAttrs(attrs)
		return &handler{root: root, next: root}
	}
	return h.with(func(n slog.Handler) slog.Handler { return n.WithAttrs(attrs) })
}

// WithGroup returns a handler that is inside one more group.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(func(n slog.Handler) slog.Handler { return n.WithGroup(name) })
}

func (h *handler) with(s step) slog.Handler {
	return &handler{root: h.root, next: s(h.next), rest: append(slices.Clip(h.rest), s)}
}
