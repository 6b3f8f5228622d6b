// Command mysqlserver is a server that speaks MySQL 8's protocol and dialect, in memory, for tests. It listens without
// TLS at the address of its first argument and with TLS at that of its second. It takes its administrator's name and
// password from ADMIN_USER and ADMIN_PASSWORD, its certificate and key, in PEM, from TLS_CERT and TLS_KEY.
package main

import (
	"crypto/tls"
	"fmt"
	"os"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Getenv("ADMIN_USER"), os.Getenv("ADMIN_PASSWORD")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(plain, secure, user, password string) error {
	pair, err := tls.X509KeyPair([]byte(os.Getenv("TLS_CERT")), []byte(os.Getenv("TLS_KEY")))
	if err != nil {
		return err
	}
	provider := memory.NewDBProvider()
	engine := sqle.NewDefault(provider)
	users := engine.Analyzer.Catalog.MySQLDb
	users.SetEnabled(true)
	users.SetPersister(nothing{})
	editor := users.Editor()
	users.AddSuperUser(editor, user, "%", password)
	editor.Close()
	ended := make(chan error, 2)
	for address, config := range map[string]*tls.Config{plain: nil, secure: {Certificates: []tls.Certificate{pair}}} {
		s, err := server.NewServer(server.Config{
			Protocol: "tcp", Address: address, Version: "8.0.33", MaxConnections: 200, TLSConfig: config,
		}, engine, sql.NewContext, memory.NewSessionBuilder(provider), nil)
		if err != nil {
			return err
		}
		go func() { ended <- s.Start() }()
	}
	return <-ended
}

// nothing persists users: they live as long as the process.
type nothing struct{}

func (nothing) Persist(*sql.Context, []byte) error { return nil }
