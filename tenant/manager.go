package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenantid"
)

// Manager is an external tenant manager: an HTTP service that knows the tenants, in place of the registry in the control
// database. It is only ever read.
type Manager struct {
	URL     string // base, http or https
	APIKey  string // sent as X-API-Key
	Service string // this deployment's name there; "fetcher"
	Module  string // member of databases that holds the settings; "fetcher"
	TLSOnly bool   // settings that may end in a connection without TLS are not usable
	Client  *http.Client
}

// product is our name, at servers and at a tenant manager.
const product = "fetcher"

const (
	managerAnswer   = 1 << 20 // bytes of an answer about one tenant, at most
	managerList     = 64 << 20
	managerFailures = 5
	managerPause    = 30 * time.Second
	managerTimeout  = 3 * time.Second
)

// Errors of a tenant manager. None holds an address or the manager's own words.
var (
	errManager       = errors.New("tenant manager: no answer")
	errManagerAnswer = errors.New("tenant manager: no usable answer")
	errManagerDenied = errors.New("tenant manager: refuses the API key")
	errManagerBroken = errors.New("tenant manager: the tenant's settings are not usable")
)

// managerClient asks a Manager, unless it failed too often lately. A list that fails keeps nobody from being looked up.
type managerClient struct {
	Manager

	lookups, lists *gobreaker.CircuitBreaker[[]byte]
}

func newManagerClient(m Manager) *managerClient {
	if m.Service == "" {
		m.Service = product
	}
	if m.Module == "" {
		m.Module = product
	}
	if m.Client == nil {
		// Redirects would carry the key elsewhere.
		m.Client = &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: managerParallel, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: managerTimeout},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	m.URL = strings.TrimSuffix(m.URL, "/")
	return &managerClient{Manager: m, lookups: newManagerBreaker(), lists: newManagerBreaker()}
}

// newManagerBreaker opens after failures of the manager. An answer that says no to one question is none: what is asked about
// one tenant must not keep the others from being looked up.
func newManagerBreaker() *gobreaker.CircuitBreaker[[]byte] {
	return gobreaker.NewCircuitBreaker[[]byte](gobreaker.Settings{
		Timeout:     managerPause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= managerFailures },
		IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) },
		IsSuccessful: func(err error) bool {
			return !errors.Is(err, errManager) && !errors.Is(err, context.DeadlineExceeded)
		},
	})
}

// errManagerSuspended is the manager's 403.
var errManagerSuspended = errors.New("tenant manager: the tenant is suspended")

// association is what the manager tells of one tenant and this service.
type association struct {
	ID        string `json:"id"`
	Name      string `json:"tenantName"`
	Status    string `json:"status"`
	Databases map[string]struct {
		PostgreSQL *managedPostgres `json:"postgresql"`
	} `json:"databases"`
	Settings struct {
		MaxOpenConns int `json:"maxOpenConns"`
	} `json:"connectionSettings"`
}

// managedPostgres are the settings of one database.
type managedPostgres struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Database string `json:"database"`
	Username string `json:"username"`
	Password string `json:"password"`
	Schema   string `json:"schema"`
	SSLMode  string `json:"sslmode"`
}

// tenant asks for one tenant. control.ErrNoTenant: the manager has none of that id. An answer about another tenant is refused.
func (c *managerClient) tenant(ctx context.Context, id string) (association, error) {
	path := "/v1/tenants/" + url.PathEscape(id) + "/associations/" + url.PathEscape(c.Service) + "/connections"
	body, err := c.ask(ctx, c.lookups, path, managerAnswer)
	if errors.Is(err, errManagerSuspended) {
		return association{Status: string(control.TenantSuspended)}, nil
	}
	if err != nil {
		return association{}, err
	}
	var a association
	if err := json.Unmarshal(body, &a); err != nil {
		return association{}, errManagerBroken // the decoder's error quotes the answer
	}
	if about, _ := tenantid.Canonical(a.ID); a.ID != "" && about != id {
		return association{}, errManagerBroken
	}
	return a, nil
}

// active lists the ids of the tenants that are active for this service. Ids that can't be are left out.
func (c *managerClient) active(ctx context.Context) ([]string, error) {
	body, err := c.ask(ctx, c.lists, "/v1/tenants/active?service="+url.QueryEscape(c.Service), managerList)
	if err != nil {
		return nil, err
	}
	var rows []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &rows); err != nil {
		return nil, errManagerAnswer
	}
	ids := make([]string, 0, len(rows))
	for _, row := range rows {
		if id, ok := tenantid.Canonical(row.ID); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (c *managerClient) ask(ctx context.Context, breaker *gobreaker.CircuitBreaker[[]byte], path string, most int64) ([]byte, error) {
	return breaker.Execute(func() ([]byte, error) {
		bounded, cancel := context.WithTimeout(ctx, managerTimeout)
		defer cancel()
		body, err := c.get(bounded, path, most)
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return body, err
	})
}

func (c *managerClient) get(ctx context.Context, path string, most int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+path, nil)
	if err != nil {
		return nil, errManager
	}
	request.Header.Set("X-API-Key", c.APIKey) //nolint:canonicalheader // as the manager's contract spells it
	request.Header.Set("Accept", "application/json")
	answer, err := c.Client.Do(request)
	if err != nil {
		return nil, errManager // the client's error quotes the address
	}
	defer func() { _ = answer.Body.Close() }()
	if err = refusal(answer.StatusCode); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	switch {
	case err != nil:
		return nil, errManager
	case int64(len(body)) > most:
		return nil, errManagerAnswer
	}
	return body, nil
}

// refusal is what a status says, nil for 200.
func refusal(status int) error {
	switch {
	case status == http.StatusOK:
		return nil
	case status == http.StatusNotFound:
		return control.ErrNoTenant
	case status == http.StatusForbidden:
		return errManagerSuspended
	case status == http.StatusUnauthorized:
		return errManagerDenied
	case status >= http.StatusInternalServerError:
		return fmt.Errorf("%w: status %d", errManager, status)
	}
	return fmt.Errorf("%w: status %d", errManagerAnswer, status)
}

// dsn is the address of the tenant's database. The database is the tenant's alone, so a schema that would tell tenants
// apart is refused.
func (a association) dsn(m Manager) (string, error) {
	db := a.Databases[m.Module].PostgreSQL
	if db == nil || db.Host == "" || db.Database == "" || db.Username == "" || (db.Schema != "" && db.Schema != "public") {
		return "", errManagerBroken
	}
	if m.TLSOnly && !slices.Contains([]string{"require", "verify-ca", "verify-full"}, db.SSLMode) {
		return "", errManagerBroken
	}
	if db.Port == 0 {
		db.Port = 5432
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(db.Username, db.Password),
		Host: hostPort(db.Host, db.Port), Path: "/" + db.Database,
	}
	if db.SSLMode != "" {
		u.RawQuery = url.Values{"sslmode": {db.SSLMode}}.Encode()
	}
	return u.String(), nil
}

func hostPort(host string, port int) string {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}

// managedStatus translates the manager's word for a tenant's state; what it doesn't know is not served.
func managedStatus(s string) control.TenantStatus {
	switch strings.ToLower(s) {
	case "", "active":
		return control.TenantActive
	case "deleted", "purged":
		return control.TenantDeleted
	default:
		return control.TenantSuspended
	}
}
