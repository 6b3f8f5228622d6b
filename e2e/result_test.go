package e2e

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// null is what psql prints for NULL here; no sample value looks like it.
const null = "\x01NULL"

// dsn is the sample database as psql takes it.
func dsn(s blackbox.Sample) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(s.UserName, s.Password), Host: s.Host + ":" + strconv.Itoa(s.Port), Path: s.DatabaseName}
	return u.String() + "?sslmode=disable"
}

// psql runs a query and returns the rows as psql's CSV prints them.
func psql(t *testing.T, dsn, query string) [][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "psql", dsn, "-X", "-q", "--csv", "-P", "null="+null,
		"-c", "SET TimeZone TO 'UTC'; SET IntervalStyle TO 'iso_8601'", "-c", query)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("psql: %v: %s", err, stderr.String())
	}
	rows, err := csv.NewReader(bufio.NewReader(bytes.NewReader(out))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// expected is the JSON that a cell printed by psql must become, by the published mapping of its type.
func expected(t *testing.T, typ, cell string) string {
	t.Helper()
	if cell == null {
		return "null"
	}
	switch typ {
	case "int2", "int4", "int8", "float4", "float8", "oid":
		if strings.ContainsAny(cell, "Ny") { // NaN and the infinities
			return quote(cell)
		}
		return cell
	case "bool":
		return map[string]string{"t": "true", "f": "false"}[cell]
	case "json", "jsonb":
		return cell // the value itself, order and digits as the source has them
	case "timestamp":
		return quote(strings.Replace(cell, " ", "T", 1))
	case "timestamptz":
		return quote(strings.TrimSuffix(strings.Replace(cell, " ", "T", 1), "+00") + "Z")
	case "bytea":
		raw, err := hex.DecodeString(strings.TrimPrefix(cell, `\x`))
		if err != nil {
			t.Fatal(err)
		}
		return quote(base64.StdEncoding.EncodeToString(raw))
	case "_text", "_int4", "_int8", "_numeric":
		return expectedArray(t, strings.TrimPrefix(typ, "_"), cell)
	case "numeric", "text", "varchar", "bpchar", "uuid", "date", "time", "interval", "inet", "tstzrange":
		return quote(cell)
	default:
		t.Fatalf("the test knows no mapping for type %s", typ)
		return ""
	}
}

// expectedArray maps an array literal of any depth.
func expectedArray(t *testing.T, element, literal string) string {
	t.Helper()
	items, rest := arrayItems(t, element, literal)
	if rest != "" {
		t.Fatalf("%q follows an array literal", rest)
	}
	return items
}

// arrayItems maps the literal that text starts with, and returns what follows it.
func arrayItems(t *testing.T, element, text string) (mapped, rest string) {
	t.Helper()
	rest = strings.TrimPrefix(text, "{")
	var items []string
	for !strings.HasPrefix(rest, "}") {
		var item string
		switch rest[0] {
		case '{':
			item, rest = arrayItems(t, element, rest)
		case '"':
			var unescaped []byte
			end := 1
			for ; rest[end] != '"'; end++ {
				if rest[end] == '\\' {
					end++
				}
				unescaped = append(unescaped, rest[end])
			}
			item, rest = expected(t, element, string(unescaped)), rest[end+1:]
		default:
			end := strings.IndexAny(rest, ",}")
			cell := rest[:end]
			if cell == "NULL" {
				cell = null
			}
			item, rest = expected(t, element, cell), rest[end:]
		}
		items = append(items, item)
		rest = strings.TrimPrefix(rest, ",")
	}
	return "[" + strings.Join(items, ",") + "]", rest[1:]
}

func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// readRows returns the rows of the one table in a result, each as its JSON text.
func readRows(t *testing.T, document []byte, datasource, table string) []string {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewReader(document))
	for _, want := range []string{"{", datasource, "{", table, "["} {
		if got, err := dec.ReadToken(); err != nil || got.String() != want {
			t.Fatalf("the document has %v (%v) where %q was due", got, err, want)
		}
	}
	var rows []string
	for dec.PeekKind() == '{' {
		row, err := dec.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, string(row))
	}
	for _, want := range []string{"]", "}", "}"} {
		if got, err := dec.ReadToken(); err != nil || got.String() != want {
			t.Fatalf("the document has %v (%v) where %q was due", got, err, want)
		}
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		t.Fatalf("something follows the document (%v)", err)
	}
	return rows
}

// checkResult compares every cell of a table in a downloaded document with what psql prints for it: each row must be,
// byte for byte, the object that its cells make under the published mapping.
func checkResult(t *testing.T, s blackbox.Sample, document []byte, datasource, table string) {
	t.Helper()
	quoted := `"` + strings.ReplaceAll(table, ".", `"."`) + `"`
	types := psql(t, dsn(s), fmt.Sprintf(`SELECT CASE t.typtype WHEN 'e' THEN 'text' WHEN 'd' THEN b.typname ELSE t.typname END
		FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = t.typbasetype
		WHERE a.attrelid = '%s'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, quoted))[1:]
	printed := psql(t, dsn(s), "SELECT * FROM "+quoted)
	names := make([]string, len(printed[0]))
	for i, name := range printed[0] {
		names[i] = quote(name)
	}
	want := make([]string, 0, len(printed)-1)
	for _, row := range printed[1:] {
		members := make([]string, len(row))
		for i, cell := range row {
			members[i] = names[i] + ":" + expected(t, types[i][0], cell)
		}
		want = append(want, "{"+strings.Join(members, ",")+"}")
	}
	got := readRows(t, document, datasource, table)
	// Neither query asks for an order, and Postgres may start a scan anywhere.
	slices.Sort(want)
	slices.Sort(got)
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", table, len(got), len(want))
	}
	differ := 0
	for i := range got {
		if got[i] == want[i] {
			continue
		}
		t.Errorf("%s:\n got %s\nwant %s", table, got[i], want[i])
		if differ++; differ == 5 {
			t.Fatal("and more")
		}
	}
	t.Logf("%s: %d rows of %d columns are equal", table, len(got), len(names))
}

// verify checks the digest and the tenant's HMAC of a downloaded document.
func verify(t *testing.T, d *blackbox.Dev, tenant string, j blackbox.Job, document []byte) {
	t.Helper()
	sum := sha256.Sum256(document)
	if got := hex.EncodeToString(sum[:]); got != j.Result.SHA256 {
		t.Errorf("digest %s, the job says %s", got, j.Result.SHA256)
	}
	key, err := hex.DecodeString(strings.TrimSpace(binary.Command(t, d.Env(t), "keys", "derive", "external", "--tenant", tenant)))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(document)
	if got := hex.EncodeToString(mac.Sum(nil)); got != j.ResultHMAC {
		t.Errorf("HMAC %s, the job says %s", got, j.ResultHMAC)
	}
	if int64(len(document)) != j.Result.SizeBytes {
		t.Errorf("%d bytes, the job says %d", len(document), j.Result.SizeBytes)
	}
}

func TestResultEqualsPsql(t *testing.T) {
	t.Parallel()
	d := shared(t)
	c := d.Client("acme", "operator")
	name, _ := d.Connect(t, c, "ledger")
	tables := psql(t, dsn(d.Info.Sample), `SELECT CASE schemaname WHEN 'public' THEN tablename ELSE schemaname || '.' || tablename END
		FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)[1:]
	if len(tables) < 4 {
		t.Fatalf("the sample has %d tables, want at least 4", len(tables))
	}
	large := false
	for _, row := range tables {
		table := row[0]
		id := c.Extract(t, "ledger", name, table, "*")
		j := c.AwaitCompleted(t, id, 3*time.Minute)
		document := c.Expect(t, http.StatusOK, http.MethodGet, "/v1/fetcher/"+id+"/result", nil).Body
		verify(t, d, "acme", j, document)
		checkResult(t, d.Info.Sample, document, name, table)
		large = large || j.Result.RowCount == 200_000
	}
	if !large {
		t.Error("no table of the sample has 200,000 rows")
	}
}
