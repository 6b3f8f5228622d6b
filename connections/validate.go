package connections

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/source"
)

const (
	minName     = 3
	maxName     = 100
	maxText     = 255
	maxPassword = 1024
	maxPort     = 65535
)

// validate applies the checks of a normalized input that need no database, in the contract's order.
func (s *Service) validate(in Input) error {
	if err := checkObject(in.Metadata); err != nil {
		return err
	}
	if err := s.checkHost(in.Host); err != nil {
		return err
	}
	if err := s.missing(in); err != nil {
		return err
	}
	found := s.formats(in)
	return found.err()
}

// checkHost judges a well-formed host; a malformed one is a matter of formats.
func (s *Service) checkHost(host *string) error {
	if blank(host) || !dial.ValidHost(*host) {
		return nil
	}
	if err := s.opts.Guard.CheckHost(*host); err != nil {
		return hostNotAllowed(err).With(problem.Field{Location: "body.host", Message: "is not allowed"})
	}
	return nil
}

func hostNotAllowed(cause error) *problem.Error {
	return problem.Wrap(cause, problem.HostNotAllowed, "the host is not allowed")
}

// missing returns the error that lists the required members that are not there.
func (s *Service) missing(in Input) error {
	if fields := s.absent(in); len(fields) > 0 {
		return problem.New(problem.MissingMember, "required members are missing").With(fields...)
	}
	return nil
}

// absent lists the required members that are not there.
func (s *Service) absent(in Input) []problem.Field {
	required := map[string]bool{
		"body.configName":   blank(in.ConfigName),
		"body.type":         blank(in.Kind),
		"body.host":         blank(in.Host),
		"body.port":         in.Port == nil,
		"body.databaseName": blank(in.DatabaseName),
		"body.userName":     blank(in.UserName),
		"body.password":     blank(in.Password),
		"body.ssl":          in.SSL == nil && s.opts.RequireTLS,
	}
	if ssl := in.SSL; ssl != nil {
		required["body.ssl.mode"] = blank(ssl.Mode)
		required["body.ssl.cert"] = blank(ssl.Cert) && !blank(ssl.Key)
		required["body.ssl.key"] = blank(ssl.Key) && !blank(ssl.Cert)
	}
	var fields []problem.Field
	for location, isMissing := range required {
		if isMissing {
			fields = append(fields, problem.Field{Location: location, Message: "is required"})
		}
	}
	return fields
}

// formats lists every violated format of an input with nothing missing.
func (s *Service) formats(in Input) faults {
	var f faults
	if !validName(*in.ConfigName) {
		f.malformed("body.configName", "must be 3 to 100 characters of A-Z, a-z, 0-9, _ and -")
	}
	kind := source.Kind(*in.Kind)
	if !kind.Valid() {
		f.malformed("body.type", "must be one of POSTGRESQL, MYSQL, ORACLE, SQL_SERVER, MONGODB")
	}
	if !dial.ValidHost(*in.Host) {
		f.malformed("body.host", "must be a host name or an IP address")
	}
	if *in.Port < 1 || *in.Port > maxPort {
		f.malformed("body.port", "must be 1 to 65535")
	}
	f.text("body.databaseName", in.DatabaseName, maxText)
	f.text("body.userName", in.UserName, maxText)
	f.text("body.password", in.Password, maxPassword)
	f.text("body.schema", in.Schema, maxText)
	if in.SSL != nil {
		s.checkSSL(&f, kind, *in.SSL)
	}
	f = append(f, metadataFaults(in.Metadata)...)
	_, optionFaults := kindOptions(kind, in.Metadata, *in.DatabaseName)
	return append(f, optionFaults...)
}

// text checks the length, in characters, of a string that is there.
func (f *faults) text(location string, s *string, most int) {
	if s == nil {
		return
	}
	if n := utf8.RuneCountInString(*s); n < 1 || n > most {
		f.malformed(location, fmt.Sprintf("must be 1 to %d characters", most))
	}
	if strings.Contains(*s, "\x00") {
		f.malformed(location, "must not contain NUL")
	}
}

// checkSSL checks the mode against a kind that is valid, and the PEM texts.
func (s *Service) checkSSL(f *faults, kind source.Kind, ssl SSLInput) {
	if kind.Valid() {
		switch {
		case !source.ValidMode(kind, *ssl.Mode):
			f.add(problem.SSLModeInvalid, "body.ssl.mode", "is not a mode of this type")
		case s.opts.RequireTLS && !source.Encrypts(kind, *ssl.Mode):
			f.add(problem.SSLModeInvalid, "body.ssl.mode", "may leave the connection unencrypted, which is not allowed here")
		}
	}
	if ssl.CA != nil {
		if message := checkCertificates(*ssl.CA); message != "" {
			f.malformed("body.ssl.ca", message)
		}
	}
	checkPair(f, ssl.Cert, ssl.Key)
}

func validName(s string) bool {
	return len(s) >= minName && len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool { return !isNameRune(r) }) < 0
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}
