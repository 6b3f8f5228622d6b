package mongodb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fetcherhq/fetcher/source"
)

const (
	// closeGrace bounds how long Close waits for what was killed to be gone, and for the farewell.
	closeGrace = 3 * time.Second
	// snapshotWire is the first version of the protocol with snapshots outside of transactions: MongoDB 5.0.
	snapshotWire = 13
)

// How consistent the reads of a session are. Outside of snapshots each cursor sees what is there while it reads.
const (
	consistencySnapshot = "snapshot" // all tables, at one moment
	consistencyMajority = "majority" // only what can't be rolled back any more
	consistencyLocal    = "local"    // what the one server has
)

// session is one client with one server session. After a failure of Stream it is good for Close only.
type session struct {
	client   *mongo.Client
	session  *mongo.Session // nil: the client never got that far
	link     *link
	watch    *watch
	database string
	schema   string // the database to read instead

	replicated bool  // a replica set or a sharded cluster
	wire       int32 // newest version of the protocol that the server speaks

	begun    bool
	deadline time.Time
	concern  bson.D // the read concern of every read; empty: the server's own

	abandoned chan struct{} // set when a stream failed; closed when the server has let go
	closed    bool
}

// in returns the name of the database that is read.
func (s *session) in() string {
	if s.schema != "" {
		return s.schema
	}
	return s.database
}

// Ping asks for collections of an impossible name, which takes the right to see the database.
func (s *session) Ping(ctx context.Context) error {
	command := append(listCommand(), bson.E{Key: keyFilter, Value: bson.D{{Key: "name", Value: ""}}})
	if _, err := s.run(ctx, s.in(), command); err != nil {
		return s.failed(ctx, "ping", err, true)
	}
	return nil
}

// run executes a command in the server session and returns the reply. The time left of ctx is the command's limit at
// the server, too.
func (s *session) run(ctx context.Context, database string, command bson.D) (bson.Raw, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return s.client.Database(database).RunCommand(mongo.NewSessionContext(ctx, s.session), command).Raw()
}

// failed classifies an error of an operation. A server that is not there any more may have been found so elsewhere.
func (s *session) failed(ctx context.Context, operation string, err error, opening bool) error {
	return classify(ctx, fmt.Errorf("%s: %w", operation, err), opening)
}

// usable returns an error once a stream has left the connection behind.
func (s *session) usable() error {
	if s.abandoned != nil || s.closed {
		return &source.Error{Category: source.CategoryBroken, Transient: true, Err: net.ErrClosed}
	}
	return nil
}

// Begin fixes the moment that every later Stream reads at, where the server can go back to one: a replica set or a
// sharded cluster of MongoDB 5.0 or newer. Else it says what the reads are instead.
func (s *session) Begin(ctx context.Context, deadline time.Time) (string, error) {
	if s.begun {
		return "", &source.Error{Category: source.CategoryOther, Err: errors.New("snapshot begun twice")}
	}
	s.deadline = deadline
	ctx, cancel := s.limited(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return "", classify(ctx, err, false)
	}
	consistency := consistencyLocal
	if s.replicated {
		var err error
		if consistency, err = s.fix(ctx); err != nil {
			return "", s.failed(ctx, "begin", err, false)
		}
	}
	s.begun = true
	return consistency, nil
}

// limited is ctx with the snapshot's deadline.
func (s *session) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, s.deadline)
}

// fix takes the moment from a read, which also shows that the server allows such reads.
func (s *session) fix(ctx context.Context) (string, error) {
	if s.wire < snapshotWire {
		s.concern = bson.D{{Key: keyLevel, Value: "majority"}}
		return consistencyMajority, nil
	}
	level := bson.E{Key: keyLevel, Value: "snapshot"}
	found, err := s.list(ctx, nil)
	if err != nil {
		return "", err
	}
	if len(found) == 0 { // nothing to read, so nothing to be torn
		s.concern = bson.D{level}
		return consistencySnapshot, nil
	}
	reply, err := s.run(ctx, s.in(), bson.D{
		{Key: keyFind, Value: found[0].name},
		{Key: keyLimit, Value: 1}, {Key: "singleBatch", Value: true}, {Key: keyProjection, Value: bson.D{{Key: "_id", Value: 1}}},
		{Key: keyConcern, Value: bson.D{level}},
	})
	if server := serverError(err); server != nil && refusesSnapshots(server.Code) {
		s.concern = bson.D{{Key: keyLevel, Value: "majority"}}
		return consistencyMajority, nil
	}
	if err != nil {
		return "", err
	}
	t, i, ok := reply.Lookup("cursor", "atClusterTime").TimestampOK()
	if !ok {
		t, i, ok = reply.Lookup("atClusterTime").TimestampOK()
	}
	if !ok {
		return "", errors.New("server did not tell the snapshot's time")
	}
	s.concern = bson.D{level, {Key: "atClusterTime", Value: bson.Timestamp{T: t, I: i}}}
	return consistencySnapshot, nil
}

func refusesSnapshots(code int32) bool {
	return slices.Contains([]int32{
		codeNoReplicaSet, codeInvalidOptions, codeIllegal, codeNotSupported, codeMajorityDisabled, codeNotImplemented,
	}, code)
}

// Close ends the session. What is being killed gets a moment to go; a server that doesn't answer is left alone.
func (s *session) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	if s.abandoned != nil {
		<-s.abandoned // takes closeGrace at most
		s.link.closeAll()
	}
	if s.session != nil {
		s.session.EndSession(ctx)
	} else {
		s.link.closeAll()
	}
	_ = s.client.Disconnect(ctx) // the farewell of connections that may be gone
	s.link.closeAll()
	return nil
}

// abandon leaves what runs behind: it is killed at the server without anybody waiting for it but Close.
func (s *session) abandon(ctx context.Context, c *cursor) {
	s.abandoned = make(chan struct{})
	go func() {
		defer close(s.abandoned)
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
		if s.killSession(patience) == nil || c == nil {
			return
		}
		_ = c.kill(patience) // a server without killSessions knows killCursors
	}()
}

// killSession ends everything that this session does at the server, the operation under way and the cursors. Users may
// do so to sessions of their own.
func (s *session) killSession(ctx context.Context) error {
	command := bson.D{{Key: "killSessions", Value: bson.A{s.session.ID()}}}
	return s.client.Database(adminDB).RunCommand(ctx, command).Err()
}
