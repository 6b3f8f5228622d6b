package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// bareDSN names the variable by which this program is told to be the reference of the gateway.
const bareDSN = "BENCH_BARE_DSN"

// bareConnection is a connection as the gateway answers it.
type bareConnection struct {
	ID           uuid.UUID `json:"id"`
	ProductName  *string   `json:"productName"`
	ConfigName   string    `json:"configName"`
	Type         string    `json:"type"`
	Host         string    `json:"host"`
	Port         int       `json:"port"`
	DatabaseName string    `json:"databaseName"`
	Schema       *string   `json:"schema"`
	UserName     string    `json:"userName"`
	CreatedAt    time.Time `json:"createdAt"`
	UpdatedAt    time.Time `json:"updatedAt"`
}

// serveBare answers the gateway's question with Gin and one pool, of as many connections as the gateway has for a tenant,
// and nothing else.
func serveBare(dsn string) int {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return 1
	}
	cfg.MaxConns = 10
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return 1
	}
	defer pool.Close()
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.GET("/v1/management/connections/:id", func(g *gin.Context) {
		id, invalid := uuid.Parse(g.Param("id"))
		if invalid != nil {
			g.Status(http.StatusBadRequest)
			return
		}
		var c bareConnection
		var metadata []byte
		failed := pool.QueryRow(g.Request.Context(), `SELECT id, product_name, config_name, kind, host, port, database_name, schema, user_name, metadata, created_at, updated_at
			FROM connections WHERE id = $1 AND deleted_at IS NULL`, id).Scan(
			&c.ID, &c.ProductName, &c.ConfigName, &c.Type, &c.Host, &c.Port, &c.DatabaseName, &c.Schema, &c.UserName, &metadata, &c.CreatedAt, &c.UpdatedAt)
		if failed != nil {
			g.Status(http.StatusNotFound)
			return
		}
		g.JSON(http.StatusOK, c)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	fmt.Println(listener.Addr())
	server := &http.Server{Handler: engine, ReadHeaderTimeout: time.Minute}
	go func() { _, _ = os.Stdin.Read(make([]byte, 1)); _ = server.Close() }() // ends with its parent
	_ = server.Serve(listener)
	return 0
}

// bare starts the reference in a process of its own.
func bare(t *testing.T, dsn string) (address string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program) // #nosec G204 -- this very program
	cmd.Env = append(os.Environ(), bareDSN+"="+dsn)
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		if ended := cmd.Wait(); ended != nil {
			t.Error("the reference:", ended)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	return strings.TrimSpace(line)
}
