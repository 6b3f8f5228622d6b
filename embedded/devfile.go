package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// DevFileName is the file in the data directory by which other programs find a running development gateway.
const DevFileName = "dev.json"

// ErrNotRunning says that no development gateway has announced itself in the directory.
var ErrNotRunning = errors.New("no development gateway here")

// DevFile is what a development gateway announces. It holds secrets.
type DevFile struct {
	API         string      `json:"api"`
	Issuer      string      `json:"issuer"`
	DatabaseURL string      `json:"databaseUrl"` // of the control database
	Tenants     []DevTenant `json:"tenants"`
	Sample      SampleInfo  `json:"sample"`
}

// DevTenant is one demo tenant.
type DevTenant struct {
	ID          string    `json:"id"`
	OrgID       string    `json:"orgId"`
	DatabaseURL string    `json:"databaseUrl"`
	Tokens      DevTokens `json:"tokens"`
}

// DevTokens are ready-made tokens, by role.
type DevTokens struct {
	Admin    string `json:"admin"`
	Operator string `json:"operator"`
	Viewer   string `json:"viewer"`
	Machine  string `json:"machine"`
}

// SampleInfo is the sample database in the terms of a connection.
type SampleInfo struct {
	Type         string `json:"type"`
	Host         string `json:"host"`
	Port         int    `json:"port"`
	DatabaseName string `json:"databaseName"`
	UserName     string `json:"userName"`
	Password     string `json:"password"`
}

// WriteDevFile puts f into dir, mode 0600. A reader sees the old file or the whole new one.
func WriteDevFile(dir string, f DevFile) error {
	if f.Tenants == nil {
		f.Tenants = []DevTenant{}
	}
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", DevFileName, err)
	}
	return writePrivate(filepath.Join(dir, DevFileName), append(data, '\n'))
}

// ReadDevFile reads what is in dir; ErrNotRunning if nothing is.
func ReadDevFile(dir string) (DevFile, error) {
	var f DevFile
	data, err := os.ReadFile(filepath.Join(dir, DevFileName)) // #nosec G304 -- the developer's directory
	if errors.Is(err, fs.ErrNotExist) {
		return f, ErrNotRunning
	}
	if err != nil {
		return f, fmt.Errorf("%s: %w", DevFileName, err)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("%s: %w", DevFileName, err)
	}
	return f, nil
}

// RemoveDevFile withdraws the announcement; it is no error if there is none.
func RemoveDevFile(dir string) error {
	err := os.Remove(filepath.Join(dir, DevFileName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", DevFileName, err)
	}
	return nil
}
