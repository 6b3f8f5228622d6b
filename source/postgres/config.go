package postgres

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgconn"
)

// neutralConfig returns a configuration on which the process's environment and its user's files had no influence.
// pgconn accepts only what its parser made, and the parser asks them for everything the text does not say. So the
// text says it all, and what matters is set afterwards.
func neutralConfig() (*pgconn.Config, error) {
	text := "host=localhost port=5432 user=none password=none dbname=none connect_timeout=0 passfile='' " +
		"sslmode=disable sslcert='' sslkey='' sslrootcert='' sslpassword='' sslcertmode=allow sslnegotiation=postgres " +
		"target_session_attrs=any min_protocol_version=3.0 max_protocol_version=3.0 channel_binding=prefer require_auth=''"
	if _, named := os.LookupEnv("PGSERVICE"); named {
		// Only another service takes precedence over one that the environment names.
		service, remove, err := emptyService()
		if err != nil {
			return nil, fmt.Errorf("set PGSERVICE aside: %w", err)
		}
		defer remove()
		text += service
	}
	config, err := pgconn.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("build configuration: %w", err)
	}
	config.RuntimeParams = map[string]string{}
	config.Fallbacks = nil
	config.TLSConfig = nil
	return config, nil
}

// emptyService makes a service file with one service that sets nothing and returns the text that selects it.
func emptyService() (text string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "fetcher-service-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "service.conf")
	if err := os.WriteFile(file, []byte("[none]\n"), 0o600); err != nil {
		remove()
		return "", nil, err
	}
	return fmt.Sprintf(" service=none servicefile='%s'", quoteSetting(file)), remove, nil
}

// quoteSetting escapes s for a quoted value of a connection string.
func quoteSetting(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if s[i] == '\'' || s[i] == '\\' {
			out = append(out, '\\')
		}
		out = append(out, s[i])
	}
	return string(out)
}
