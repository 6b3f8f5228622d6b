package jobs

import (
	"context"
	"log/slog"
)

// quiet passes on what the queue's library warns of, without the errors it quotes: a driver's text names addresses.
func quiet(logger *slog.Logger) *slog.Logger {
	if logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(quietHandler{logger.Handler()})
}

type quietHandler struct{ slog.Handler }

func (h quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h quietHandler) Handle(ctx context.Context, r slog.Record) error {
	kept := slog.NewRecord(r.Time, r.Level, "queue: "+r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if k := a.Value.Resolve().Kind(); k == slog.KindInt64 || k == slog.KindUint64 || k == slog.KindDuration || k == slog.KindBool {
			kept.AddAttrs(a)
		}
		return true
	})
	return h.Handler.Handle(ctx, kept)
}

func (h quietHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h quietHandler) WithGroup(string) slog.Handler { return h }
