package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
	"github.com/fetcherhq/fetcher/testkit/tds"
)

// secretSources are databases with secrets in them, as connections' bodies, and those whose connections are made.
type secretSources struct {
	bodies  map[string]object
	working []string // that a session opens with
	names   map[string]string
	ids     map[string]string
}

// The operators that take any number of texts, one, and two.
var (
	manyOperators = []string{"eq", "ne", "in", "nin"}
	oneOperators  = []string{"gt", "gte", "lt", "lte", "like"}
)

// sources makes the databases.
func (r *redaction) sources(t *testing.T) *secretSources {
	t.Helper()
	s := &secretSources{bodies: map[string]object{}, names: map[string]string{}, ids: map[string]string{}}
	certificate, key := keyPair(t)
	for _, text := range []string{certificate, key} {
		r.add("line of PEM", strings.Split(text, "\n")[1])
	}
	closed := func(kind string, more object) object {
		body := object{
			"type": kind, "host": "127.0.0.1", "port": 1, "databaseName": "d", "userName": "u", "password": r.secret("password for " + kind + ", refused"),
		}
		maps.Copy(body, more)
		return body
	}
	tls := func(mode string) object {
		return object{"ssl": object{"mode": mode, "ca": certificate, "cert": certificate, "key": key}}
	}
	s.bodies["refused postgres"] = closed("POSTGRESQL", tls("verify-full"))
	s.bodies["refused mysql"] = closed("MYSQL", object{"ssl": object{"mode": "false"}})
	s.bodies["refused mongodb"] = closed("MONGODB", object{"metadata": object{"authSource": "admin"}})
	s.bodies["refused sqlserver"] = closed("SQL_SERVER", nil)
	s.bodies["refused oracle"] = closed("ORACLE", object{"metadata": object{"serviceName": "x"}})
	s.bodies["indiscreet"] = closed("POSTGRESQL", object{"port": indiscreet(t), "ssl": object{"mode": "disable"}})
	r.add("words of an indiscreet server", "canary-message")
	s.bodies["postgres"] = r.postgresSource(t)
	s.bodies["postgres, wrong password"] = with(s.bodies["postgres"], "password", r.secret("wrong password for POSTGRESQL"))
	s.bodies["mysql"] = r.mysqlSource(t)
	s.bodies["mysql, wrong password"] = with(s.bodies["mysql"], "password", r.secret("wrong password for MYSQL"))
	s.bodies["sqlserver"] = r.sqlServerSource(t)
	s.bodies["sqlserver, wrong password"] = with(s.bodies["sqlserver"], "password", r.secret("wrong password for SQL_SERVER"))
	s.working = []string{"postgres", "mysql", "sqlserver"}
	return s
}

// with is a body with another value for one member.
func with(body object, name string, value any) object {
	out := maps.Clone(body)
	out[name] = value
	return out
}

// postgresSource has a table with secrets and views whose errors quote them.
func (r *redaction) postgresSource(t *testing.T) object {
	t.Helper()
	password := r.secret("password for POSTGRESQL")
	cell := r.secret("cell of POSTGRESQL", "download-fetcher-result")
	hidden := r.secret("cell in an error of POSTGRESQL")
	detail := r.word("detail of an error of POSTGRESQL")
	r.superuser(t, "postgres", "CREATE ROLE redacted LOGIN PASSWORD '"+password+"'")
	r.superuser(t, "postgres", "CREATE DATABASE redacted OWNER redacted")
	for _, sql := range []string{
		"CREATE TABLE t (id int, word text)",
		"INSERT INTO t SELECT i, '" + cell + "' FROM generate_series(1, 50) i",
		"CREATE TABLE u (id int, word text)",
		"INSERT INTO u SELECT i, '7' FROM generate_series(1, 50000) i", "INSERT INTO u VALUES (0, '" + hidden + "')",
		"CREATE VIEW casts AS SELECT id, word::int AS n FROM u",
		`CREATE FUNCTION fail() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
			RAISE unique_violation USING MESSAGE = '` + detail + `', DETAIL = 'Key (word)=(` + hidden + `) already exists.', HINT = '` + detail + `';
		END $$`,
		"CREATE VIEW fails AS SELECT id, CASE WHEN id = 50 THEN fail() ELSE 1 END AS n FROM t",
		"GRANT SELECT ON ALL TABLES IN SCHEMA public TO redacted",
	} {
		r.superuser(t, "redacted", sql)
	}
	return object{
		"type": "POSTGRESQL", "host": r.Info.Sample.Host, "port": r.Info.Sample.Port, "databaseName": "redacted", "userName": "redacted",
		"password": password, "ssl": object{"mode": "disable"},
	}
}

func (r *redaction) mysqlSource(t *testing.T) object {
	t.Helper()
	server := testkit.MariaDB(t)
	d := server.CreateDatabase(t)
	r.add("password for MYSQL", d.Password)
	cell, hidden := r.word("cell of MYSQL", "download-fetcher-result"), r.word("cell in an error of MYSQL")
	in := "`" + d.Name + "`."
	server.Exec(t,
		"CREATE TABLE "+in+"t (id int, word text)", "INSERT INTO "+in+"t VALUES (1, '"+cell+"')",
		"CREATE FUNCTION "+in+"fail() RETURNS int DETERMINISTIC BEGIN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '"+hidden+"'; RETURN 1; END",
		"CREATE VIEW "+in+"fails AS SELECT id, "+in+"fail() AS n FROM "+in+"t")
	return object{
		"type": "MYSQL", "host": d.Host, "port": d.Port, "databaseName": d.Name, "userName": d.User, "password": d.Password,
		"ssl": object{"mode": "false"},
	}
}

// sqlServerSource lets in whoever has the password, and tells a secret when it is asked for its catalogue.
func (r *redaction) sqlServerSource(t *testing.T) object {
	t.Helper()
	password := r.secret("password for SQL_SERVER")
	server := tds.New(t, tds.Options{User: "u", Password: password, Database: "d"})
	server.Handle(tds.Containing("sys."), tds.Answer{Error: &tds.Error{Number: 245, Message: "Conversion failed: " + r.word("cell in an error of SQL_SERVER")}})
	return object{
		"type": "SQL_SERVER", "host": server.Host(), "port": server.Port(), "databaseName": "d", "userName": "u", "password": password,
	}
}

// connections makes, changes, reads, tests and removes connections with secrets.
func (r *redaction) connections(t *testing.T, s *secretSources) {
	t.Helper()
	product := []string{"X-Product-Name", ledger}
	keyed := func() []string { return append(slices.Clone(product), "Idempotency-Key", r.word("key of a request")) }
	for label, body := range s.bodies {
		name := unique("c")
		made := r.ends(t, http.StatusCreated, post(managed, text(t, with(body, "configName", name)), keyed()...))
		var c connection
		made.Decode(t, &c)
		s.names[label], s.ids[label] = name, c.ID
		wanted := http.StatusUnprocessableEntity
		if slices.Contains(s.working, label) {
			wanted = http.StatusOK
		}
		r.ends(t, http.StatusOK, get(managed+"/"+c.ID))
		r.ends(t, wanted, post(managed+"/"+c.ID+"/test", ""))
		if label == "sqlserver" {
			wanted = http.StatusUnprocessableEntity
		}
		r.ends(t, wanted, get(managed+"/"+c.ID+"/schema"))
	}
	word := r.word("value in a query")
	for _, query := range []string{"?limit=100", "?metadata.x=" + word, "?host=" + word} {
		r.do(t, r.Info.API, r.admin.token, get(managed+query))
	}
	r.do(t, r.Info.API, r.admin.token, get(managed+"?startDate="+word))
	r.ends(t, http.StatusOK, get(managed+"/unassigned?limit=100"))

	spare := unique("c")
	var c connection
	r.ends(t, http.StatusCreated, post(managed, text(t, with(s.bodies["refused postgres"], "configName", spare)), product...)).Decode(t, &c)
	r.superuser(t, r.tenant, "UPDATE connections SET product_name = NULL WHERE id = $1", c.ID)
	r.ends(t, http.StatusOK, post(managed+"/"+c.ID+"/assign", "", product...))
	r.ends(t, http.StatusOK, patch(c.ID, text(t, object{"password": r.secret("changed password")})))
	for _, body := range []string{
		text(t, object{"password": []string{r.secret("password in a list")}}), text(t, object{"password": r.secret("password beside a fault"), "port": 0}),
		text(t, object{"ssl": object{"key": r.secret("key that is none"), "cert": r.secret("certificate that is none")}}),
		text(t, object{"ssl": object{"mode": "require", "key": object{r.word("name of a member"): 1}}}),
		`{"password":"` + r.word("password twice") + `","password":"x"}`, `{"password":"` + r.word("password that is cut off"),
		`{"password":` + r.word("password without quotes") + `}`, `"` + r.word("body that is a text") + `"`,
		`{"port":"` + r.word("text for a port") + `"}`,
	} {
		for _, c := range []call{patch(c.ID, body), post(managed, body, product...), post("/v1/fetcher", body), post(managed+"/validate-schema", body)} {
			if got := r.do(t, r.Info.API, r.admin.token, c); got.Status < http.StatusBadRequest {
				t.Errorf("%s %s: %d", c.method, c.path, got.Status)
			}
		}
	}
	huge := `{"password":"` + r.word("password in a body that is too large") + `","x":"` + strings.Repeat("x", 2<<20) + `"}`
	if got := r.do(t, r.Info.API, r.admin.token, post(managed, huge, product...)); got.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of 2 MiB: %d", got.Status)
	}
	if got := r.do(t, r.Info.API, r.admin.token, post(managed, text(t, with(s.bodies["refused postgres"], "configName", spare)), product...)); got.Status != http.StatusConflict {
		t.Errorf("a name that is taken: %d", got.Status)
	}
	denied := with(s.bodies["refused postgres"], "host", "169.254.169.254")
	if got := r.do(t, r.Info.API, r.admin.token, post(managed, text(t, with(with(denied, "configName", unique("c")), "password", r.secret("password for a host that is refused"))), product...)); got.Status != http.StatusBadRequest {
		t.Errorf("a host that is refused: %d", got.Status)
	}
	r.ends(t, http.StatusNoContent, remove(c.ID))
	r.do(t, r.Info.API, r.admin.token, remove(c.ID))
}

// jobs extracts with filters, and in every way that fails.
func (r *redaction) jobs(t *testing.T, s *secretSources) {
	t.Helper()
	shown := []string{"get-fetcher-job", "list-fetcher-jobs", "cancel-fetcher-job"}
	conditions := object{}
	for _, op := range manyOperators {
		conditions[op] = []string{r.secret("filter "+op, shown[:2]...), "y"}
	}
	for _, op := range oneOperators {
		conditions[op] = []string{r.word("filter "+op, shown[:2]...)}
	}
	conditions["between"] = []string{r.secret("filter between, from", shown[:2]...), r.secret("filter between, to", shown[:2]...)}
	pg, my := s.names["postgres"], s.names["mysql"]
	done := r.extract(t, pg, "t", "completed", object{"word": conditions}, "word")
	r.ends(t, http.StatusOK, get("/v1/fetcher/"+done))
	for _, name := range []string{pg, my} {
		all := r.extract(t, name, "t", "completed", nil, "word")
		r.ends(t, http.StatusOK, get("/v1/fetcher/"+all+"/result"))
		r.ends(t, http.StatusOK, get("/v1/fetcher/"+all+"/events"))
	}
	r.extract(t, pg, "casts", "failed", nil, "n")
	r.extract(t, pg, "fails", "failed", nil, "n")
	r.extract(t, my, "fails", "failed", nil, "n")
	r.ends(t, http.StatusOK, get("/v1/fetcher?limit=100"))
	r.ends(t, http.StatusOK, post(managed+"/validate-schema", text(t, object{"mappedFields": object{pg: object{"t": []string{"*"}}}})))

	for op, values := range map[string]any{
		"eq": []any{r.secret("filter of the wrong type")}, "gt": []any{r.word("filter of the wrong type, gt")},
		"between": []any{1, r.secret("filter of the wrong type, between")}, "isNull": []any{r.secret("filter of the wrong type, isNull")},
		"like": []any{r.secret("filter like on a number")}, "resembles": []any{r.secret("filter of no operator")},
	} {
		got := r.do(t, r.Info.API, r.admin.token, r.extraction(t, pg, "t", object{"id": object{op: values}}, "id"))
		if got.Status != http.StatusBadRequest {
			t.Errorf("filter %s: %d %s", op, got.Status, got.Body)
		}
	}
	for label, name := range s.names {
		if !slices.Contains(s.working, label) {
			got := r.do(t, r.Info.API, r.admin.token, r.extraction(t, name, "t", object{"word": object{"eq": []string{r.secret("filter for " + label)}}}, "word"))
			if got.Status != http.StatusUnprocessableEntity {
				t.Errorf("a job of %s: %d %s", label, got.Status, got.Body)
			}
		}
	}
	r.do(t, r.Info.API, r.admin.token, r.extraction(t, internalDown, "t", nil, "word"))

	table, release := r.lockedTable(t)
	held := r.submit(t, r.extraction(t, pg, table, object{"word": object{"eq": []string{r.secret("filter of a canceled job", shown...)}}}, "word"))
	client := blackbox.Client{Base: r.Info.API, Token: r.admin.token}
	client.Await(t, held, blackbox.StartTimeout, func(j blackbox.Job) bool { return j.Status == "processing" })
	r.ends(t, http.StatusAccepted, post("/v1/fetcher/"+held+"/cancel", ""))
	client.Await(t, held, blackbox.StartTimeout, blackbox.Ended)
	release()
	r.ends(t, http.StatusOK, get("/v1/fetcher/"+held))
	r.ends(t, http.StatusOK, get("/v1/fetcher?limit=100"))
}

// extraction is a request for a job.
func (r *redaction) extraction(t *testing.T, name, table string, filters object, fields ...string) call {
	t.Helper()
	data := object{"mappedFields": object{name: object{table: fields}}}
	if filters != nil {
		data["filters"] = object{name: object{table: filters}}
	}
	body := text(t, object{"dataRequest": data, "metadata": object{"source": ledger, "note": r.note, "unique": unique("job")}})
	return post("/v1/fetcher", body, "Idempotency-Key", r.word("key of a job"))
}

func (r *redaction) submit(t *testing.T, c call) string {
	t.Helper()
	var made struct{ JobID string }
	r.ends(t, http.StatusAccepted, c).Decode(t, &made)
	return made.JobID
}

// extract runs a job, which must end so, and waits for its event.
func (r *redaction) extract(t *testing.T, name, table, status string, filters object, fields ...string) string {
	t.Helper()
	id := r.submit(t, r.extraction(t, name, table, filters, fields...))
	r.await(t, id, status)
	return id
}

func (r *redaction) await(t *testing.T, id, status string) {
	t.Helper()
	client := blackbox.Client{Base: r.Info.API, Token: r.admin.token}
	got := client.Await(t, id, blackbox.StartTimeout, blackbox.Ended)
	if got.Status != status {
		t.Errorf("job %s: %s %+v, want %s", id, got.Status, got.Error, status)
	}
	r.ends(t, http.StatusOK, get("/v1/fetcher/"+id))
	r.eventually(t, fmt.Sprintf("the event of %s", id), func() bool { return r.hook.heard("fetcher.job." + status + "." + id) })
}
