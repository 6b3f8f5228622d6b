package main

import (
	"archive/zip"
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/fetcherhq/fetcher/extract"
)

const (
	manifestFile = extract.ManifestName

	unknownSize = -1
	ageMagic    = "age-encryption.org/v1"
	zipMagic    = "PK\x03\x04" // of the first file; a table may begin with PK
)

// expectation is what is known of a file. An empty digest is not known.
type expectation struct {
	size   int64 // unknownSize
	sha256 string
	hmac   string
}

// known reports whether there is anything to compare with.
func (e expectation) known() bool { return e.sha256 != "" || e.hmac != "" }

// digests are those of what was written to it.
type digests struct {
	size     int64
	sha, mac interface {
		io.Writer
		Sum(b []byte) []byte
	}
}

func newDigests(key []byte) *digests {
	return &digests{sha: sha256.New(), mac: hmac.New(sha256.New, key)}
}

// Write never fails.
func (d *digests) Write(p []byte) (int, error) {
	d.size += int64(len(p))
	_, _ = d.sha.Write(p)
	return d.mac.Write(p)
}

// compare tells how the content differs from what it must be. The HMAC is compared only with a key.
func (d *digests) compare(e expectation, key []byte) error {
	switch {
	case e.size != unknownSize && d.size != e.size:
		return fmt.Errorf("it has %d bytes, not %d", d.size, e.size)
	case e.sha256 != "" && !sameHex(d.sha.Sum(nil), e.sha256):
		return errors.New("its SHA-256 differs")
	case key != nil && e.hmac == "":
		return errors.New("there is a key but no HMAC to compare with")
	case key != nil && !sameHex(d.mac.Sum(nil), e.hmac):
		return errors.New("its HMAC differs, or the key is another's")
	}
	return nil
}

func sameHex(sum []byte, want string) bool {
	return hmac.Equal([]byte(hex.EncodeToString(sum)), []byte(strings.ToLower(want)))
}

// checkStream reads r to its end and compares.
func checkStream(r io.Reader, e expectation, key []byte) (*digests, error) {
	d := newDigests(key)
	if _, err := io.Copy(d, r); err != nil {
		return d, fmt.Errorf("it can't be read whole: %w", err)
	}
	return d, d.compare(e, key)
}

// openPlain opens a file, decrypting it if it is an age object.
func openPlain(path string, identities []age.Identity) (r io.Reader, closer io.Closer, err error) {
	f, err := os.Open(path) //nolint:gosec // the caller's own file
	if err != nil {
		return nil, nil, usageError{err}
	}
	b := bufio.NewReader(f)
	if head, _ := b.Peek(len(ageMagic)); string(head) != ageMagic {
		return b, f, nil
	}
	if len(identities) == 0 {
		return nil, nil, errors.Join(usageError{errors.New(path + " is encrypted: --identity is needed")}, f.Close())
	}
	r, err = age.Decrypt(b, identities...)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s can't be decrypted: %w", path, err), f.Close())
	}
	return r, f, nil
}

// readIdentities reads a file with age identities, as fetcher keys identity prints them.
func readIdentities(path string) ([]age.Identity, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path) //nolint:gosec // the caller's own file
	if err != nil {
		return nil, usageError{err}
	}
	defer f.Close()
	identities, err := age.ParseIdentities(f)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", path, err)}
	}
	return identities, nil
}

// readManifest reads a manifest.
func readManifest(path string, identities []age.Identity) (*extract.Manifest, error) {
	r, closer, err := openPlain(path, identities)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	var m extract.Manifest
	if err := json.NewDecoder(r).Decode(&m); err != nil {
		return nil, fmt.Errorf("%s is no manifest: %w", path, err)
	}
	return &m, nil
}

// checkArchive verifies a ZIP against the manifest in it, and that against e. It returns the number of tables.
func checkArchive(path string, e expectation, key []byte) (int, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return 0, fmt.Errorf("it can't be read as a ZIP: %w", err)
	}
	defer z.Close()
	files := map[string]*zip.File{}
	for _, f := range z.File {
		if files[f.Name] != nil {
			return 0, fmt.Errorf("it has %s twice", f.Name)
		}
		files[f.Name] = f
	}
	m, err := checkManifest(files[manifestFile], e, key)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", manifestFile, err)
	}
	delete(files, manifestFile)
	for _, t := range m.Tables {
		f := files[t.File]
		if f == nil {
			return 0, fmt.Errorf("%s is missing", t.File)
		}
		delete(files, t.File)
		r, err := f.Open()
		if err == nil {
			_, err = checkStream(r, expectation{t.SizeBytes, t.SHA256, t.HMAC}, key)
			err = errors.Join(err, r.Close())
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", t.File, err)
		}
	}
	for name := range files {
		return 0, fmt.Errorf("%s is not in the manifest", name)
	}
	return len(m.Tables), nil
}

func checkManifest(f *zip.File, e expectation, key []byte) (*extract.Manifest, error) {
	if f == nil {
		return nil, errors.New("it is missing")
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	d := newDigests(key)
	text, err := io.ReadAll(io.TeeReader(r, d))
	if err != nil {
		return nil, err
	}
	if e.known() {
		if err := d.compare(e, key); err != nil {
			return nil, err
		}
	}
	var m extract.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("it can't be read: %w", err)
	}
	return &m, nil
}
