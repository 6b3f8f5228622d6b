// Command mysqlserver is a server that speaks MySQL 8's protocol and dialect, in memory, for tests. It takes its
// address as the argument and its administrator's name and password from ADMIN_USER and ADMIN_PASSWORD.
package main

import (
	"fmt"
	"os"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
)

func main() {
	if err := run(os.Args[1], os.Getenv("ADMIN_USER"), os.Getenv("ADMIN_PASSWORD")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address, user, password string) error {
	provider := memory.NewDBProvider()
	engine := sqle.NewDefault(provider)
	users := engine.Analyzer.Catalog.MySQLDb
	users.SetEnabled(true)
	users.SetPersister(nothing{})
	editor := users.Editor()
	users.AddSuperUser(editor, user, "%", password)
	editor.Close()
	config := server.Config{Protocol: "tcp", Address: address, Version: "8.0.33", MaxConnections: 200}
	s, err := server.NewServer(config, engine, sql.NewContext, memory.NewSessionBuilder(provider), nil)
	if err != nil {
		return err
	}
	return s.Start()
}

// nothing persists users: they live as long as the process.
type nothing struct{}

func (nothing) Persist(*sql.Context, []byte) error { return nil }
