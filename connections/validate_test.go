package connections_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/store"
)

var errReached = errors.New("the store was reached")

// unreachable is a database that can't be connected to: no refused input ever gets that far.
type unreachable struct{}

func (unreachable) Connect(context.Context) (driver.Conn, error) { return nil, errReached }
func (unreachable) Driver() driver.Driver                        { return nil }

// refuse creates a connection and returns the refusal, or nil if the input passed all checks and went to the store.
func refuse(t *testing.T, s *connections.Service, in connections.Input) error {
	t.Helper()
	db := sql.OpenDB(unreachable{})
	defer func() { _ = db.Close() }()
	g, err := store.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Create(t.Context(), store.NewConnections(g), tenant, product, in); !errors.Is(err, errReached) {
		return err
	}
	return nil
}

func set(member string, value any) func(*connections.Input) {
	return func(in *connections.Input) {
		text, _ := value.(string)
		switch member {
		case "configName":
			in.ConfigName = &text
		case "type":
			in.Kind = &text
		case "host":
			in.Host = &text
		case "port":
			in.Port = new(value.(int))
		case "databaseName":
			in.DatabaseName = &text
		case "schema":
			in.Schema = &text
		case "userName":
			in.UserName = &text
		case "password":
			in.Password = &text
		case "metadata":
			in.Metadata = []byte(text)
		default:
			panic(member)
		}
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	s := service(t, connections.Options{})
	long := strings.Repeat("a", 256)
	for _, c := range []struct {
		member string
		bad    []any
		good   []any
	}{
		{
			"configName",
			[]any{"ab", strings.Repeat("a", 101), "a b c", "übung", "a.b.c", "abc\x00", "abc/d", "ａｂｃ"},
			[]any{"abc", strings.Repeat("a", 100), "A-b_9", "---"},
		},
		{
			"type",
			[]any{"postgresql", "POSTGRES", "MARIADB", "x", "POSTGRESQL\x00"},
			[]any{"POSTGRESQL", " MYSQL ", "ORACLE", "SQL_SERVER", "MONGODB"},
		},
		{
			"host",
			[]any{
				"2852039166", "0x7f.1", "127.1", "0x7f000001", "0177.0.0.1", "[::1]", "[8.8.8.8]", "a b", "a..b", "-a.com", "a-.com",
				"http://a.com", "a.com:5432", "user@a.com", "bücher.de", "a\x00b", strings.Repeat("a", 64), long, "256.1.1.1", "1.2.3",
			},
			[]any{"db", "a_b.example.com", "8.8.8.8", "2606:4700::1111", "xn--bcher-kva.de", "1a.example", " db.example.com "},
		},
		{"port", []any{0, -1, 65536, 1 << 40}, []any{1, 65535, 27017}},
		{"databaseName", []any{long, "a\x00b"}, []any{"a", strings.Repeat("a", 255), "name with ; ' \" and 漢字"}},
		{"userName", []any{long, "a\x00b"}, []any{"a", strings.Repeat("é", 255)}},
		{"schema", []any{long, "a\x00b", "", "   "}, []any{"a", " sales "}},
		{"password", []any{strings.Repeat("a", 1025), "a\x00b"}, []any{"a", strings.Repeat("é", 1024), " x "}},
		{"metadata", []any{`[]`, `"x"`, `5`, `true`, `{`, ``[:0] + `{"a":1}x`, `{"a":1,"a":2}`}, []any{`{}`, `null`, `{"a":[1.50,true,null]}`}},
	} {
		for _, v := range c.bad {
			want := answer{Code: problem.Malformed, Fields: []string{"body." + c.member}}
			if diff := cmp.Diff(want, answerOf(t, refuse(t, s, input(set(c.member, v))))); diff != "" {
				t.Errorf("%s %q (-want +got):\n%s", c.member, v, diff)
			}
		}
		for _, v := range c.good {
			if err := refuse(t, s, input(set(c.member, v))); err != nil {
				t.Errorf("%s %q: %v", c.member, v, err)
			}
		}
	}
}

func TestAllFaultsAreListed(t *testing.T) {
	t.Parallel()
	err := refuse(t, service(t, connections.Options{}), connections.Input{
		ConfigName: new("a"), Kind: new("POSTGRESQL"), Host: new("127.1"), Port: new(0), DatabaseName: new("a\x00"),
		UserName: new(strings.Repeat("u", 300)), Password: new(strings.Repeat("p", 2000)), Schema: new(""),
		SSL: &connections.SSLInput{
			Mode: new("verify-all"), CA: new("ca"), Cert: new("cert"), Key: new("key"),
		},
		Metadata: []byte(`{"a":{"b":{"c":{"d":{"e":{}}}}},"` + strings.Repeat("k", 101) + `":1,"s":"` + strings.Repeat("s", 2001) + `"}`),
	})
	want := answer{Code: problem.Malformed, Fields: []string{
		"body.configName", "body.databaseName", "body.host", "body.metadata.a.b.c.d.e",
		"body.metadata." + strings.Repeat("k", 100) + "…", "body.metadata.s", "body.password", "body.port", "body.schema",
		"body.ssl.ca", "body.ssl.cert", "body.ssl.key", "body.ssl.mode", "body.userName",
	}}
	if diff := cmp.Diff(want, answerOf(t, err)); diff != "" {
		t.Error(diff)
	}
}

func TestMissingMembers(t *testing.T) {
	t.Parallel()
	s := service(t, connections.Options{})
	all := []string{
		"body.configName", "body.databaseName", "body.host", "body.password", "body.port", "body.type", "body.userName",
	}
	blanks := connections.Input{
		ConfigName: new(""), Kind: new(" "), Host: new("\t"), DatabaseName: new(""), UserName: new("\n"), Password: new("  "),
	}
	ssl := func(v connections.SSLInput) func(*connections.Input) {
		return func(in *connections.Input) { in.SSL = &v }
	}
	for name, c := range map[string]struct {
		in   connections.Input
		want []string
	}{
		"everything":         {connections.Input{}, all},
		"blank":              {blanks, all},
		"one":                {input(func(in *connections.Input) { in.Password = nil }), []string{"body.password"}},
		"before formats":     {input(set("configName", "x"), set("port", 0), func(in *connections.Input) { in.Kind = nil }), []string{"body.type"}},
		"ssl without mode":   {input(ssl(connections.SSLInput{CA: new("x")})), []string{"body.ssl.mode"}},
		"ssl with blank":     {input(ssl(connections.SSLInput{Mode: new(" ")})), []string{"body.ssl.mode"}},
		"cert without key":   {input(ssl(connections.SSLInput{Mode: new("require"), Cert: new("x")})), []string{"body.ssl.key"}},
		"key without cert":   {input(ssl(connections.SSLInput{Mode: new("require"), Key: new("x")})), []string{"body.ssl.cert"}},
		"cert and blank key": {input(ssl(connections.SSLInput{Mode: new("require"), Cert: new("x"), Key: new("")})), []string{"body.ssl.key"}},
		"key alone":          {input(ssl(connections.SSLInput{Key: new("x")})), []string{"body.ssl.cert", "body.ssl.mode"}},
	} {
		want := answer{Code: problem.MissingMember, Fields: c.want}
		if diff := cmp.Diff(want, answerOf(t, refuse(t, s, c.in))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Each input violates every check from a place in the order on; the first of them answers.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	_, rows := database(t)
	s := service(t, connections.Options{})
	if _, err := s.Create(t.Context(), rows, tenant, product, input()); err != nil {
		t.Fatal(err)
	}
	bad := set("port", 0)
	missing := func(in *connections.Input) { in.UserName = nil }
	local := set("host", "10.0.0.1")
	array := set("metadata", "[]")
	for _, c := range []struct {
		in   connections.Input
		want answer
	}{
		{input(array, local, missing, bad), answer{problem.Malformed, []string{"body.metadata"}}},
		{input(local, missing, bad), answer{problem.HostNotAllowed, []string{"body.host"}}},
		{input(missing, bad), answer{problem.MissingMember, []string{"body.userName"}}},
		{input(bad), answer{problem.Malformed, []string{"body.port"}}},
		{input(), answer{problem.NameTaken, []string{"body.configName"}}},
		// A host that is no host is a matter of formats, behind what is missing.
		{input(set("host", "127.1"), missing), answer{problem.MissingMember, []string{"body.userName"}}},
	} {
		_, err := s.Create(t.Context(), rows, tenant, product, c.in)
		if diff := cmp.Diff(c.want, answerOf(t, err)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestHostsThatAreNotAllowed(t *testing.T) {
	t.Parallel()
	for host, policies := range map[string]map[string]bool{ // per list, whether the host is allowed
		"10.0.0.1":        {"10.0.0.0/8": true, "192.168.0.0/16": false},
		"127.0.0.1":       {"127.0.0.1": true, "10.0.0.0/8": false},
		"::1":             {"::1": true, "10.0.0.0/8": false},
		"localhost":       {"localhost": true, "10.0.0.0/8": false},
		"db.internal":     {".internal": true, "10.0.0.0/8": false},
		"169.254.169.254": {"169.254.0.0/16": false, "0.0.0.0/0": false},
		"fe80::1%eth0":    {"fe80::/10": false},
		"64:ff9b::a00:1":  {"10.0.0.0/8": true, "192.168.0.0/16": false},
	} {
		for list, allowed := range policies {
			err := refuse(t, service(t, connections.Options{}, list), input(set("host", host)))
			want := answer{}
			if !allowed {
				want = answer{problem.HostNotAllowed, []string{"body.host"}}
			}
			if diff := cmp.Diff(want, answerOf(t, err)); diff != "" {
				t.Errorf("%s under %s (-want +got):\n%s", host, list, diff)
			}
			if err != nil && strings.Contains(err.Error(), host) {
				t.Errorf("the error quotes the host: %v", err)
			}
		}
	}
}

func TestSSLModes(t *testing.T) {
	t.Parallel()
	plain, strict := service(t, connections.Options{}), service(t, connections.Options{RequireTLS: true})
	invalid := answer{Code: problem.SSLModeInvalid, Fields: []string{"body.ssl.mode"}}
	for kind, modes := range map[source.Kind]map[string]bool{ // whether the mode never ends unencrypted
		source.PostgreSQL: {"disable": false, "allow": false, "prefer": false, "require": true, "verify-ca": true, "verify-full": true},
		source.MySQL:      {"false": false, "preferred": false, "true": true, "skip-verify": true},
		source.Oracle:     {"disable": false, "false": false, "true": true, "enable": true, "verify": true, "skip-verify": true},
		source.MongoDB:    {"disable": false, "false": false, "true": true, "enable": true, "insecure": true},
		source.SQLServer:  {"disable": false, "false": false, "true": true, "strict": true},
	} {
		for _, mode := range []string{
			"disable", "allow", "prefer", "require", "verify-ca", "verify-full", "false", "true", "preferred", "skip-verify",
			"enable", "verify", "insecure", "strict", "REQUIRE", "True", "1",
		} {
			in := input(set("type", string(kind)), func(in *connections.Input) { in.SSL = &connections.SSLInput{Mode: &mode} })
			encrypts, known := modes[mode]
			want, wantStrict := answer{}, answer{}
			if !known {
				want = invalid
			}
			if !encrypts {
				wantStrict = invalid
			}
			if diff := cmp.Diff(want, answerOf(t, refuse(t, plain, in))); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", kind, mode, diff)
			}
			if diff := cmp.Diff(wantStrict, answerOf(t, refuse(t, strict, in))); diff != "" {
				t.Errorf("%s %s with TLS required (-want +got):\n%s", kind, mode, diff)
			}
		}
	}
	none := answer{Code: problem.MissingMember, Fields: []string{"body.ssl"}}
	if diff := cmp.Diff(none, answerOf(t, refuse(t, strict, input()))); diff != "" {
		t.Errorf("no ssl with TLS required (-want +got):\n%s", diff)
	}
}

func TestPEM(t *testing.T) {
	t.Parallel()
	s := service(t, connections.Options{})
	m := pems()
	broken := strings.Replace(m.ecCert, "MI", "M!", 1)
	garbage := "-----BEGIN CERTIFICATE-----\nZ2FyYmFnZQ==\n-----END CERTIFICATE-----\n"
	for name, c := range map[string]struct {
		ca, cert, key string
		want          []string
	}{
		"rsa pair":             {"", m.rsaCert, m.rsaKey, nil},
		"rsa pair, pkcs8":      {"", m.rsaCert, m.rsaPKCS8, nil},
		"ec pair":              {"", m.ecCert, m.ecKey, nil},
		"parameters before":    {"", m.ecCert, "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n" + m.ecKey, nil},
		"chain":                {m.rsaCert + m.ecCert, m.ecCert + m.rsaCert, m.ecKey, nil},
		"text before":          {"Subject: test\n" + m.rsaCert, "", "", nil},
		"no pem":               {"x", "", "", []string{"ca"}},
		"key as ca":            {m.rsaKey, "", "", []string{"ca"}},
		"ca and a key":         {m.rsaCert + m.rsaKey, "", "", []string{"ca"}},
		"broken block":         {m.rsaCert + broken, "", "", []string{"ca"}},
		"garbage in a block":   {garbage, "", "", []string{"ca"}},
		"cut off":              {m.rsaCert[:len(m.rsaCert)/2], "", "", []string{"ca"}},
		"swapped":              {"", m.rsaKey, m.rsaCert, []string{"cert", "key"}},
		"not the cert's key":   {"", m.ecCert, m.otherKey, []string{"key"}},
		"other kind of key":    {"", m.ecCert, m.rsaKey, []string{"key"}},
		"two keys":             {"", m.ecCert, m.ecKey + m.otherKey, []string{"key"}},
		"no key in it":         {"", m.ecCert, "key", []string{"key"}},
		"ca, cert and key bad": {"x", "y", "z", []string{"ca", "cert", "key"}},
	} {
		ssl := connections.SSLInput{Mode: new("require")}
		for value, into := range map[*string]**string{&c.ca: &ssl.CA, &c.cert: &ssl.Cert, &c.key: &ssl.Key} {
			if *value != "" {
				*into = value
			}
		}
		want := answer{}
		for _, l := range c.want {
			want.Code, want.Fields = problem.Malformed, append(want.Fields, "body.ssl."+l)
		}
		err := refuse(t, s, input(func(in *connections.Input) { in.SSL = &ssl }))
		if diff := cmp.Diff(want, answerOf(t, err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	blanks := input(func(in *connections.Input) {
		in.SSL = &connections.SSLInput{Mode: new("require"), CA: new(""), Cert: new(" "), Key: new("")}
	})
	want := answer{Code: problem.Malformed, Fields: []string{"body.ssl.ca", "body.ssl.cert", "body.ssl.key"}}
	if diff := cmp.Diff(want, answerOf(t, refuse(t, s, blanks))); diff != "" {
		t.Errorf("blanks (-want +got):\n%s", diff)
	}
}

func TestSSLModeAmongOtherFaults(t *testing.T) {
	t.Parallel()
	s := service(t, connections.Options{})
	mode := func(in *connections.Input) { in.SSL = &connections.SSLInput{Mode: new("sometimes")} }
	deep := set("metadata", `{"a":{"b":{"c":{"d":{"e":[]}}}}}`)
	for _, c := range []struct {
		in   connections.Input
		want answer
	}{
		{input(mode), answer{problem.SSLModeInvalid, []string{"body.ssl.mode"}}},
		{input(mode, set("port", 0)), answer{problem.Malformed, []string{"body.port", "body.ssl.mode"}}},
		{input(mode, deep), answer{problem.Malformed, []string{"body.metadata.a.b.c.d.e", "body.ssl.mode"}}},
		{input(mode, set("type", "X")), answer{problem.Malformed, []string{"body.type"}}}, // no type to judge the mode by
		{input(deep, set("port", 0)), answer{problem.Malformed, []string{"body.metadata.a.b.c.d.e", "body.port"}}},
	} {
		if diff := cmp.Diff(c.want, answerOf(t, refuse(t, s, c.in))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// Whatever is wrong, no word of the answer and of the log comes from the caller's secrets.
func TestFaultsHoldNoSecret(t *testing.T) {
	t.Parallel()
	s := service(t, connections.Options{RequireTLS: true})
	long := strings.Repeat(canary, 100)
	for _, in := range []connections.Input{
		input(set("password", long), set("configName", "")),
		input(set("password", long), func(in *connections.Input) { in.SSL = &connections.SSLInput{Mode: new("require")} }),
		input(set("password", canary+"\x00"), func(in *connections.Input) {
			in.SSL = &connections.SSLInput{Mode: new("x"), CA: new(canary), Cert: new(canary), Key: new(canary)}
		}),
		input(set("host", "10.9.8.7"), func(in *connections.Input) { in.Password = new(canary) }),
		input(set("host", canary+" "+canary), func(in *connections.Input) {
			in.SSL = &connections.SSLInput{Mode: new("require"), Cert: &pems().rsaCert, Key: &pems().ecKey}
		}),
		input(set("metadata", `"`+canary+`"`)),
	} {
		err := refuse(t, s, in)
		if err == nil {
			t.Fatal("accepted")
		}
		var out strings.Builder
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "error", err, "input", in, "ssl", in.SSL)
		answer, jsonErr := json.Marshal(err)
		if jsonErr != nil {
			t.Fatal(jsonErr)
		}
		fmt.Fprintf(&out, "%s %v %+v %#v %s %q %x %v %+v", answer, err, in, in, in, in, in, &in, in.SSL)
		for _, word := range []string{canary, "10.9.8.7", "PRIVATE", fmt.Sprintf("%x", canary)} {
			if strings.Contains(out.String(), word) {
				t.Errorf("%q shows in %s", word, out.String())
			}
		}
	}
}
