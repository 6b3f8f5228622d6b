// Package mongodb owns reading MongoDB: connecting, the catalogue, the snapshot, and documents as JSON.
//
// It touches the network only through the dialer it is given, for the members it discovers too, and changes nothing at
// the server. It promises that values reach the server as BSON values and names only as parts of paths, never as
// operators; that a cursor which did not end as the server meant it to is an error; and that what runs when a context
// ends is killed at the server.
//
// A collection has no schema, so its catalogue is read off a bounded sample of its documents: the first and the last
// ones by _id and a random choice. Fields of embedded documents are columns too, under dotted names, and are left out
// of "*". What a document lacks is null. Where every field is asked for, a document's fields that the sample did not
// show follow the listed ones, so that nothing is lost; where the output has no place for them the stream fails. A
// field that is asked for by its name but was not in the sample is looked for before it is called unknown.
package mongodb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fetcherhq/fetcher/source"
)

const (
	appName = "fetcher"

	// poolSize is one connection to read on and one to kill what runs there.
	poolSize = 2

	heartbeat = 10 * time.Second
	adminDB   = "admin"
)

type driver struct{}

// New returns the driver for MongoDB 4.2 and newer, and what speaks its protocol.
func New() source.Driver { return driver{} }

// Open connects in the TLS mode of p and authenticates. The database need not exist: MongoDB makes one with its first
// document, and until then it is an empty one.
func (driver) Open(ctx context.Context, p source.Params, d source.Dialer) (source.Session, error) {
	if err := check(p); err != nil {
		return nil, &source.Error{Category: source.CategoryUnsupported, Err: err}
	}
	l, err := newLink(p, d)
	if err != nil {
		return nil, &source.Error{Category: source.CategoryTLS, Err: err}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watch{giveUp: cancel}
	client, err := mongo.Connect(clientOptions(p, l, w))
	if err != nil {
		return nil, &source.Error{Category: source.CategoryUnsupported, Err: err}
	}
	s := &session{client: client, link: l, watch: w, database: p.Database, schema: p.Schema}
	if err := s.start(ctx); err != nil {
		failure := w.explain(ctx, err)
		_ = s.Close() //nolint:contextcheck // closing has a limit of its own
		return nil, failure
	}
	w.established()
	return s, nil
}

func check(p source.Params) error {
	switch {
	case p.Kind != "" && p.Kind != source.MongoDB:
		return errors.New("not a MongoDB connection")
	case p.Host == "" || p.Port < 1 || p.Port > math.MaxUint16:
		return errors.New("host or port missing or out of range")
	case p.User == "":
		return errors.New("user missing")
	case strings.ContainsRune(p.User+p.Password+p.Database+p.Schema, 0):
		return errors.New("user, password or database contains NUL")
	}
	return checkDatabase(p.Schema, checkDatabase(p.Database, nil))
}

// checkDatabase refuses names that no database has. Drivers use some of these letters to build commands.
func checkDatabase(name string, err error) error {
	if err == nil && strings.ContainsAny(name, `/\. "$`) {
		return errors.New("database name has letters that MongoDB does not allow")
	}
	return err
}

// clientOptions sets everything that the driver would else read from a URI, the environment or its defaults.
func clientOptions(p source.Params, l *link, w *watch) *options.ClientOptions {
	o := options.Client().
		SetHosts([]string{net.JoinHostPort(p.Host, strconv.Itoa(p.Port))}).
		SetAppName(appName).
		SetAuth(credential(p)).
		SetDialer(l). // which also does TLS
		SetMaxPoolSize(poolSize).SetMinPoolSize(0).SetMaxConnecting(poolSize).
		SetHeartbeatInterval(heartbeat).
		SetServerMonitoringMode(options.ServerMonitoringModePoll).
		SetRetryReads(false).SetRetryWrites(false). // attempts are repeated as a whole
		SetServerMonitor(w.monitor()).
		SetLoggerOptions(options.Logger().SetSink(silence{}))
	if p.Options["directConnection"] == "true" {
		o.SetDirect(true)
	}
	if set := p.Options["replicaSet"]; set != "" {
		o.SetReplicaSet(set)
	}
	return o
}

func credential(p source.Params) options.Credential {
	c := options.Credential{AuthSource: p.Options["authSource"], Username: p.User, Password: p.Password, PasswordSet: true}
	if c.AuthSource == "" {
		c.AuthSource = adminDB
	}
	return c
}

// silence takes the driver's log, which tells addresses and statements, whatever the environment asks for.
type silence struct{}

func (silence) Info(int, string, ...any)    {}
func (silence) Error(error, string, ...any) {}

// start authenticates and learns what kind of server this is.
func (s *session) start(ctx context.Context) error {
	raw, err := s.client.Database(adminDB).RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Raw()
	if err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	var hello struct {
		SetName string `bson:"setName"`
		Msg     string `bson:"msg"`
		Wire    int32  `bson:"maxWireVersion"`
	}
	if err = bson.Unmarshal(raw, &hello); err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	s.replicated = hello.SetName != "" || hello.Msg == "isdbgrid"
	s.wire = hello.Wire
	// Reads of one session are killed together, and so are those of its snapshot.
	s.session, err = s.client.StartSession(options.Session().SetCausalConsistency(false))
	return err
}
