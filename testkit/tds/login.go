package tds

import (
	"errors"
	"fmt"
	"strconv"
)

// Login is what a client said of itself.
type Login struct {
	TDSVersion  uint32
	Host        string // the client's
	User        string
	Password    string
	Application string
	Server      string
	Database    string
	PacketSize  int
}

const (
	loginFixed   = 36 // bytes before the first offset
	versionTDS74 = 0x74000004
	versionTDS80 = 0x08000000

	numberLoginFailed = 18456
	numberNoDatabase  = 4060
)

// The token types.
const (
	tokenReturnStatus = 0x79
	tokenColMetadata  = 0x81
	tokenError        = 0xaa
	tokenLoginAck     = 0xad
	tokenRow          = 0xd1
	tokenNBCRow       = 0xd2
	tokenEnvChange    = 0xe3
	tokenDone         = 0xfd
	tokenDoneProc     = 0xfe
	tokenDoneInProc   = 0xff
)

// The kinds of ENVCHANGE.
const (
	envDatabase   = 1
	envPacketSize = 4
	envCollation  = 7
	envBegin      = 8
	envCommit     = 9
	envRollback   = 10
	envRouting    = 20
)

// login reads LOGIN7 and lets the client in or not.
func (c *conn) login() error {
	kind, body, err := readMessage(c.wire)
	if err != nil || kind != packetLogin {
		return errors.Join(err, fmt.Errorf("message %d instead of LOGIN7", kind))
	}
	if c.plain {
		c.wire = c.raw
	}
	l, err := parseLogin(body)
	if err != nil {
		return err
	}
	c.server.note(func() { c.server.logins = append(c.server.logins, l) })
	m := newMessage(c.wire, packetReply, c.packet)
	if refused := c.server.refuse(l); refused != nil {
		_, _ = m.Write(refused.token())
		_, _ = m.Write(doneToken(tokenDone, doneError, 0))
		return errors.Join(m.end(), errors.New("refused"))
	}
	c.packet = min(max(l.PacketSize, smallestPacket), largestPacket)
	version := uint32(versionTDS74)
	if c.server.opts.Encryption == Strict {
		version = versionTDS80
	}
	_, _ = m.Write(envText(envDatabase, l.Database, "master"))
	_, _ = m.Write([]byte{tokenEnvChange, 8, 0, envCollation, 5, 0x09, 0x04, 0xd0, 0x00, 0x34, 0})
	_, _ = m.Write(loginAck(version))
	_, _ = m.Write(envText(envPacketSize, strconv.Itoa(c.packet), strconv.Itoa(defaultPacket)))
	if c.server.opts.RouteHost != "" {
		_, _ = m.Write(envRoute(c.server.opts.RouteHost, c.server.opts.RoutePort))
	}
	_, _ = m.Write(doneToken(tokenDone, 0, 0))
	return m.end()
}

func (s *Server) refuse(l Login) *Error {
	switch o := s.opts; {
	case o.User != "" && (l.User != o.User || l.Password != o.Password):
		return &Error{Number: numberLoginFailed, Class: 14, Message: "Login failed for user '" + l.User + "'."}
	case o.Database != "" && l.Database != o.Database:
		return &Error{Number: numberNoDatabase, Class: 11, Message: "Cannot open database \"" + l.Database + "\" requested by the login."}
	}
	return nil
}

func parseLogin(body []byte) (Login, error) {
	r := reader{rest: body}
	_ = r.u32()                             // the length
	l := Login{TDSVersion: uint32(r.u32())} // #nosec G115 -- of four bytes
	l.PacketSize = r.u32()
	_ = r.bytes(loginFixed - 12)
	texts := make([]string, 9)
	for i := range texts {
		offset, length := r.u16(), r.u16()
		if offset+2*length > len(body) {
			return l, errors.New("LOGIN7 points behind its end")
		}
		raw := body[offset : offset+2*length]
		if i == 2 {
			raw = clearPassword(raw)
		}
		texts[i] = utf16Text(raw)
	}
	l.Host, l.User, l.Password, l.Application, l.Server, l.Database = texts[0], texts[1], texts[2], texts[3], texts[4], texts[8]
	return l, r.err
}

// clearPassword undoes the scrambling of a password, which is no encryption.
func clearPassword(b []byte) []byte {
	out := make([]byte, len(b))
	for i, c := range b {
		c ^= 0xa5
		out[i] = c<<4 | c>>4
	}
	return out
}

func loginAck(version uint32) []byte {
	body := []byte{1, byte(version >> 24), byte(version >> 16), byte(version >> 8), byte(version)}
	body = byteText(body, "Microsoft SQL Server")
	body = append(body, 15, 0, 0x10, 0)
	return append(u16([]byte{tokenLoginAck}, len(body)), body...)
}

func envText(kind byte, now, before string) []byte {
	body := byteText(byteText([]byte{kind}, now), before)
	return append(u16([]byte{tokenEnvChange}, len(body)), body...)
}

// envRoute sends the client to another server.
func envRoute(host string, port int) []byte {
	route := usText(u16([]byte{0}, port), host)
	body := append(u16([]byte{envRouting}, len(route)), route...)
	body = append(body, 0, 0)
	return append(u16([]byte{tokenEnvChange}, len(body)), body...)
}
