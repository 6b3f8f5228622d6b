package mysql

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
)

// script is a connection whose other end says what it was given, in pieces of a size.
type script struct {
	net.Conn

	say  io.Reader
	size int
}

func (s *script) Read(b []byte) (int, error) {
	return s.say.Read(b[:min(len(b), s.size)])
}

func (s *script) Write(b []byte) (int, error) { return len(b), nil }
func (s *script) SetDeadline(time.Time) error { return nil }

// packets puts bodies into packets, numbered from 1, split where they are too large for one.
func packets(bodies ...[]byte) []byte {
	var out []byte
	sequence := byte(1)
	for _, body := range bodies {
		for {
			n := min(len(body), maxPacket)
			out = append(out, byte(n), byte(n>>8), byte(n>>16), sequence)
			out = append(out, body[:n]...)
			sequence++
			body = body[n:]
			if n < maxPacket {
				break
			}
		}
	}
	return out
}

// binaryRow is a row of texts; nil is null.
func binaryRow(values ...[]byte) []byte {
	nulls := make([]byte, (len(values)+9)/8)
	var body []byte
	for i, v := range values {
		if v == nil {
			nulls[(i+2)/8] |= 1 << ((i + 2) % 8)
			continue
		}
		body = append(appendNumber(body, uint64(len(v))), v...)
	}
	return append(append([]byte{headerOK}, nulls...), body...)
}

func rowFrom(say []byte, size int, kinds ...kind) *row {
	w := &wire{conn: &script{say: bytes.NewReader(say), size: size}, buf: make([]byte, bufferSize), sequence: 1}
	r := &row{wire: w}
	for _, k := range kinds {
		r.columns = append(r.columns, column{kind: k, wire: wireBlob})
	}
	return r
}

func (r *row) next() (bool, error) {
	size, err := r.wire.header()
	if err != nil {
		return false, err
	}
	return r.begin(size)
}

// TestLargeRows takes rows apart that do not fit into the buffer, or not into a packet, whose characters are cut
// anywhere.
func TestLargeRows(t *testing.T) {
	t.Parallel()
	for _, units := range []int{10, bufferSize / 4, 3 * bufferSize, maxPacket/7 + 10} {
		if units > maxPacket/8 && testing.Short() {
			continue
		}
		for _, size := range []int{1009, 1 << 20} {
			t.Run(fmt.Sprint(units, size), func(t *testing.T) {
				t.Parallel()
				text := bytes.Repeat([]byte("aé😀"), units) // seven bytes
				body := binaryRow([]byte("first"), text, nil, text, []byte("last"))
				r := rowFrom(packets(body, binaryRow(nil, []byte("x"), nil, nil, nil), []byte{headerEnd, 0, 0}), size, kindText, kindText, kindText, kindBytes, kindText)
				var spilt, dst []byte
				r.spill = func(b []byte) error { spilt = append(spilt, b...); return nil }
				if more, err := r.next(); err != nil || !more {
					t.Fatal(more, err)
				}
				for i := range r.columns {
					dst = r.AppendJSON(dst, i)
				}
				if len(dst) > 4*bufferSize {
					t.Errorf("%d bytes at once", len(dst))
				}
				spilt = append(spilt, dst...)
				want := fmt.Sprintf(`"first""%s"null"%s""last"`, text, base64.StdEncoding.EncodeToString(text))
				if string(spilt) != want {
					t.Errorf("%d bytes of %d", len(spilt), len(want))
				}
				if err := r.end(); err != nil {
					t.Fatal(err)
				}
				if more, err := r.next(); err != nil || !more || string(r.AppendJSON(nil, 1)) != `"x"` {
					t.Errorf("next row: %v, %v", more, err)
				}
				if more, err := r.next(); err != nil || more {
					t.Errorf("end: %v, %v", more, err)
				}
			})
		}
	}
}

// TestLargeRowSkips passes over columns, and refuses to go back.
func TestLargeRowSkips(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("x"), 2*bufferSize)
	say := packets(binaryRow(big, big, []byte("1"), big), []byte{headerEnd})
	r := rowFrom(say, 4096, kindText, kindText, kindText, kindText)
	if _, err := r.next(); err != nil {
		t.Fatal(err)
	}
	if got := string(r.AppendJSON(nil, 2)); got != `"1"` {
		t.Errorf("got %s", got)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if more, err := r.next(); err != nil || more {
		t.Errorf("end: %v, %v", more, err)
	}
	r = rowFrom(say, 4096, kindText, kindText, kindText, kindText)
	if _, err := r.next(); err != nil {
		t.Fatal(err)
	}
	r.AppendJSON(r.AppendJSON(nil, 2), 1)
	if err := r.end(); !errors.Is(err, errOrder) {
		t.Errorf("going back: %v", err)
	}
}

// TestInvalidUTF8 replaces each byte that is not UTF-8, wherever the reads are cut.
func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	unit := []byte("a\xff\xe2\x82é\xf0\x9f\x98\xe2\x82\xac")
	shown := "a\uFFFD\uFFFD\uFFFDé\uFFFD\uFFFD\uFFFD€"
	for _, units := range []int{1, bufferSize / 10, bufferSize} {
		for _, size := range []int{1, 7, 4093} {
			if size == 1 && units > 1 {
				continue
			}
			r := rowFrom(packets(binaryRow(bytes.Repeat(unit, units))), size, kindText)
			if _, err := r.next(); err != nil {
				t.Fatal(err)
			}
			if got := string(r.AppendJSON(nil, 0)); got != `"`+strings.Repeat(shown, units)+`"` || r.end() != nil {
				t.Errorf("%d units in pieces of %d: differ, %v", units, size, r.end())
			}
		}
	}
}

// TestBrokenRows ends rows early and gives lengths that can't be.
func TestBrokenRows(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("é"), bufferSize)
	whole := packets(binaryRow(big, []byte("1"), big))
	for _, cut := range []int{1, 3, 5, 100, bufferSize + 1, 2*bufferSize + 12, len(whole) - 1} {
		r := rowFrom(whole[:cut], 1<<20, kindText, kindText, kindText)
		_, err := r.next()
		for i := range r.columns {
			if err == nil {
				r.AppendJSON(nil, i)
			}
		}
		if err == nil {
			err = r.end()
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	for name, body := range map[string][]byte{
		"empty": {}, "kind": {7}, "no nulls": {headerOK}, "no length": {headerOK, 0}, "short value": {headerOK, 0, 3, 'a'}, "long number": {headerOK, 0, 0xfe, 1},
		"too much": {headerOK, 0, 1, 'a', 'b'}, "null as a length": {headerOK, 0, 0xfb}, "huge": {headerOK, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		r := rowFrom(packets(body), 1<<20, kindText)
		if _, err := r.next(); !errors.Is(err, errProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	lying := append([]byte{headerOK, 0, 0xfd, 0, 0, 9}, big...) // a value that goes beyond its row
	r := rowFrom(packets(lying), 1<<20, kindText)
	if _, err := r.next(); err != nil {
		t.Fatal(err)
	}
	r.AppendJSON(nil, 0)
	if err := r.end(); !errors.Is(err, errProtocol) {
		t.Errorf("length beyond the row: %v", err)
	}
	r = rowFrom(append([]byte{1, 0, 0, 9}, headerOK), 1, kindText)
	if _, err := r.next(); !errors.Is(err, errProtocol) {
		t.Errorf("out of order: %v", err)
	}
}

// TestMalformedValues gives sizes that the types have not.
func TestMalformedValues(t *testing.T) {
	t.Parallel()
	for k, bodies := range map[kind][]string{
		kindDate: {"a", "abcde"}, kindDateTime: {"abc"}, kindTime: {"abc", "abcdefghi"}, kindBool: {"", "ab"}, kindDecimal: {"", "1,5", "x"},
	} {
		for _, body := range bodies {
			r := rowFrom(packets(binaryRow([]byte(body))), 100, k)
			if _, err := r.next(); err != nil {
				t.Fatal(err)
			}
			got := string(r.AppendJSON(nil, 0))
			var e *source.Error
			if err := r.end(); got != "null" || !errors.As(err, &e) || e.Category != source.CategoryValue {
				t.Errorf("kind %d, %q: %s, %v", k, body, got, err)
			}
		}
	}
	r := rowFrom(packets(binaryRow([]byte(`{"a":`))), 100, kindCheckedJSON)
	if _, err := r.next(); err != nil || string(r.AppendJSON(nil, 0)) != `"{\"a\":"` {
		t.Error("text that is not JSON went through")
	}
}

// TestHostileServers says what no honest server does: an error each time, never a panic.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	greeting := append([]byte("\x0a8.0.0\x00\x01\x00\x00\x00scramble\x00\xff\xf7\x21\x02\x00\xff\xdf\x15"), make([]byte, 10)...)
	greeting = append(greeting, "scramblescra\x00mysql_native_password\x00"...)
	switched := func(text string) []byte { return append([]byte{headerEnd}, text...) }
	for name, say := range map[string][]byte{
		"nothing": nil, "empty packet": {0, 0, 0, 0}, "huge packet": {0xff, 0xff, 0xff, 0}, "short": {1, 0, 0, 0, 10},
		"old protocol": numbered([]byte{9}), "no end": numbered(append([]byte{10}, bytes.Repeat([]byte("a"), 100)...)), "HTTP": []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"error": numbered([]byte{headerError}), "cut": numbered(greeting)[:40], "switch to nothing": numbered(greeting, nil, switched("")), "no scramble": numbered(greeting, nil, switched("mysql_native_password\x00")),
		"unknown plugin": numbered(greeting, nil, switched("evil\x00")), "short scramble": numbered(greeting, nil, switched("client_ed25519\x00abc")), "key": numbered(greeting, nil, switched("sha256_password\x00abcdefghabcdefghabcd"), nil, []byte("\x01junk")),
		"local file": numbered(greeting, nil, []byte("\xfb/etc/passwd")), "clear text": numbered(greeting, nil, switched("mysql_clear_password\x00")),
	} {
		p := source.Params{Host: "db.example", Port: 3306, User: "u", Password: "secret", TLS: source.TLS{Mode: "false"}}
		_, err := New().Open(context.Background(), p, sayer(say))
		var e *source.Error
		if !errors.As(err, &e) || strings.Contains(err.Error(), "passwd") || strings.Contains(err.Error(), "evil") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// numbered puts the bodies into packets; nil stands for one of the client.
func numbered(bodies ...[]byte) []byte {
	var out []byte
	for i, body := range bodies {
		if body != nil {
			out = append(append(out, byte(len(body)), byte(len(body)>>8), 0, byte(i)), body...)
		}
	}
	return out
}

// sayer dials somebody who says the same to everyone.
type sayer []byte

func (s sayer) DialContext(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		_, _ = theirs.Write(s)
		time.Sleep(time.Millisecond)
		_ = theirs.Close()
	}()
	return &addressed{ours}, nil
}

// addressed has an address as connections of the network have.
type addressed struct{ net.Conn }

func (addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 3306} }

// TestRowBeyondAPacket reads a value that MariaDB sends in several packets.
func TestRowBeyondAPacket(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 40 MB")
	}
	t.Parallel()
	const units = 18 << 20 / 9
	f := newFixture(t, "CREATE TABLE big (id int, v longtext, b longblob, tail varchar(10))",
		fmt.Sprintf("INSERT INTO big VALUES (1, REPEAT('aé😀\"\n', %d), REPEAT('abc', 6000000), 'x')", units))
	s, catalog := f.begun()
	q := sourcetest.Query(t, catalog, "big", []string{"*"})
	var got int
	var most int
	q.Spill = func(b []byte) error {
		got, most = got+len(b), max(most, len(b))
		return nil
	}
	err := s.Stream(context.Background(), q, func(r source.Row) error {
		var dst []byte
		for i := range q.Columns {
			dst = r.AppendJSON(dst, i)
		}
		got += len(dst)
		return nil
	})
	if err != nil {
		t.Fatal(sourcetest.Cause(err))
	}
	if want := 1 + units*11 + 2 + 24000000 + 2 + 3; got != want || most > 4*bufferSize {
		t.Errorf("%d bytes of %d, %d at once", got, want, most)
	}
	if diff := cmp.Diff([]string{`{"tail":"x"}`}, sourcetest.Read(t, s, catalog, "big", []string{"tail"})); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

// FuzzRow looks for bytes that rows panic over, or that make JSON which is none.
func FuzzRow(f *testing.F) {
	f.Add(binaryRow([]byte("a"), nil, []byte("2")), byte(0))
	f.Add(binaryRow(make([]byte, 11), make([]byte, 12), []byte{1}), byte(9))
	f.Fuzz(func(t *testing.T, body []byte, k byte) {
		r := rowFrom(packets(body), 1<<16, kind(k%13), kindTime, kindText)
		for i := range r.columns {
			r.columns[i].size = sizeOf(map[kind]byte{kindInteger: wireLong, kindFloat: wireFloat, kindDouble: wireDouble}[r.columns[i].kind])
			if r.columns[i].kind == kindFloat {
				r.columns[i].wire = wireFloat
			}
		}
		if more, err := r.next(); err != nil || !more {
			return
		}
		for i := range r.columns {
			if v := r.AppendJSON(nil, i); len(v) == 0 {
				t.Error("nothing")
			}
		}
		_ = r.end()
	})
}
