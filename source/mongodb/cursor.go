package mongodb

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	// batchBytes is about how much is asked for at a time: a batch is held as a whole.
	batchBytes = 1 << 20
	// batchGrowth is how fast batches grow while the size of documents is only guessed from those that came.
	batchGrowth = 8
	maxBatch    = 10_000

	// aheadBytes is the largest batch that is held while the next one comes.
	aheadBytes = 4 << 20
)

var errReply = errors.New("reply without a cursor")

// cursor reads the documents of a find, an aggregation or a list. It is not the driver's, which holds a batch of up to
// 16 MiB until it has the next one, and never asks for that while the last is being worked on.
type cursor struct {
	session    *session
	database   string
	collection string

	id    int64  // 0: the server has no more
	batch []byte // the elements of an array that are to be visited
	sizes batches
}

// read runs a command that returns a cursor and visits its documents until visit has enough. There is no error only if
// the cursor ended well or visit had enough. The cursor that it leaves is returned with an error, too, if there is one.
// Batches begin with one document and grow to about batchBytes: nobody knows beforehand how large documents are.
func (s *session) read(
	ctx context.Context, database string, command bson.D, visit func(bson.Raw) (more bool, err error),
) (*cursor, error) {
	c := &cursor{session: s, database: database, sizes: batches{size: 1}}
	if command[0].Key == keyFind {
		command = append(command, bson.E{Key: keyBatchSize, Value: 1}, bson.E{Key: "comment", Value: appName})
	} else {
		command = append(command, bson.E{Key: "cursor", Value: bson.D{{Key: keyBatchSize, Value: 1}}})
	}
	c.collection, _ = command[0].Value.(string)
	if err := c.take(s.run(ctx, database, command)); err != nil {
		return nil, err
	}
	for {
		ahead := c.ahead(ctx)
		more, err := c.visit(visit)
		if err != nil || !more {
			ahead.drop()
			if err == nil {
				err = c.kill(ctx)
			}
			return c, err
		}
		if c.id == 0 && ahead == nil {
			return c, nil
		}
		if ahead == nil {
			err = c.take(c.more(ctx, c.sizes.next()))
		} else {
			err = c.take(ahead.wait())
		}
		if err != nil {
			return c, err
		}
	}
}

// take makes a reply's batch the current one.
func (c *cursor) take(reply bson.Raw, err error) error {
	if err != nil {
		return err
	}
	found, ok := reply.Lookup("cursor").DocumentOK()
	if !ok {
		return errReply
	}
	if c.id, ok = found.Lookup("id").AsInt64OK(); !ok {
		return errReply
	}
	batch := found.Lookup("firstBatch")
	if batch.IsZero() {
		batch = found.Lookup("nextBatch")
	}
	list, ok := batch.ArrayOK()
	if !ok {
		return errReply
	}
	if c.collection == "" { // a command that is not for one collection
		if name, named := found.Lookup("ns").StringValueOK(); named && len(name) > len(c.database) {
			c.collection = name[len(c.database)+1:]
		}
	}
	c.batch, err = members(list)
	return err
}

// visit visits the documents of the batch and sizes the next one. It leaves no reference to the batch.
func (c *cursor) visit(visit func(bson.Raw) (bool, error)) (more bool, err error) {
	in := c.batch
	c.batch = nil
	for len(in) > 0 {
		var e element
		if e, in, err = next(in); err != nil {
			return false, err
		}
		if e.kind != kindDocument {
			return false, errMalformed
		}
		c.sizes.count(len(e.value))
		if more, err = visit(e.value); err != nil || !more {
			return more, err
		}
	}
	return true, nil
}

// more asks for the next batch. What limits the command is the limit of the whole cursor, which the first one gave: the
// server refuses another.
func (c *cursor) more(ctx context.Context, size int64) (bson.Raw, error) {
	ctx, cancel := undated(ctx)
	defer cancel()
	return c.session.run(ctx, c.database, bson.D{
		{Key: "getMore", Value: c.id}, {Key: "collection", Value: c.collection}, {Key: keyBatchSize, Value: size},
	})
}

// kill closes the cursor at the server.
func (c *cursor) kill(ctx context.Context) error {
	if c.id == 0 {
		return nil
	}
	id := c.id
	c.id = 0
	command := bson.D{{Key: "killCursors", Value: c.collection}, {Key: "cursors", Value: bson.A{id}}}
	return c.session.client.Database(c.database).RunCommand(ctx, command).Err()
}

// ahead asks for the next batch while the current one is visited, if both are small. It returns nil if not.
func (c *cursor) ahead(ctx context.Context) *pending {
	if c.id == 0 || len(c.batch) > aheadBytes || c.sizes.documents == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &pending{cancel: cancel, done: make(chan struct{})}
	size := c.sizes.next() // now: it learns from what is visited meanwhile
	go func() {
		defer close(p.done)
		p.reply, p.err = c.more(ctx, size)
	}()
	return p
}

// pending is a batch that is on its way.
type pending struct {
	cancel context.CancelFunc
	done   chan struct{}
	reply  bson.Raw
	err    error
}

func (p *pending) wait() (bson.Raw, error) {
	defer p.cancel()
	<-p.done
	return p.reply, p.err
}

// drop ends the wait for a batch that nobody wants.
func (p *pending) drop() {
	if p != nil {
		p.cancel()
		<-p.done
	}
}

// undated returns a context that is canceled when ctx ends but has no deadline, of which the driver would make a limit.
func undated(ctx context.Context) (context.Context, context.CancelFunc) {
	plain, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	return plain, func() {
		stop()
		cancel()
	}
}

// batches chooses the sizes of batches.
type batches struct {
	size      int64
	documents int64
	bytes     int64
}

func (b *batches) count(size int) { b.documents, b.bytes = b.documents+1, b.bytes+int64(size) }

// next returns the size of the next batch.
func (b *batches) next() int64 {
	fitting := batchBytes / max(b.bytes/max(b.documents, 1), 1)
	b.size = max(1, min(fitting, b.size*batchGrowth, maxBatch))
	return b.size
}
