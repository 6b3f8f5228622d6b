package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// A table is verified as one whatever it begins with.
func TestVerifyTable(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"key column": "PK,name\r\n1,x\r\n", "short": "P", "empty": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "table.csv")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256([]byte(content))
			other := sha256.Sum256([]byte(content + "x"))
			for digest, right := range map[[sha256.Size]byte]bool{sum: true, other: false} {
				cmd := newResultVerify()
				cmd.SetOut(&bytes.Buffer{})
				cmd.SetErr(&bytes.Buffer{})
				cmd.SetArgs([]string{path, "--sha256", hex.EncodeToString(digest[:])})
				if err := cmd.Execute(); (err == nil) != right {
					t.Errorf("verified %t: %v", right, err)
				}
			}
		})
	}
}
