package mongodb

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source"
)

// Stream runs q at the snapshot's moment. When it fails what runs at the server is killed and the session is good for
// Close only.
func (s *session) Stream(ctx context.Context, q source.Query, visit func(source.Row) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	if !s.begun {
		return &source.Error{Category: source.CategoryOther, Err: errors.New("no snapshot to read from")}
	}
	r, err := newRow(q)
	if err != nil {
		return &source.Error{Category: source.CategoryOther, Err: err}
	}
	command, err := s.findCommand(q)
	if err != nil {
		return &source.Error{Category: source.CategoryOther, Err: err}
	}
	ctx, cancel := s.limited(ctx)
	defer cancel()
	cursor, err := s.read(ctx, q.Table.Schema, command, func(doc bson.Raw) (bool, error) {
		if failed := r.begin(doc); failed != nil {
			return false, failed
		}
		if failed := visit(r); failed != nil {
			return false, &visitError{err: failed}
		}
		return true, r.end()
	})
	if err == nil {
		return nil
	}
	s.abandon(ctx, cursor)
	if failed := (*visitError)(nil); errors.As(err, &failed) {
		return failed.err
	}
	if r.err != nil && errors.Is(err, r.err) && !isContext(err) { // a value, or whoever takes the output
		return r.failure()
	}
	return s.failed(ctx, "read", err, false)
}

// visitError tells the visitor's failure from those of the source.
type visitError struct{ err error }

func (e *visitError) Error() string { return e.err.Error() }

// failure is a value that can't be had, or the error of the output.
func (r *row) failure() error {
	if errors.Is(r.err, errMalformed) || errors.Is(r.err, errDepth) {
		return &source.Error{Category: source.CategoryValue, Err: r.err}
	}
	return r.err
}

// findCommand makes the command that reads q. It asks for whole top-level fields: a projection of their members would
// drop what is not a document.
func (s *session) findCommand(q source.Query) (bson.D, error) {
	filter, err := filterOf(q.Where)
	if err != nil {
		return nil, err
	}
	command := bson.D{{Key: keyFind, Value: q.Table.Base}, {Key: keyFilter, Value: filter}}
	if projection := projectionOf(q); projection != nil {
		command = append(command, bson.E{Key: keyProjection, Value: projection})
	}
	return s.withConcern(command), nil
}

func (s *session) withConcern(command bson.D) bson.D {
	if len(s.concern) == 0 {
		return command
	}
	return append(command, bson.E{Key: keyConcern, Value: s.concern})
}

// projectionOf names the top-level fields of q; nil where all are needed or one can't be named: the server takes dots
// and dollars in a projection for something else.
func projectionOf(q source.Query) bson.D {
	if q.All {
		return nil
	}
	projection := bson.D{}
	seen := map[string]bool{}
	for _, c := range q.Columns {
		n, ok := c.Native.(*native)
		if !ok || n.odd() {
			return nil
		}
		if top := n.path[0]; !seen[top] {
			seen[top] = true
			projection = append(projection, bson.E{Key: top, Value: 1})
		}
	}
	if !seen[idField] {
		projection = append(projection, bson.E{Key: idField, Value: 0})
	}
	if len(projection) == 1 && projection[0].Value == 0 { // which would mean all others
		return bson.D{{Key: idField, Value: 1}}
	}
	return projection
}
