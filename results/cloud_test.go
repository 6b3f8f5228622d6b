//go:build !noclouds

package results_test

import (
	"strings"
	"testing"

	"github.com/fetcherhq/fetcher/results"
)

// The URLs of clouds that can't be reached from here are understood; nothing is sent before the first object.
func TestCloudURLs(t *testing.T) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", "account")
	t.Setenv("AZURE_STORAGE_KEY", "a2V5")
	for _, url := range []string{
		"gs://bucket?anonymous=true", "azblob://container", "azblob://container?protocol=https&domain=blob.core.windows.net",
	} {
		s, err := results.Open(t.Context(), url, keyring(t), results.Options{})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"gs://bucket?nonsense=1", "azblob://container?nonsense=1", "ftp://x"} {
		if _, err := results.Open(t.Context(), url, keyring(t), results.Options{}); err == nil || strings.Contains(err.Error(), "a2V5") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
