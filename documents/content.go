package documents

import (
	"encoding/hex"

	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/store"
)

// Integrity is the digest of a version's content as it is published: sha256: and lower-case hex.
func Integrity(v store.DocumentVersion) string { return "sha256:" + hex.EncodeToString(v.SHA256) }

// Content is the stored bytes of one version.
type Content struct {
	Version store.DocumentVersion

	store  *results.Store
	tenant string
	facts  results.Facts
}
