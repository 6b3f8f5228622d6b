package events

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/fetcherhq/fetcher/secret"
)

// Sign returns the signature of a broker's copy: lower-case hex of HMAC-SHA256, with the tenant's external key, over the
// id, a full stop, the time as sent, a full stop, and the data.
func Sign(key []byte, id, at string, data []byte) string {
	return hex.EncodeToString(mac(key, id, at, data))
}

// signWebhook returns the signature of Standard Webhooks, version 1.
func signWebhook(key []byte, id string, at time.Time, body []byte) (timestamp, signature string) {
	timestamp = strconv.FormatInt(at.Unix(), 10)
	return timestamp, "v1," + base64.StdEncoding.EncodeToString(mac(key, id, timestamp, body))
}

func mac(key []byte, id, at string, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "." + at + "."))
	h.Write(body)
	return h.Sum(nil)
}

// sign signs m with the current key.
func sign(keys *secret.Keyring, m *Message) error {
	version := keys.CurrentVersion()
	key, err := keys.ExternalHMACKey(version, m.TenantID)
	if err != nil {
		return fmt.Errorf("sign event: %w", err)
	}
	m.Signature, m.KeyVersion = Sign(key, m.ID, m.Time, m.Data), version
	return nil
}
