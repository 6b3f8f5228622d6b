package dial

import (
	"net/netip"
	"strings"
)

const (
	maxHostLength  = 253
	maxLabelLength = 63
)

// ValidHost reports whether host is an IP literal (without brackets) or a host name as RFC 1123 has it, underscores
// allowed, of at most 253 characters. Numbers in disguise, which some resolvers read as IPv4 addresses (2852039166,
// 0x7f.1, 0177.0.0.1, 127.1), are neither. It says nothing about whether the host may be dialled.
func ValidHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	name := strings.TrimSuffix(host, ".")
	if name == "" || len(name) > maxHostLength {
		return false
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if !validLabel(l) {
			return false
		}
	}
	return !isNumber(labels[len(labels)-1])
}

func validLabel(l string) bool {
	if l == "" || len(l) > maxLabelLength || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	return strings.IndexFunc(l, func(r rune) bool { return !isAlphanumeric(r) && r != '-' && r != '_' }) < 0
}

func isAlphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// isNumber reports whether a last label makes the whole host a number: digits, or hexadecimal digits behind 0x.
func isNumber(label string) bool {
	l := strings.ToLower(label)
	if hex, ok := strings.CutPrefix(l, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(l, "0123456789") == ""
}

// canonicalName is the form names are compared in: lower case, without the dot of the root.
func canonicalName(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// below reports whether the canonical name is the domain or lies in it.
func below(name, domain string) bool {
	return name == domain || strings.HasSuffix(name, "."+domain)
}

// localDomains hold names of the operator's own network.
func localDomains() []string { return []string{"local", "internal", "cluster.local"} }

// metadataNames are what clouds call their metadata services.
func metadataNames() []string { return []string{"metadata.google.internal", "metadata.goog"} }
