package mongodb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
)

// listing answers as a server with the collections a and b, each with one document.
func listing(more bson.D) func(string, bson.Raw) bson.D {
	return func(command string, doc bson.Raw) bson.D {
		switch command {
		case "listCollections":
			return batch(0, "db.$cmd.listCollections", "firstBatch", nil,
				bson.D{{Key: "name", Value: "b"}, {Key: "type", Value: "collection"}},
				bson.D{{Key: "name", Value: "system.views"}, {Key: "type", Value: "collection"}},
				bson.D{{Key: "name", Value: "a"}, {Key: "type", Value: "view"}})
		case "find":
			name, _ := doc.Lookup("find").StringValueOK()
			return batch(0, "db."+name, "firstBatch", more, bson.D{{Key: "_id", Value: name}})
		}
		return nil
	}
}

func streamAll(t *testing.T, s source.Session, c *source.Catalog, table string) error {
	t.Helper()
	return s.Stream(context.Background(), sourcetest.Query(t, c, table, []string{"*"}), func(source.Row) error { return nil })
}

// TestSnapshot reads all tables at the time of the first read, which Begin makes.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	at := bson.Timestamp{T: 17, I: 4}
	for _, c := range []struct {
		name  string
		hello func(me string) bson.D
		more  bson.D        // in the reply of a find
		fails map[int]int32 // of the finds with a read concern, by their number from 1: an error's code
		want  string
		level string // of the read concern of the streams
	}{
		{"replica set", func(me string) bson.D { return replicaSet(21, me, me) }, bson.D{{Key: "atClusterTime", Value: at}}, nil, "snapshot", "snapshot"},
		{"sharded", func(string) bson.D { return append(standalone(), bson.E{Key: "msg", Value: "isdbgrid"}) }, bson.D{{Key: "atClusterTime", Value: at}}, nil, "snapshot", "snapshot"},
		{"before 5.0", func(me string) bson.D { return replicaSet(9, me, me) }, nil, nil, "majority", "majority"},
		{"refused", func(me string) bson.D { return replicaSet(21, me, me) }, nil, map[int]int32{1: codeInvalidOptions}, "majority", "majority"},
		{"standalone", func(string) bson.D { return standalone() }, nil, nil, "local", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answer := listing(c.more)
			finds := 0
			server := newScript(t, nil, func(command string, doc bson.Raw) bson.D {
				if command == "find" && !doc.Lookup("readConcern").IsZero() {
					if finds++; c.fails[finds] != 0 {
						return failure(c.fails[finds])
					}
				}
				return answer(command, doc)
			})
			server.hello = c.hello(server.address())
			s := sourcetest.Open(t, New(), server.params())
			catalog := sourcetest.Catalog(t, s, source.Scope{})
			got, err := s.Begin(context.Background(), time.Now().Add(time.Minute))
			if err != nil || got != c.want {
				t.Fatalf("%s, %v", got, sourcetest.Cause(err))
			}
			before := len(server.sent("find"))
			for _, table := range []string{"a", "b"} {
				if err := streamAll(t, s, catalog, table); err != nil {
					t.Fatal(sourcetest.Cause(err))
				}
			}
			for _, find := range server.sent("find")[before:] {
				level, _ := find.Lookup("readConcern", "level").StringValueOK()
				stamp, i, _ := find.Lookup("readConcern", "atClusterTime").TimestampOK()
				pinned := bson.Timestamp{T: stamp, I: i}
				if level != c.level || (c.level == "snapshot") != (pinned == at) {
					t.Errorf("%s", find)
				}
				if limit := find.Lookup("maxTimeMS").AsInt64(); limit <= 0 || limit > 60_000 {
					t.Errorf("limit %d", limit)
				}
			}
		})
	}
}

// TestKilled cancels a read that never ends: the session is killed, or else the cursor, by another connection.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, knows := range []bool{true, false} {
		t.Run(fmt.Sprint("killSessions ", knows), func(t *testing.T) {
			t.Parallel()
			release, running := make(chan struct{}), make(chan struct{})
			var once, let sync.Once
			answer := listing(nil)
			server := newScript(t, standalone(), func(command string, doc bson.Raw) bson.D {
				switch command {
				case "find":
					if doc.Lookup("sort").IsZero() {
						return batch(42, "db.a", "firstBatch", nil, bson.D{{Key: "_id", Value: 1}})
					}
				case "getMore":
					once.Do(func() { close(running) })
					<-release // as an operation does that looks whether it is killed
					return failure(11601)
				case "killSessions", "killCursors":
					if command == "killSessions" && !knows {
						return failure(codeCommandNotFound)
					}
					let.Do(func() { close(release) })
					return nil
				}
				return answer(command, doc)
			})
			t.Cleanup(func() { let.Do(func() { close(release) }) })
			s := sourcetest.Open(t, New(), server.params())
			catalog := sourcetest.Catalog(t, s, source.Scope{Tables: []string{"b"}})
			if _, err := s.Begin(context.Background(), time.Time{}); err != nil {
				t.Fatal(sourcetest.Cause(err))
			}
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				<-running
				cancel()
			}()
			q := sourcetest.Query(t, catalog, "b", []string{"*"})
			err := s.Stream(ctx, q, func(source.Row) error { return nil })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", sourcetest.Cause(err))
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			select {
			case <-release:
			default:
				t.Error("what ran was not killed when the session was closed")
			}
			session := server.sent("getMore")[0].Lookup("lsid")
			if killed := server.sent("killSessions")[0].Lookup("killSessions", "0"); !killed.Equal(session) {
				t.Errorf("killed %s, ran %s", killed, session)
			}
		})
	}
}

// guarded dials what it allows only, and remembers what else was asked for.
type guarded struct {
	allowed string

	mu      sync.Mutex
	refused []string
}

func (g *guarded) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if address == g.allowed {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = append(g.refused, address)
	return nil, dial.ErrNotAllowed
}

// TestMembers finds members of a replica set, which the guard refuses, and leaves them alone in a direct connection.
func TestMembers(t *testing.T) {
	t.Parallel()
	const other = "db2.example:27018"
	server := newScript(t, nil, listing(bson.D{{Key: "atClusterTime", Value: bson.Timestamp{T: 1, I: 1}}}))
	// A secondary, whose primary is elsewhere.
	server.hello = append(replicaSet(21, server.address(), server.address(), other), bson.E{Key: "secondary", Value: true})
	for i, e := range server.hello {
		if e.Key == "primary" {
			server.hello[i].Value = other
		}
	}
	server.hello = append(server.hello, bson.E{Key: "isWritablePrimary", Value: false}, bson.E{Key: "ismaster", Value: false})
	g := &guarded{allowed: server.address()}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // for two handshakes on a busy machine
	defer cancel()
	_, err := New().Open(ctx, server.params(), g)
	sourcetest.WantError(t, err, source.CategoryNotAllowed, false)
	if len(g.refused) == 0 || g.refused[0] != other {
		t.Errorf("asked for %v", g.refused)
	}

	p := server.params()
	p.Options = map[string]string{"directConnection": "true"}
	direct := &guarded{allowed: server.address()}
	s, err := New().Open(context.Background(), p, direct)
	if err != nil {
		t.Fatal(sourcetest.Cause(err))
	}
	defer func() { _ = s.Close() }()
	if err := s.Ping(context.Background()); err != nil || len(direct.refused) != 0 {
		t.Errorf("%v, asked for %v", sourcetest.Cause(err), direct.refused)
	}
}

// TestServerErrors maps what servers say, without their words.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	for code, want := range map[int32]struct {
		category  source.Category
		transient bool
	}{
		codeUnauthorized: {source.CategoryRights, false}, codeMaxTimeExpired: {source.CategoryTimeout, true}, codeSnapshotTooOld: {source.CategoryOther, true},
		246: {source.CategoryOther, true}, 43: {source.CategoryBroken, true}, 11601: {source.CategoryBroken, true}, 10107: {source.CategoryBroken, true},
		26: {source.CategoryObject, true}, 51091: {source.CategoryInput, false}, 2: {source.CategoryValue, false}, 115: {source.CategoryUnsupported, false},
		73: {source.CategoryDatabase, false}, 112: {source.CategoryOther, true}, 8000: {source.CategoryOther, false},
	} {
		t.Run(strconv.Itoa(int(code)), func(t *testing.T) {
			t.Parallel()
			answer := listing(nil)
			server := newScript(t, standalone(), func(command string, doc bson.Raw) bson.D {
				if command == "getMore" {
					return failure(code)
				}
				if command == "find" && doc.Lookup("sort").IsZero() {
					return batch(7, "db.b", "firstBatch", nil, bson.D{{Key: "_id", Value: 1}})
				}
				return answer(command, doc)
			})
			s := sourcetest.Open(t, New(), server.params())
			catalog := sourcetest.Catalog(t, s, source.Scope{Tables: []string{"b"}})
			if _, err := s.Begin(context.Background(), time.Now().Add(time.Minute)); err != nil {
				t.Fatal(sourcetest.Cause(err))
			}
			sourcetest.WantError(t, streamAll(t, s, catalog, "b"), want.category, want.transient)
		})
	}
}

// TestUnlisted has a server whose documents change after the sample: what the catalogue does not list is taken or fails
// the stream.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	answer := listing(nil)
	server := newScript(t, standalone(), func(command string, doc bson.Raw) bson.D {
		if command == "find" && doc.Lookup("sort").IsZero() {
			return batch(0, "db.b", "firstBatch", nil,
				bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "new", Value: bson.A{true}}, {Key: "_id", Value: 2}, {Key: "$x.y", Value: "z"}})
		}
		return answer(command, doc)
	})
	open := func() (source.Session, *source.Catalog) {
		s := sourcetest.Open(t, New(), server.params())
		catalog := sourcetest.Catalog(t, s, source.Scope{Tables: []string{"b"}})
		if _, err := s.Begin(context.Background(), time.Now().Add(time.Minute)); err != nil {
			t.Fatal(sourcetest.Cause(err))
		}
		return s, catalog
	}
	s, catalog := open()
	got, err := whole(t, s, catalog, "b")
	if diff := cmp.Diff([]string{`{"_id":1}`, `{"_id":2,"new":[true],"$x.y":"z"}`}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	q := sourcetest.Query(t, catalog, "b", []string{"_id"})
	if got := sourcetest.Read(t, s, catalog, "b", []string{"_id"}); len(got) != 2 {
		t.Errorf("named fields: %v", got)
	}
	q.All = true
	err = s.Stream(context.Background(), q, func(r source.Row) error {
		r.AppendJSON(nil, 0)
		return nil
	})
	sourcetest.WantError(t, err, source.CategoryUnlisted, false)
}

// TestUnreadable leaves out what is listed but can't be read, unless it is asked for.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	answer := listing(nil)
	server := newScript(t, standalone(), func(command string, doc bson.Raw) bson.D {
		if name, _ := doc.Lookup("find").StringValueOK(); name == "b" {
			return failure(codeUnauthorized)
		}
		return answer(command, doc)
	})
	s := sourcetest.Open(t, New(), server.params())
	if c := sourcetest.Catalog(t, s, source.Scope{}); len(c.Tables) != 1 || c.Tables[0].Name != "a" {
		t.Errorf("%v", c.Tables)
	}
	_, err := s.Catalog(context.Background(), source.Scope{Tables: []string{"db.B"}})
	sourcetest.WantError(t, err, source.CategoryRights, false)
}
