package mongodb

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/xdg-go/scram"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source"
)

const (
	scriptUser     = "us:er@/é"
	scriptPassword = `p@ss:w/o r%d"é`
)

// script is a server that answers as it is told, for what no server that runs here does: replica sets, snapshots,
// killed sessions, errors.
type script struct {
	listener net.Listener
	hello    bson.D // beyond what every server says
	work     sync.WaitGroup

	mu       sync.Mutex
	answer   func(command string, doc bson.Raw) bson.D // nil: the default answer
	raw      func(command string) bson.Raw             // if set and not nil for the command: the answer as it is, which is not noted
	conns    map[net.Conn]bool
	commands []bson.Raw // all but the handshakes'
}

// newScript starts a server that ends with the test.
func newScript(t testing.TB, hello bson.D, answer func(command string, doc bson.Raw) bson.D) *script {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{listener: listener, hello: hello, answer: answer, conns: map[net.Conn]bool{}}
	s.work.Go(func() { s.serve(t) })
	t.Cleanup(func() {
		_ = listener.Close()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.work.Wait()
	})
	return s
}

func (s *script) address() string { return s.listener.Addr().String() }

func (s *script) params() source.Params {
	return source.Params{
		Kind: source.MongoDB, Host: "127.0.0.1", Port: s.listener.Addr().(*net.TCPAddr).Port,
		Database: "db", User: scriptUser, Password: scriptPassword,
	}
}

// sent returns the commands of a name that came.
func (s *script) sent(name string) []bson.Raw {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []bson.Raw
	for _, c := range s.commands {
		if elements, err := c.Elements(); err == nil && elements[0].Key() == name {
			found = append(found, c)
		}
	}
	return found
}

func (s *script) serve(t testing.TB) {
	client, err := scram.SHA256.NewClient(scriptUser, scriptPassword, "")
	if err != nil {
		t.Error(err)
		return
	}
	stored, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "salt", Iters: 4096})
	if err != nil {
		t.Error(err)
		return
	}
	users, err := scram.SHA256.NewServer(func(name string) (scram.StoredCredentials, error) {
		if name != scriptUser {
			return scram.StoredCredentials{}, io.EOF
		}
		return stored, nil
	})
	if err != nil {
		t.Error(err)
		return
	}
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		s.work.Go(func() {
			defer func() { _ = conn.Close() }()
			p := peer{script: s, conn: conn, login: users.NewConversation()}
			for p.step() == nil {
			}
		})
	}
}

// peer is one connection.
type peer struct {
	script *script
	conn   net.Conn
	login  *scram.ServerConversation
}

const (
	opReply = 1
	opQuery = 2004
	opMsg   = 2013
)

// step answers one message.
func (p *peer) step() error {
	var header [16]byte
	if _, err := io.ReadFull(p.conn, header[:]); err != nil {
		return err
	}
	body := make([]byte, binary.LittleEndian.Uint32(header[:])-16)
	if _, err := io.ReadFull(p.conn, body); err != nil {
		return err
	}
	id, op := binary.LittleEndian.Uint32(header[4:]), binary.LittleEndian.Uint32(header[12:])
	var out []byte
	if op == opQuery {
		_, rest, _ := bytes.Cut(body[4:], []byte{0})
		reply, _ := bson.Marshal(p.reply(bson.Raw(rest[8:])))
		out = binary.LittleEndian.AppendUint32(make([]byte, 16), 8) // await capable
		out = append(out, make([]byte, 12)...)
		out = append(binary.LittleEndian.AppendUint32(out, 1), reply...)
		op = opReply
	} else {
		size := binary.LittleEndian.Uint32(body[5:])
		reply := p.prepared(bson.Raw(body[5 : 5+size]))
		if reply == nil {
			reply, _ = bson.Marshal(p.reply(bson.Raw(body[5 : 5+size])))
		}
		out = append(make([]byte, 16+4+1), reply...)
	}
	binary.LittleEndian.PutUint32(out, uint32(len(out)))
	binary.LittleEndian.PutUint32(out[8:], id)
	binary.LittleEndian.PutUint32(out[12:], op)
	_, err := p.conn.Write(out)
	return err
}

func ok(more ...bson.E) bson.D { return append(bson.D(more), bson.E{Key: "ok", Value: 1}) }

func failure(code int32) bson.D {
	return bson.D{
		{Key: "ok", Value: 0}, {Key: "errmsg", Value: "secret words of the server"}, {Key: "code", Value: code}, {Key: "codeName", Value: "C" + strconv.Itoa(int(code))},
	}
}

func (p *peer) reply(doc bson.Raw) bson.D {
	elements, err := doc.Elements()
	if err != nil || len(elements) == 0 {
		return failure(9)
	}
	switch name := elements[0].Key(); name {
	case "hello", "isMaster", "ismaster":
		return p.greet(doc)
	case "saslStart", "saslContinue":
		return p.authenticate(doc)
	default:
		s := p.script
		s.mu.Lock()
		s.commands = append(s.commands, bytes.Clone(doc))
		answer := s.answer
		s.mu.Unlock()
		if !p.login.Valid() {
			return failure(codeUnauthorized)
		}
		if reply := answer(name, doc); reply != nil {
			return reply
		}
		return ok()
	}
}

// prepared is the answer that is not made each time anew.
func (p *peer) prepared(doc bson.Raw) bson.Raw {
	if p.script.raw == nil {
		return nil
	}
	first, err := doc.IndexErr(0)
	if err != nil {
		return nil
	}
	return p.script.raw(first.Key())
}

func (p *peer) greet(doc bson.Raw) bson.D {
	hello := bson.D{
		{Key: "helloOk", Value: true}, {Key: "isWritablePrimary", Value: true}, {Key: "maxBsonObjectSize", Value: 16 << 20},
		{Key: "maxMessageSizeBytes", Value: 48_000_000}, {Key: "maxWriteBatchSize", Value: 100_000}, {Key: "minWireVersion", Value: 0},
		{Key: "logicalSessionTimeoutMinutes", Value: 30},
	}
	if _, err := doc.LookupErr("saslSupportedMechs"); err == nil {
		hello = append(hello, bson.E{Key: "saslSupportedMechs", Value: bson.A{"SCRAM-SHA-256"}})
	}
	return ok(append(hello, p.script.hello...)...)
}

func (p *peer) authenticate(doc bson.Raw) bson.D {
	_, payload, _ := doc.Lookup("payload").BinaryOK()
	reply, err := p.login.Step(string(payload))
	if err != nil {
		return failure(18)
	}
	return ok(
		bson.E{Key: "conversationId", Value: 1}, bson.E{Key: "done", Value: p.login.Done()},
		bson.E{Key: "payload", Value: []byte(reply)},
	)
}

// batch is the reply of a cursor.
func batch(id int64, ns, name string, more bson.D, documents ...any) bson.D {
	cursor := bson.D{{Key: "id", Value: id}, {Key: "ns", Value: ns}, {Key: name, Value: append(bson.A{}, documents...)}}
	return ok(bson.E{Key: "cursor", Value: append(cursor, more...)})
}

func standalone() bson.D { return bson.D{{Key: "maxWireVersion", Value: 21}} }

// replicaSet is the greeting of the primary of a set with these members.
func replicaSet(wire int, me string, members ...string) bson.D {
	return bson.D{
		{Key: "maxWireVersion", Value: wire}, {Key: "setName", Value: "rs"}, {Key: "setVersion", Value: 1}, {Key: "me", Value: me},
		{Key: "primary", Value: me}, {Key: "hosts", Value: members}, {Key: "electionId", Value: bson.NewObjectID()},
	}
}
