package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// MongoDSN names the variable with the mongodb:// URI of a server to use instead of an own one: of a user who may create
// databases, with one host. What it says of authSource, replicaSet and directConnection is passed on.
const MongoDSN = "TEST_MONGODB_DSN"

const (
	mongoAuth     = "admin" // the database that knows the user
	mongoUser     = "fetcher"
	mongoPorts    = 5
	mongoPatience = time.Minute
)

// MongoServer is a server that speaks MongoDB's protocol.
type MongoServer struct {
	Host     string
	Port     int
	User     string
	Password string
	Options  map[string]string // authSource and such
	Own      bool              // it is FerretDB, not one that was given

	dir  *tempDir
	kept *keptServer
}

// MongoDatabase is a database of one test, and its name is all that there is of it at first.
type MongoDatabase struct {
	*MongoServer

	Name   string
	Client *mongo.Client // of the server's user
}

// MongoDB returns the server that the tests of this process share, which is built when there is none yet and starts
// with the first call, or the one at TEST_MONGODB_DSN.
func MongoDB(tb testing.TB) *MongoServer {
	tb.Helper()
	s, err := sharedMongo.start()
	if err != nil {
		tb.Fatalf("testkit: MongoDB: %v", err)
	}
	return s
}

// MongoTLS is what a server of one test shows and wants of its clients. The fields are the names of PEM files.
type MongoTLS struct {
	Cert, Key string
	ClientCA  string // clients must have a certificate of this authority; empty: they need none
}

// NewMongoDBTLS starts a server for tb alone that speaks TLS only.
func NewMongoDBTLS(tb testing.TB, t MongoTLS) *MongoServer {
	tb.Helper()
	listen := func(address string) []string {
		return []string{
			"--listen-addr=", "--listen-tls=" + address, "--listen-tls-cert-file=" + t.Cert, "--listen-tls-key-file=" + t.Key,
			"--listen-tls-ca-file=" + t.ClientCA,
		}
	}
	s, err := startMongo(listen, func(s *MongoServer) error {
		conn, err := net.DialTimeout("tcp", s.address(), time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	tb.Cleanup(func() {
		if failed := s.stop(); failed != nil {
			tb.Errorf("testkit: MongoDB: %v", failed)
		}
	})
	if err != nil {
		tb.Fatalf("testkit: MongoDB: %v", err)
	}
	return s
}

// NewDatabase returns a name that no database has, and drops the database when tb ends.
func (s *MongoServer) NewDatabase(tb testing.TB) MongoDatabase {
	tb.Helper()
	client, err := s.connect()
	if err != nil {
		tb.Fatalf("testkit: MongoDB: %v", err)
	}
	d := MongoDatabase{MongoServer: s, Name: "t_" + strings.ToLower(rand.Text()), Client: client}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), mongoPatience)
		defer cancel()
		if err := errors.Join(client.Database(d.Name).Drop(ctx), client.Disconnect(ctx)); err != nil {
			tb.Errorf("testkit: MongoDB: drop %s: %v", d.Name, err)
		}
	})
	return d
}

// Insert adds documents to a collection, with whatever one write can take at a time.
func (d MongoDatabase) Insert(tb testing.TB, collection string, documents ...any) {
	tb.Helper()
	const most = 8 << 20
	to := d.Client.Database(d.Name).Collection(collection)
	var batch []any
	size := 0
	flush := func() {
		if len(batch) == 0 {
			return
		}
		if _, err := to.InsertMany(context.Background(), batch); err != nil {
			tb.Fatalf("testkit: MongoDB: insert into %s: %v", collection, err)
		}
		batch, size = batch[:0], 0
	}
	for _, doc := range documents {
		raw, err := bson.Marshal(doc)
		if err != nil {
			tb.Fatalf("testkit: MongoDB: %v", err)
		}
		if size += len(raw); size > most || len(batch) == 1000 {
			flush()
			size = len(raw)
		}
		batch = append(batch, bson.Raw(raw))
	}
	flush()
}

func (s *MongoServer) address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

func (s *MongoServer) connect() (*mongo.Client, error) {
	o := options.Client().SetHosts([]string{s.address()}).SetAuth(options.Credential{
		AuthSource: s.Options["authSource"], Username: s.User, Password: s.Password, PasswordSet: true,
	}).SetServerSelectionTimeout(mongoPatience).SetMaxPoolSize(4)
	if s.Options["directConnection"] == "true" {
		o.SetDirect(true)
	}
	if set := s.Options["replicaSet"]; set != "" {
		o.SetReplicaSet(set)
	}
	return mongo.Connect(o)
}

// answers checks that the server takes its own credentials: at that port there may be somebody else.
func (s *MongoServer) answers() error {
	client, err := s.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = client.ListDatabaseNames(ctx, bson.D{})
	return errors.Join(err, client.Disconnect(ctx))
}

// startMongo starts FerretDB at a free port. What it returns is to be stopped, even with an error.
func startMongo(listen func(address string) []string, answers func(*MongoServer) error) (*MongoServer, error) {
	s := &MongoServer{Host: loopback, User: mongoUser, Password: rand.Text(), Own: true, Options: map[string]string{"authSource": mongoAuth}}
	binary, err := ferretBinary(context.Background())
	if err != nil {
		return s, err
	}
	if s.dir, err = newTempDir(); err != nil {
		return s, err
	}
	for range mongoPorts {
		if s.Port, err = freePort(); err != nil {
			return s, err
		}
		var command []string
		if command, err = ferretCommand(binary, s.dir.path, listen(s.address())...); err != nil {
			return s, err
		}
		if s.kept, err = keep(s.dir.path, command, "FERRETDB_SETUP_PASSWORD="+s.Password); err != nil {
			return s, err
		}
		if err = s.kept.await(mongoPatience, func() error { return answers(s) }); err == nil {
			return s, nil
		}
		_ = s.kept.stop()
		s.kept = nil
	}
	return s, err
}

func (s *MongoServer) stop() error {
	var err error
	if s.kept != nil {
		err = s.kept.stop()
	}
	if s.dir != nil {
		err = errors.Join(err, s.dir.remove())
	}
	return err
}

// sharedMongoDB is started at most once per process.
type sharedMongoDB struct {
	once   sync.Once
	server *MongoServer
	err    error
}

// sharedMongo is a global for the same reason as shared.
var sharedMongo sharedMongoDB

func (s *sharedMongoDB) start() (*MongoServer, error) {
	s.once.Do(func() {
		if dsn := os.Getenv(MongoDSN); dsn != "" {
			s.server, s.err = givenMongo(dsn)
			return
		}
		s.server, s.err = startMongo(func(address string) []string { return []string{"--listen-addr=" + address} }, (*MongoServer).answers)
	})
	return s.server, s.err
}

// stop ends what start began; a later start returns an error.
func (s *sharedMongoDB) stop() error {
	s.once.Do(func() { s.err = errors.New("the tests of this process are over") })
	if s.server == nil {
		return nil
	}
	return s.server.stop()
}

func givenMongo(dsn string) (*MongoServer, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("%s can't be parsed", MongoDSN)
	}
	s := &MongoServer{Host: u.Hostname(), Port: 27017, User: u.User.Username(), Options: map[string]string{"authSource": mongoAuth}}
	s.Password, _ = u.User.Password()
	if u.Port() != "" {
		s.Port, err = strconv.Atoi(u.Port())
	}
	for name := range u.Query() {
		s.Options[name] = u.Query().Get(name)
	}
	return s, err
}
