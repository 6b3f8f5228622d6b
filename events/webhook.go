package events

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/fetcherhq/fetcher/secret"
)

// Webhook is where a tenant's events are posted, and the secret they are signed with.
type Webhook struct {
	URL    string `json:"url"`
	Secret string `json:"secret"` // whsec_ and base64 of 24 to 64 bytes
}

const (
	secretPrefix   = "whsec_"
	secretBytes    = 32
	minSecretBytes = 24
	maxSecretBytes = 64
	maxURLBytes    = 2048
)

var (
	// ErrWebhookURL says that the address of a webhook can't be one.
	ErrWebhookURL = errors.New("events: the webhook must be an https:// URL without credentials and fragment")
	// ErrWebhookSecret says that the secret of a webhook is malformed.
	ErrWebhookSecret = errors.New("events: the webhook's secret must be whsec_ and base64 of 24 to 64 bytes")
)

// GenerateWebhookSecret returns a new random secret.
func GenerateWebhookSecret() string {
	var b [secretBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(b[:])
}

// Validate returns nil, ErrWebhookURL or ErrWebhookSecret. Whether the host may be connected to is the dialer's to say.
func (w Webhook) Validate() error {
	if _, err := w.Host(); err != nil {
		return err
	}
	_, err := w.key()
	return err
}

// Host is the host of the address; ErrWebhookURL when that is malformed.
func (w Webhook) Host() (string, error) {
	u, err := url.Parse(w.URL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || len(w.URL) > maxURLBytes {
		return "", ErrWebhookURL
	}
	return u.Hostname(), nil
}

func (w Webhook) key() ([]byte, error) {
	text, ok := strings.CutPrefix(w.Secret, secretPrefix)
	if !ok {
		return nil, ErrWebhookSecret
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) < minSecretBytes || len(key) > maxSecretBytes {
		return nil, ErrWebhookSecret
	}
	return key, nil
}

// String tells nothing of the webhook.
func (w Webhook) String() string { return "[webhook]" }

func webhookScope(tenantID string) secret.Scope {
	return secret.Scope{Tenant: tenantID, Object: "tenant", Field: "webhook"}
}

// SealWebhook seals a tenant's webhook as the control database keeps it.
func SealWebhook(keys *secret.Keyring, tenantID string, w Webhook) ([]byte, error) {
	text, err := json.Marshal(w) //nolint:gosec // to be sealed, secret and all
	if err != nil {
		return nil, fmt.Errorf("seal webhook: %w", err)
	}
	sealed, err := keys.Seal(webhookScope(tenantID), text)
	if err != nil {
		return nil, fmt.Errorf("seal webhook: %w", err)
	}
	return sealed, nil
}

// OpenWebhook opens what SealWebhook has sealed.
func OpenWebhook(keys *secret.Keyring, tenantID string, sealed []byte) (Webhook, error) {
	text, err := keys.Open(webhookScope(tenantID), sealed)
	if err != nil {
		return Webhook{}, fmt.Errorf("open webhook: %w", err)
	}
	var w Webhook
	if err := json.Unmarshal(text, &w); err != nil {
		return Webhook{}, errors.New("open webhook: it can't be read")
	}
	return w, nil
}

// ReencryptWebhook seals a sealed webhook anew, under the current key, and reports whether it was not so already.
func ReencryptWebhook(keys *secret.Keyring, tenantID string, sealed []byte) (again []byte, changed bool, err error) {
	return keys.Reseal(webhookScope(tenantID), sealed)
}
