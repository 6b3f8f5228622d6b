package oracle

import (
	"crypto/tls"
	"errors"

	"github.com/fetcherhq/fetcher/source"
)

// The TLS modes.
const (
	modeDisable    = "disable"
	modeFalse      = "false"
	modeTrue       = "true"
	modeEnable     = "enable"
	modeVerify     = "verify"
	modeSkipVerify = "skip-verify"
)

// encryptionOf returns what the TLS mode of p means. disable, the default, and false encrypt nothing. true and verify
// encrypt and check the certificate and its name. enable does the same, but given a CA of its own it does not look at
// the name, which certificates of Oracle servers often lack. skip-verify encrypts and checks nothing. The configuration
// is there in every mode: it is what a listener that sends us on to an encrypted port gets.
func encryptionOf(p source.Params) (bool, *tls.Config, error) {
	mode := p.TLS.Mode
	if mode == "" {
		mode = source.DefaultMode(source.Oracle)
	}
	check, encrypted := source.CheckName, true
	switch mode {
	case modeDisable, modeFalse:
		encrypted, check = false, source.CheckNothing
	case modeTrue, modeVerify:
	case modeEnable:
		if p.TLS.CA != "" {
			check = source.CheckChain
		}
	case modeSkipVerify:
		check = source.CheckNothing
	default:
		return false, nil, errors.New("unknown TLS mode")
	}
	config, err := p.ClientTLS(check)
	if err != nil {
		return false, nil, err
	}
	return encrypted, config, nil
}
