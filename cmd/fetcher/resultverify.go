package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"filippo.io/age"
	"github.com/spf13/cobra"
)

// verification is what `fetcher result verify` was asked to do.
type verification struct {
	resultFlags

	file, identityFile string
	sha256, hmac       string
	manifest, job      string
	identities         []age.Identity
	hmacKey            []byte
	encrypted, isZip   bool
}

func newResultVerify() *cobra.Command {
	var v verification
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Verify a downloaded result, or an encrypted object",
		Long: "FILE is a downloaded document or table, a ZIP of tables, or an object as it lies in the bucket, encrypted, with\n" +
			"--identity. It is compared with --sha256 and --hmac, with its entry in a --manifest, or with what the gateway says of\n" +
			"--job; a ZIP with the manifest in it, too. An object with none of these is only decrypted: age authenticates it.\n\n" +
			"Exit codes: 0 it is right, 1 it is not, 2 called wrongly.",
		Args: oneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			v.file = args[0]
			if err := v.prepare(); err != nil {
				return err
			}
			return v.run(cmd)
		},
	}
	v.add(cmd)
	f := cmd.Flags()
	f.StringVar(&v.identityFile, "identity", "", "file with the tenant's age identity, as fetcher keys identity prints it")
	f.StringVar(&v.sha256, "sha256", "", "the digest FILE must have, in hex; of a ZIP: its manifest's")
	f.StringVar(&v.hmac, "hmac", "", "the HMAC FILE must have, in hex; of a ZIP: its manifest's")
	f.StringVar(&v.manifest, "manifest", "", "manifest that lists FILE, by its name or --datasource and --table")
	f.StringVar(&v.job, "job", "", "job whose result FILE is; asks the gateway")
	return cmd
}

// prepare reads what the flags name.
func (v *verification) prepare() (err error) {
	if err = v.check(); err != nil {
		return err
	}
	if v.manifest != "" && v.job != "" || (v.manifest != "" || v.job != "") && (v.sha256 != "" || v.hmac != "") {
		return usageError{errors.New("--job, --manifest and digests exclude each other")}
	}
	if v.identities, err = readIdentities(v.identityFile); err != nil {
		return err
	}
	if v.hmacKey, err = v.key(); err != nil {
		return err
	}
	if v.hmac != "" && v.hmacKey == nil {
		return usageError{errors.New("--hmac needs the key, in " + envKey + " or --key-file")}
	}
	f, err := os.Open(v.file)
	if err != nil {
		return usageError{err}
	}
	defer f.Close()
	head := make([]byte, len(ageMagic))
	n, _ := io.ReadFull(f, head)
	v.encrypted = string(head[:n]) == ageMagic
	v.isZip = n >= len(zipMagic) && string(head[:len(zipMagic)]) == zipMagic
	return nil
}

func (v *verification) run(cmd *cobra.Command) error {
	want, err := v.expected(cmd)
	if err != nil {
		return err
	}
	if v.isZip {
		n, failed := checkArchive(v.file, want, v.hmacKey)
		if failed != nil {
			return fmt.Errorf("%s: %w", v.file, failed)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d tables are as its manifest says; %s\n", v.file, n, v.told(want))
		return err
	}
	if !want.known() && !v.encrypted {
		return usageError{errors.New("there is nothing to compare with: give --sha256, --hmac, --manifest or --job")}
	}
	r, closer, err := openPlain(v.file, v.identities)
	if err != nil {
		return err
	}
	defer closer.Close()
	key := v.hmacKey
	if !want.known() {
		key = nil
	}
	d, err := checkStream(r, want, key)
	if err != nil {
		return fmt.Errorf("%s: %w", v.file, err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s; SHA-256 %s\n", v.file, v.told(want), hex.EncodeToString(d.sha.Sum(nil)))
	return err
}

// told says what held.
func (v *verification) told(want expectation) string {
	switch {
	case !want.known() && v.isZip:
		return "the manifest itself was compared with nothing"
	case !want.known():
		return "decrypted and authentic, compared with nothing"
	case want.sha256 == "":
		return "HMAC verified"
	}
	return verified(v.hmacKey)
}

// expected finds out what the file must be.
func (v *verification) expected(cmd *cobra.Command) (expectation, error) {
	switch {
	case v.manifest != "":
		return v.ofManifest()
	case v.job != "":
		return v.ofJob(cmd)
	}
	return expectation{size: unknownSize, sha256: v.sha256, hmac: v.hmac}, nil
}

func (v *verification) ofManifest() (expectation, error) {
	m, err := readManifest(v.manifest, v.identities)
	if err != nil {
		return expectation{}, err
	}
	tables := make([]apiTable, 0, len(m.Tables))
	for _, t := range m.Tables {
		tables = append(tables, apiTable{t.Datasource, t.Table, t.Path, t.SizeBytes, t.SHA256, t.HMAC})
	}
	return v.pick(tables)
}

func (v *verification) ofJob(cmd *cobra.Command) (expectation, error) {
	if err := jobID(v.job); err != nil {
		return expectation{}, err
	}
	api, err := v.client()
	if err != nil {
		return expectation{}, err
	}
	job, err := fetchJob(cmd, api, v.job)
	if err != nil {
		return expectation{}, err
	}
	if v.table == "" && (v.isZip || !job.perTable() || filepath.Base(v.file) == manifestFile) {
		return job.whole(), nil
	}
	return v.pick(job.Result.Tables)
}

// pick finds the table that is meant: by the flags, or by the file's name if only one has it.
func (v *verification) pick(tables []apiTable) (expectation, error) {
	var found []apiTable
	for _, t := range tables {
		named := v.table == "" && path.Base(t.Path) == filepath.Base(v.file)
		if named || v.table != "" && t.Datasource == v.datasource && t.Table == v.table {
			found = append(found, t)
		}
	}
	if len(found) != 1 {
		return expectation{}, usageError{fmt.Errorf("%d tables could be %s: name one with --datasource and --table", len(found), v.file)}
	}
	return found[0].expectation(), nil
}
