// Package config owns the environment: it parses the variables once into typed values and validates them together.
//
// It touches nothing but the variables it is given and the files they name. It promises that every
// problem is reported at once with the variable's name, and that no secret value ever appears in an error or in print.
package config

import (
	"time"
)

// Config is the whole configuration of one process. Load fills and validates it.
type Config struct {
	Server    Server
	Database  Database
	Tenants   Tenants
	Auth      Auth
	Keys      Keys
	Results   Results
	Documents Documents
	Jobs      Jobs
	Sources   Sources
	Events    Events
	Telemetry Telemetry

	Datasources []Datasource // by name of the variables
}

// Server is how the process listens, answers and stops.
type Server struct {
	Address            string         `env:"SERVER_ADDRESS" envDefault:":4006" desc:"Address of the API."`
	HealthAddress      string         `env:"HEALTH_ADDRESS" envDefault:":4007" desc:"Address of a worker's health endpoints."`
	TLSCert            string         `env:"SERVER_TLS_CERT" desc:"PEM file of the API's certificate chain; needs SERVER_TLS_KEY."`
	TLSKey             string         `env:"SERVER_TLS_KEY" desc:"PEM file of the API's private key."`
	TrustedProxies     []string       `env:"TRUSTED_PROXIES" desc:"CIDRs of proxies whose X-Forwarded-For is believed."`
	MaxBodyBytes       Size           `env:"MAX_BODY_BYTES" envDefault:"1MiB" desc:"Largest request body."`
	StrictJSON         bool           `env:"STRICT_JSON" envDefault:"false" desc:"Refuse unknown members in request bodies."`
	SwaggerEnabled     bool           `env:"SWAGGER_ENABLED" envDefault:"false" desc:"Serve the API documentation, open to anybody."`
	ProblemBaseURI     string         `env:"PROBLEM_BASE_URI" envDefault:"/problems" desc:"Start of the type member of errors."`
	MaxPageLimit       int            `env:"MAX_PAGINATION_LIMIT" envDefault:"100" desc:"Largest page of a list."`
	CORSOrigins        Origins        `env:"CORS_ALLOWED_ORIGINS" desc:"Exact origins whose pages may call the API from a browser, comma separated; empty: none."`
	MaxDateRangeMonths int            `env:"MAX_PAGINATION_MONTH_DATE_RANGE" envDefault:"1" desc:"Widest creation-date window of a list, in months."`
	DrainDelay         Seconds        `env:"READYZ_DRAIN_DELAY_SEC" envDefault:"12" desc:"How long readiness says draining before the listeners close."`
	ShutdownGrace      time.Duration  `env:"SHUTDOWN_GRACE" envDefault:"30s" desc:"How long running requests and jobs may take to finish at a stop."`
	DeploymentMode     DeploymentMode `env:"DEPLOYMENT_MODE" envDefault:"local" desc:"saas, byoc or local; saas insists on TLS to every dependency."`
}

// Database is the control database and, in single-tenant mode, the tenant's.
type Database struct {
	URL       Secret `env:"DATABASE_URL" desc:"Control database: tenant registry, queue, leases."`
	TenantURL Secret `env:"TENANT_DATABASE_URL" desc:"The one tenant's database in single-tenant mode; default: the control database."`
}

// Tenants bounds the routing of tenants.
type Tenants struct {
	Multi           bool    `env:"MULTI_TENANT_ENABLED" envDefault:"false" desc:"Many tenants, each with a database of its own."`
	ManagerURL      string  `env:"MULTI_TENANT_URL" desc:"Base URL of an external tenant manager, read in place of the registry in the control database."`
	ManagerKey      Secret  `env:"MULTI_TENANT_SERVICE_API_KEY" desc:"Key for the tenant manager, sent as X-API-Key; required with MULTI_TENANT_URL."`
	ManagerService  string  `env:"MULTI_TENANT_SERVICE" envDefault:"fetcher" desc:"Name of this service at the tenant manager."`
	ManagerModule   string  `env:"MULTI_TENANT_MODULE" envDefault:"fetcher" desc:"Member of the manager's databases that holds the Postgres settings."`
	CacheTTL        Seconds `env:"MULTI_TENANT_CACHE_TTL_SEC" envDefault:"120" desc:"How long a tenant's registry row is trusted without reading it again."`
	MaxPools        int     `env:"MULTI_TENANT_MAX_TENANT_POOLS" envDefault:"100" desc:"Tenant pools kept open."`
	PoolHardCap     int     `env:"MULTI_TENANT_POOL_HARD_CAP" desc:"Pools that may be open while all are busy; default twice the former."`
	IdleTimeout     Seconds `env:"MULTI_TENANT_IDLE_TIMEOUT_SEC" envDefault:"300" desc:"After how long an unused pool closes."`
	MaxOpenConns    int     `env:"TENANT_MAX_OPEN_CONNS" envDefault:"10" desc:"Connections of one tenant's pool."`
	MaxConnsPerHost int     `env:"MAX_DB_CONNS_PER_HOST" envDefault:"80" desc:"Connections to one database server over all tenants."`
	RateLimit       float64 `env:"TENANT_RATE_LIMIT" envDefault:"0" desc:"Requests per second of one tenant to one process; the tenant's own limit wins; 0: no limit."`
	MaxRunningJobs  int     `env:"TENANT_MAX_RUNNING_JOBS" envDefault:"0" desc:"Jobs of one tenant that run at once, over all workers; the tenant's own limit wins; 0: no limit."`
	AutoMigrate     bool    `env:"AUTO_MIGRATE" envDefault:"true" desc:"Migrate databases at start and at a tenant's first use."`
}

// Auth is the identity service.
type Auth struct {
	Enabled       bool          `env:"PLUGIN_AUTH_ENABLED" envDefault:"false" desc:"Demand a verified token."`
	Address       string        `env:"PLUGIN_AUTH_ADDRESS" desc:"Base URL of the identity service."`
	JWKSURL       string        `env:"PLUGIN_AUTH_JWKS_URL" desc:"Where its keys are, if not where discovery says."`
	Issuer        string        `env:"PLUGIN_AUTH_ISSUER" desc:"The iss tokens must have, if not the one of discovery."`
	Audience      string        `env:"PLUGIN_AUTH_AUDIENCE" desc:"The aud tokens must have; empty: any."`
	Authorization Authorization `env:"PLUGIN_AUTH_AUTHORIZATION" envDefault:"service" desc:"Who decides: service (POST /v1/authorize) or claims (the token)."`
	CacheTTL      time.Duration `env:"PLUGIN_AUTH_CACHE_TTL" envDefault:"30s" desc:"How long a decision is kept; 0: not at all."`
	TenantClaim   string        `env:"TENANT_CLAIM" desc:"Claim that names the tenant; default tenantId or tenant_id."`
}

// Keys is the key ring.
type Keys struct {
	Current        Secret `env:"APP_ENC_KEY" desc:"Master key: base64 of 32 bytes or more."`
	CurrentVersion int    `env:"APP_ENC_KEY_VERSION" envDefault:"1" desc:"Version of the master key."`
	Retired        Secret `env:"APP_ENC_KEYS_RETIRED" desc:"Former keys that stay readable: version:base64, comma separated."`
}

// Results is the object storage of results.
type Results struct {
	URL       Secret        `env:"RESULTS_URL" desc:"Bucket: file:///dir, s3://bucket?region=…&endpoint=…, gs://bucket or azblob://container."`
	KeyPrefix string        `env:"RESULTS_KEY_PREFIX" desc:"In front of every object key."`
	TTL       time.Duration `env:"RESULT_TTL" envDefault:"168h" desc:"How long a result can be downloaded."`
	SafeCells bool          `env:"CSV_SAFE_CELLS" envDefault:"false" desc:"CSV: put a ' in front of texts that a spreadsheet would take for a formula."`
}

// Documents is the fetching of approved web pages, and the callers with a session cookie that it has.
type Documents struct {
	ContentURL     Secret  `env:"CONTENT_URL" desc:"Bucket of fetched web documents, like RESULTS_URL; empty: none are fetched or read."`
	AllowedPorts   Ports   `env:"FETCH_ALLOWED_PORTS" envDefault:"443" desc:"Ports that approved web origins may have, comma separated."`
	RatePerMinute  int     `env:"FETCH_RATE_PER_MINUTE" envDefault:"60" desc:"Web documents one tenant may fetch in a minute, over all processes; 0: no limit."`
	DevRootCA      string  `env:"FETCH_DEV_ROOT_CA" desc:"PEM file of authorities that web origins may be verified by besides the system's; for tests, not with DEPLOYMENT_MODE=saas."`
	DevResolver    string  `env:"FETCH_DEV_RESOLVER" desc:"host:port of the name server that web origins are looked up with; for tests, not with DEPLOYMENT_MODE=saas."`
	SessionCookie  string  `env:"SESSION_COOKIE_NAME" envDefault:"__Host-session" desc:"Cookie that holds the identity service's token of a browser."`
	AllowedOrigins Origins `env:"ALLOWED_ORIGINS" desc:"Exact origins whose pages may send mutations with the session cookie, comma separated; empty: none."`
}

// Jobs bounds extraction.
type Jobs struct {
	Concurrency    int           `env:"WORKER_CONCURRENCY" envDefault:"5" desc:"Jobs one worker process runs at once."`
	Timeout        time.Duration `env:"JOB_TIMEOUT" envDefault:"30m" desc:"Longest run of one attempt."`
	MaxAttempts    int           `env:"JOB_MAX_ATTEMPTS" envDefault:"5" desc:"Attempts before a job fails."`
	MaxResultBytes Size          `env:"JOB_MAX_RESULT_BYTES" envDefault:"10GiB" desc:"Largest result, before encryption."`
	MaxRows        int64         `env:"JOB_MAX_ROWS" envDefault:"0" desc:"Most rows of a job; 0: no limit."`
	MaxDatasources int           `env:"JOB_MAX_DATASOURCES" envDefault:"10" desc:"Datasources of a job."`
	MaxTables      int           `env:"JOB_MAX_TABLES" envDefault:"20" desc:"Tables of a datasource."`
	MaxFields      int           `env:"JOB_MAX_FIELDS" envDefault:"50" desc:"Fields of a table."`
	MaxConditions  int           `env:"JOB_MAX_CONDITIONS" envDefault:"50" desc:"Filter conditions of a table."`
	TTL            time.Duration `env:"JOB_TTL" envDefault:"2160h" desc:"How long a job is kept after its end."`
}

// Sources says which external databases may be dialled, and how.
type Sources struct {
	AllowPrivateHosts []string `env:"ALLOW_PRIVATE_HOSTS" desc:"CIDRs, names and .suffixes tenants may name although they are private; when set, replaces the mode's default."`
	RequireTLS        bool     `env:"REQUIRE_SOURCE_TLS" envDefault:"false" desc:"Refuse every SSL mode that may end unencrypted."`
}

// Events describes the events the service emits.
type Events struct {
	Source         string   `env:"EVENTS_SOURCE" envDefault:"/fetcher" desc:"The source attribute of events."`
	URLs           []string `env:"EVENTS_URL" desc:"Where events are sent: rabbit://exchange, nats://subject (of a JetStream stream) or kafka://topic; several, of different schemes, with commas."`
	RabbitURL      Secret   `env:"RABBIT_SERVER_URL" desc:"The server of rabbit://: amqp:// or amqps:// with its credentials."`
	NATSURL        Secret   `env:"NATS_SERVER_URL" desc:"The servers of nats://: nats:// or tls://, comma separated, with their credentials."`
	KafkaBrokers   []string `env:"KAFKA_BROKERS" desc:"The servers of kafka://: host:port, comma separated."`
	KafkaTLS       bool     `env:"KAFKA_TLS" envDefault:"false" desc:"Talk TLS to Kafka."`
	KafkaMechanism string   `env:"KAFKA_SASL_MECHANISM" desc:"How to log in to Kafka: plain, scram-sha-256 or scram-sha-512; empty: not at all."`
	KafkaUser      string   `env:"KAFKA_USERNAME" desc:"User for Kafka."`
	KafkaPassword  Secret   `env:"KAFKA_PASSWORD" desc:"Password for Kafka."`
	WebhookURL     Secret   `env:"EVENTS_WEBHOOK_URL" desc:"Single-tenant mode: https:// URL that events are posted to. Otherwise see fetcher tenant webhook."`
	WebhookSecret  Secret   `env:"EVENTS_WEBHOOK_SECRET" desc:"Signs what is posted: whsec_ and base64 of 24 to 64 bytes."`
}

// Telemetry is logs and traces. The standard OTEL_* variables are read by the OpenTelemetry SDK itself.
type Telemetry struct {
	LogLevel     string `env:"LOG_LEVEL" envDefault:"info" desc:"debug, info, warn or error."`
	TenantLabels int    `env:"METRICS_TENANT_LABEL_LIMIT" envDefault:"50" desc:"Tenants with a metrics label of their own; the rest is other. 0: no tenant labels."`
	LogFormat    string `env:"LOG_FORMAT" envDefault:"json" desc:"json or text."`
	Enabled      bool   `env:"ENABLE_TELEMETRY" envDefault:"false" desc:"Export traces by OTLP; see the standard OTEL_* variables."`
}
