package source

// mode is one TLS mode of a kind.
type mode struct {
	name     string
	encrypts bool // never ends unencrypted
}

// Names that several kinds give to a mode.
const (
	modeDisable = "disable"
	modeFalse   = "false"
	modeTrue    = "true"
)

// modes returns the TLS modes of a kind, its default first.
func modes(kind Kind) []mode {
	switch kind {
	case PostgreSQL:
		return []mode{
			{"prefer", false}, {modeDisable, false}, {"allow", false},
			{"require", true}, {"verify-ca", true}, {"verify-full", true},
		}
	case MySQL:
		return []mode{{"preferred", false}, {modeFalse, false}, {modeTrue, true}, {"skip-verify", true}}
	case Oracle:
		return []mode{
			{modeDisable, false}, {modeFalse, false},
			{modeTrue, true}, {"enable", true}, {"verify", true}, {"skip-verify", true},
		}
	case SQLServer: // false encrypts the login only
		return []mode{{modeFalse, false}, {modeDisable, false}, {modeTrue, true}, {"strict", true}}
	case MongoDB:
		return []mode{{modeDisable, false}, {modeFalse, false}, {modeTrue, true}, {"enable", true}, {"insecure", true}}
	}
	return nil
}

// ValidMode reports whether the kind has the TLS mode. Modes are case-sensitive.
func ValidMode(kind Kind, name string) bool {
	_, ok := findMode(kind, name)
	return ok
}

// DefaultMode returns the TLS mode of a connection that names none; empty for an unknown kind.
func DefaultMode(kind Kind) string {
	if all := modes(kind); len(all) > 0 {
		return all[0].name
	}
	return ""
}

// Encrypts reports whether a connection in this mode is encrypted or does not come about. It says nothing about
// whose certificate is accepted. An empty mode is the kind's default.
func Encrypts(kind Kind, name string) bool {
	if name == "" {
		name = DefaultMode(kind)
	}
	m, ok := findMode(kind, name)
	return ok && m.encrypts
}

func findMode(kind Kind, name string) (mode, bool) {
	for _, m := range modes(kind) {
		if m.name == name {
			return m, true
		}
	}
	return mode{}, false
}
