package sqlserver

import (
	"crypto/tls"
	"errors"

	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/fetcherhq/fetcher/source"
)

// The TLS modes.
const (
	modeDisable = "disable"
	modeFalse   = "false"
	modeTrue    = "true"
	modeStrict  = "strict"
)

// encryptionOf returns what the TLS mode of p means to the driver. disable encrypts nothing. false, the default,
// encrypts the login only, unless the server wants more; it does not look at the certificate unless there is a CA, and
// then not at the name. true encrypts everything and checks the certificate and its name. strict is the same from the
// first byte, as TDS 8.0 has it.
func encryptionOf(p source.Params) (msdsn.Encryption, *tls.Config, error) {
	mode := p.TLS.Mode
	if mode == "" {
		mode = source.DefaultMode(source.SQLServer)
	}
	check := source.CheckName
	var encryption msdsn.Encryption
	switch mode {
	case modeDisable:
		encryption, check = msdsn.EncryptionDisabled, source.CheckNothing
	case modeFalse:
		encryption, check = msdsn.EncryptionOff, source.CheckNothing
		if p.TLS.CA != "" {
			check = source.CheckChain
		}
	case modeTrue:
		encryption = msdsn.EncryptionRequired
	case modeStrict:
		encryption = msdsn.EncryptionStrict
	default:
		return 0, nil, errors.New("unknown TLS mode")
	}
	config, err := p.ClientTLS(check)
	if err != nil {
		return 0, nil, err
	}
	// Servers take one record for one packet while the login is under way.
	config.DynamicRecordSizingDisabled = true
	return encryption, config, nil
}
