package config

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"

	// minKeyBytes is the least a master key may have: HKDF-SHA256 can't give more strength than went in.
	minKeyBytes = 32

	// maxConcurrency is the most the queue runs in one process.
	maxConcurrency = 10000
)

// checker collects the problems of values that parsed; a variable that did not parse is not judged twice.
type checker struct {
	faulty   map[string]bool
	problems Problems
}

func (c *checker) require(ok bool, variable, message string) {
	if ok || c.faulty[variable] {
		return
	}
	c.faulty[variable] = true
	c.problems = append(c.problems, Problem{variable, message})
}

// check judges the configuration as a whole for the role, and completes defaults that depend on other variables. Rules
// come last.
func (c *Config) check(role Role, parsed Problems, rules []Rule) Problems {
	k := &checker{faulty: map[string]bool{}}
	for _, p := range parsed {
		k.faulty[p.Variable] = true
	}
	c.checkKeys(k)
	if role&(RoleManager|RoleWorker|RoleAdmin) != 0 {
		c.checkDatabase(k)
	}
	c.checkTenants(k)
	c.checkTelemetry(k)
	if role&(RoleManager|RoleWorker) != 0 {
		k.require(isAddress(c.Server.Address), "SERVER_ADDRESS", "must be host:port or :port")
		k.require(isAddress(c.Server.HealthAddress), "HEALTH_ADDRESS", "must be host:port or :port")
	}
	if role&RoleManager != 0 {
		c.checkServer(k)
		c.checkAuth(k)
		c.checkDocuments(k)
	}
	if role&(RoleManager|RoleWorker) != 0 {
		c.checkResults(k)
		c.checkJobs(k)
		c.checkEvents(k)
		c.checkDatasources(k)
	}
	c.checkSources(k)
	if c.Server.DeploymentMode == ModeSaaS {
		c.checkSaaS(k)
	}
	for _, rule := range rules {
		for _, p := range rule(c) {
			k.require(false, p.Variable, p.Message)
		}
	}
	return k.problems
}

func (c *Config) checkDatabase(k *checker) {
	k.require(c.Database.URL.IsSet(), "DATABASE_URL", "is required")
	if c.Database.URL.IsSet() {
		k.require(isPostgresURL(c.Database.URL.Reveal()), "DATABASE_URL", "must be a postgres:// URL")
		k.require(isDriversURL(c.Database.URL.Reveal()), "DATABASE_URL", notDriversURL)
	}
	if c.Database.TenantURL.IsSet() {
		k.require(isPostgresURL(c.Database.TenantURL.Reveal()), "TENANT_DATABASE_URL", "must be a postgres:// URL")
		k.require(isDriversURL(c.Database.TenantURL.Reveal()), "TENANT_DATABASE_URL", notDriversURL)
		k.require(!c.Tenants.Multi, "TENANT_DATABASE_URL", "is for single-tenant mode; MULTI_TENANT_ENABLED is true")
	}
}

func (c *Config) checkKeys(k *checker) {
	k.require(c.Keys.Current.IsSet(), "APP_ENC_KEY", "is required; fetcher keys generate makes one")
	if c.Keys.Current.IsSet() {
		k.require(isKey(c.Keys.Current.Reveal()), "APP_ENC_KEY", "must be base64 of 32 bytes or more")
	}
	k.require(c.Keys.CurrentVersion >= 1, "APP_ENC_KEY_VERSION", "must be 1 or more")
	seen := map[int]bool{c.Keys.CurrentVersion: true}
	for _, entry := range RetiredKeys(c.Keys.Retired) {
		k.require(entry.Version >= 1 && int64(entry.Version) <= math.MaxUint32 && isKey(entry.Key.Reveal()), "APP_ENC_KEYS_RETIRED", "must be version:base64, comma separated, each key of 32 bytes or more")
		k.require(!seen[entry.Version], "APP_ENC_KEYS_RETIRED", "names a version twice, or the current one")
		seen[entry.Version] = true
	}
}

func (c *Config) checkTenants(k *checker) {
	t := &c.Tenants
	k.require(t.MaxPools >= 1, "MULTI_TENANT_MAX_TENANT_POOLS", "must be 1 or more")
	if t.PoolHardCap == 0 {
		t.PoolHardCap = 2 * t.MaxPools
	}
	k.require(t.PoolHardCap >= t.MaxPools, "MULTI_TENANT_POOL_HARD_CAP", "must not be below MULTI_TENANT_MAX_TENANT_POOLS")
	k.require(t.MaxOpenConns >= 1, "TENANT_MAX_OPEN_CONNS", "must be 1 or more")
	k.require(t.MaxConnsPerHost >= 1, "MAX_DB_CONNS_PER_HOST", "must be 1 or more")
	k.require(t.MaxRunningJobs >= 0, "TENANT_MAX_RUNNING_JOBS", "must not be negative")
	k.require(t.RateLimit >= 0 && !math.IsInf(t.RateLimit, 1), "TENANT_RATE_LIMIT", "must be 0 or a positive number")
	c.checkManager(k)
	k.require(t.CacheTTL >= 1, "MULTI_TENANT_CACHE_TTL_SEC", "must be 1 or more")
	k.require(t.IdleTimeout >= 1, "MULTI_TENANT_IDLE_TIMEOUT_SEC", "must be 1 or more")
}

func (c *Config) checkManager(k *checker) {
	t := c.Tenants
	if t.ManagerURL == "" {
		k.require(!t.ManagerKey.IsSet(), "MULTI_TENANT_URL", "is required when MULTI_TENANT_SERVICE_API_KEY is set")
		return
	}
	k.require(isHTTPURL(t.ManagerURL), "MULTI_TENANT_URL", "must be an http:// or https:// URL without credentials")
	k.require(t.Multi, "MULTI_TENANT_URL", "needs MULTI_TENANT_ENABLED=true")
	k.require(t.ManagerKey.IsSet(), "MULTI_TENANT_SERVICE_API_KEY", "is required with MULTI_TENANT_URL")
	k.require(isHeaderValue(t.ManagerKey.Reveal()), "MULTI_TENANT_SERVICE_API_KEY", "must be visible ASCII characters")
}

// isHeaderValue reports whether a header can carry s.
func isHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (c *Config) checkServer(k *checker) {
	s := c.Server
	k.require(isProblemBase(s.ProblemBaseURI), "PROBLEM_BASE_URI", "must be an http(s) URL or a path")
	k.require((s.TLSCert == "") == (s.TLSKey == ""), "SERVER_TLS_CERT", "SERVER_TLS_CERT and SERVER_TLS_KEY come together")
	if s.TLSCert != "" && s.TLSKey != "" {
		k.require(isKeyPair(s.TLSCert, s.TLSKey), "SERVER_TLS_CERT", "and SERVER_TLS_KEY must be files with a certificate and its key in PEM")
	}
	k.require(s.MaxBodyBytes >= 1, "MAX_BODY_BYTES", "must be 1 or more")
	k.require(s.MaxPageLimit >= 1, "MAX_PAGINATION_LIMIT", "must be 1 or more")
	k.require(s.MaxDateRangeMonths >= 1, "MAX_PAGINATION_MONTH_DATE_RANGE", "must be 1 or more")
	for _, cidr := range s.TrustedProxies {
		k.require(isPrefix(cidr), "TRUSTED_PROXIES", "must be addresses or CIDRs, comma separated")
	}
}

func (c *Config) checkAuth(k *checker) {
	a := c.Auth
	if c.Tenants.Multi {
		k.require(a.Enabled, "PLUGIN_AUTH_ENABLED", "must be true when MULTI_TENANT_ENABLED is: the tenant comes from the token")
	}
	if !a.Enabled {
		return
	}
	k.require(a.Address != "", "PLUGIN_AUTH_ADDRESS", "is required when PLUGIN_AUTH_ENABLED is true")
	for variable, value := range map[string]string{"PLUGIN_AUTH_ADDRESS": a.Address, "PLUGIN_AUTH_JWKS_URL": a.JWKSURL} {
		if value != "" {
			k.require(isHTTPURL(value), variable, "must be an http:// or https:// URL without credentials")
		}
	}
	k.require(!strings.ContainsFunc(a.TenantClaim, unicode.IsSpace), "TENANT_CLAIM", "must be the name of a claim")
	k.require(a.CacheTTL >= 0, "PLUGIN_AUTH_CACHE_TTL", "must not be negative")
}

func (c *Config) checkResults(k *checker) {
	k.require(c.Results.URL.IsSet(), "RESULTS_URL", "is required")
	if c.Results.URL.IsSet() {
		k.require(isBucketURL(c.Results.URL.Reveal()), "RESULTS_URL", "must be file:///directory, s3://bucket?region=…, gs://bucket or azblob://container")
	}
	k.require(c.Results.TTL > 0, "RESULT_TTL", "must be positive")
	k.require(isKeyPrefix(c.Results.KeyPrefix), "RESULTS_KEY_PREFIX", "must be path segments without . or .., and not start with a slash")
}

func (c *Config) checkDocuments(k *checker) {
	d := c.Documents
	if d.ContentURL.IsSet() {
		k.require(isBucketURL(d.ContentURL.Reveal()), "CONTENT_URL", "must be file:///directory or s3://bucket?region=…")
	}
	k.require(d.RatePerMinute >= 0, "FETCH_RATE_PER_MINUTE", "must not be negative")
	k.require(d.DevRootCA == "" || c.Server.DeploymentMode == ModeSaaS || isAuthorities(d.DevRootCA), "FETCH_DEV_ROOT_CA", "must be a file with certificates in PEM")
	k.require(d.DevResolver == "" || isAddress(d.DevResolver), "FETCH_DEV_RESOLVER", "must be host:port")
	k.require(isToken(d.SessionCookie), "SESSION_COOKIE_NAME", "must be the name of a cookie")
}

func (c *Config) checkJobs(k *checker) {
	j := c.Jobs
	for variable, value := range map[string]int{
		"WORKER_CONCURRENCY": j.Concurrency, "JOB_MAX_ATTEMPTS": j.MaxAttempts, "JOB_MAX_DATASOURCES": j.MaxDatasources,
		"JOB_MAX_TABLES": j.MaxTables, "JOB_MAX_FIELDS": j.MaxFields, "JOB_MAX_CONDITIONS": j.MaxConditions,
	} {
		k.require(value >= 1, variable, "must be 1 or more")
	}
	k.require(j.Concurrency <= maxConcurrency, "WORKER_CONCURRENCY", "must be "+strconv.Itoa(maxConcurrency)+" or less")
	k.require(j.Timeout >= time.Second, "JOB_TIMEOUT", "must be 1s or more")
	k.require(j.MaxResultBytes >= 1, "JOB_MAX_RESULT_BYTES", "must be 1 or more")
	k.require(j.MaxRows >= 0, "JOB_MAX_ROWS", "must not be negative")
	k.require(j.TTL >= c.Results.TTL, "JOB_TTL", "must not be below RESULT_TTL")
	k.require(c.Server.ShutdownGrace > 0, "SHUTDOWN_GRACE", "must be positive")
}

func (c *Config) checkSources(k *checker) {
	for _, entry := range c.Sources.AllowPrivateHosts {
		if strings.Contains(entry, "/") {
			_, err := netip.ParsePrefix(entry)
			k.require(err == nil, "ALLOW_PRIVATE_HOSTS", "must be CIDRs, addresses, names or .suffixes, comma separated")
		}
	}
}

func (c *Config) checkTelemetry(k *checker) {
	k.require(c.Telemetry.TenantLabels >= 0, "METRICS_TENANT_LABEL_LIMIT", "must not be negative")
	k.require(slices.Contains([]string{"debug", "info", "warn", "error"}, c.Telemetry.LogLevel), "LOG_LEVEL", "must be debug, info, warn or error")
	k.require(slices.Contains([]string{"json", "text"}, c.Telemetry.LogFormat), "LOG_FORMAT", "must be json or text")
}

func (c *Config) checkSaaS(k *checker) {
	const insist = "must be TLS with DEPLOYMENT_MODE=saas"
	for variable, dsn := range map[string]Secret{"DATABASE_URL": c.Database.URL, "TENANT_DATABASE_URL": c.Database.TenantURL} {
		k.require(!dsn.IsSet() || EncryptedDSN(dsn.Reveal()), variable, insist+": sslmode=require, verify-ca or verify-full")
	}
	for variable, value := range map[string]string{"PLUGIN_AUTH_ADDRESS": c.Auth.Address, "PLUGIN_AUTH_JWKS_URL": c.Auth.JWKSURL} {
		k.require(value == "" || strings.HasPrefix(value, "https://"), variable, insist)
	}
	k.require(c.Tenants.ManagerURL == "" || strings.HasPrefix(c.Tenants.ManagerURL, "https://"), "MULTI_TENANT_URL", insist)
	for variable, bucket := range map[string]Secret{"RESULTS_URL": c.Results.URL, "CONTENT_URL": c.Documents.ContentURL} {
		if u, err := url.Parse(bucket.Reveal()); err == nil && bucket.IsSet() {
			k.require(encryptedBucket(u.Scheme, u.Query()), variable, insist)
		}
	}
	for variable, value := range map[string]string{"FETCH_DEV_ROOT_CA": c.Documents.DevRootCA, "FETCH_DEV_RESOLVER": c.Documents.DevResolver} {
		k.require(value == "", variable, "is for tests, not for DEPLOYMENT_MODE=saas")
	}
	c.checkSaaSEvents(k, insist)
}

// encryptedBucket reports whether a bucket's URL leaves TLS on. Google's has no way to turn it off.
func encryptedBucket(scheme string, q url.Values) bool {
	switch scheme {
	case "s3":
		return encryptedS3(q)
	case "azblob": // a local emulator is plain unless told otherwise
		emulated, err := strconv.ParseBool(cmp.Or(q.Get("localemu"), "false"))
		protocol := q.Get("protocol")
		return err == nil && (protocol == schemeHTTPS || protocol == "" && !emulated)
	}
	return true
}

// encryptedS3 reports whether the parameters of an s3 URL leave TLS on: an endpoint of one's own is https, and
// disable_https, which takes every spelling of a bool, isn't set.
func encryptedS3(q url.Values) bool {
	if disabled := q.Get("disable_https"); disabled != "" {
		if off, err := strconv.ParseBool(disabled); err != nil || off {
			return false
		}
	}
	endpoint, err := url.Parse(q.Get("endpoint"))
	return err == nil && (q.Get("endpoint") == "" || endpoint.Scheme == schemeHTTPS)
}

// EncryptedDSN reports whether a postgres URL insists on TLS.
func EncryptedDSN(dsn string) bool {
	u, err := url.Parse(dsn)
	return err == nil && slices.Contains([]string{"require", "verify-ca", "verify-full"}, u.Query().Get("sslmode"))
}

// RetiredKey is one entry of APP_ENC_KEYS_RETIRED.
type RetiredKey struct {
	Version int
	Key     Secret // base64
}

// RetiredKeys splits APP_ENC_KEYS_RETIRED. An entry that is not of the form version:base64 has version 0.
func RetiredKeys(s Secret) []RetiredKey {
	var out []RetiredKey
	for entry := range strings.SplitSeq(s.Reveal(), ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		number, key, _ := strings.Cut(entry, ":")
		version, err := strconv.Atoi(number)
		if err != nil {
			version = 0
		}
		out = append(out, RetiredKey{version, NewSecret(key)})
	}
	return out
}

// isKey reports whether the text is a key in the form that package secret reads: standard base64, padded or not.
func isKey(text string) bool {
	key, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(strings.TrimSpace(text), "="))
	return err == nil && len(key) >= minKeyBytes
}

func isPostgresURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
}

const notDriversURL = "has a setting that is not valid, or names a file that can't be read"

// isDriversURL reports whether the driver can make something of the URL, which includes reading the files it names.
func isDriversURL(text string) bool {
	_, err := pgconn.ParseConfig(text)
	return err == nil
}

func isHTTPURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == schemeHTTP || u.Scheme == schemeHTTPS) && u.Host != "" && u.User == nil
}

func isBucketURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	if _, err = url.ParseQuery(u.RawQuery); err != nil {
		return false
	}
	switch u.Scheme {
	case "file":
		return u.Host == "" && strings.HasPrefix(u.Path, "/")
	case "s3", "gs", "azblob":
		return u.Host != "" && u.User == nil
	default:
		return false
	}
}

func isKeyPrefix(text string) bool {
	if strings.HasPrefix(text, "/") {
		return false
	}
	return !slices.ContainsFunc(strings.Split(text, "/"), func(s string) bool { return s == "." || s == ".." })
}

func isProblemBase(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (isHTTPURL(text) || u.Scheme == "" && u.Host == "" && strings.HasPrefix(u.Path, "/"))
}

func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// isAuthorities reports whether the file holds a certificate.
func isAuthorities(path string) bool {
	content, err := os.ReadFile(path) // #nosec G304 -- the operator names the file
	return err == nil && x509.NewCertPool().AppendCertsFromPEM(content)
}

// isToken reports whether the text is a token of RFC 9110, as names of cookies are.
func isToken(text string) bool {
	letter := func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' }
	other := func(r rune) bool { return !letter(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) }
	return text != "" && !strings.ContainsFunc(text, other)
}

func isPrefix(text string) bool {
	if _, err := netip.ParsePrefix(text); err == nil {
		return true
	}
	_, err := netip.ParseAddr(text)
	return err == nil
}
