package config

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// formatError is a complaint about a value that does not quote it.
type formatError string

func (e formatError) Error() string { return string(e) }

// Size is a number of bytes: a plain number, or one with KiB, MiB, GiB or TiB.
type Size int64

// UnmarshalText parses the forms above.
func (s *Size) UnmarshalText(text []byte) error {
	digits, unit := string(text), int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if rest, ok := strings.CutSuffix(digits, suffix); ok {
			digits, unit = rest, 1<<(10*(i+1))
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return formatError("must be a number of bytes, or a number with KiB, MiB, GiB or TiB")
	}
	*s = Size(n * unit)
	return nil
}

// String prints the size with the largest unit that divides it.
func (s Size) String() string {
	for i, suffix := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if unit := Size(1) << (10 * (4 - i)); s != 0 && s%unit == 0 {
			return fmt.Sprintf("%d%s", s/unit, suffix)
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Seconds is a duration given in whole seconds, as the *_SEC variables are.
type Seconds int

// UnmarshalText parses a whole number of seconds.
func (s *Seconds) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 || n > math.MaxInt32 {
		return formatError("must be a whole number of seconds")
	}
	*s = Seconds(n)
	return nil
}

// Duration converts to time.Duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// List is comma separated values without blanks around them; empty ones don't count.
type List []string

// UnmarshalText splits the text.
func (l *List) UnmarshalText(text []byte) error {
	*l = nil
	for value := range strings.SplitSeq(string(text), ",") {
		if value = strings.TrimSpace(value); value != "" {
			*l = append(*l, value)
		}
	}
	return nil
}

// String joins the values.
func (l List) String() string { return strings.Join(l, ",") }

// Ports is a list of TCP ports.
type Ports []int

// UnmarshalText splits and checks the text.
func (p *Ports) UnmarshalText(text []byte) error {
	var list List
	if err := list.UnmarshalText(text); err != nil {
		return err
	}
	*p = nil
	for _, value := range list {
		port, err := strconv.Atoi(value)
		if err != nil || port < 1 || port > maxPort || strconv.Itoa(port) != value || slices.Contains(*p, port) {
			return formatError("must be ports from 1 to 65535, comma separated, each once")
		}
		*p = append(*p, port)
	}
	if len(*p) == 0 {
		return formatError("must name a port")
	}
	return nil
}

// String joins the ports.
func (p Ports) String() string {
	texts := make([]string, 0, len(p))
	for _, port := range p {
		texts = append(texts, strconv.Itoa(port))
	}
	return strings.Join(texts, ",")
}

// Origins is a list of web origins as browsers send them: scheme, host and a port that is not the scheme's own.
type Origins []string

// UnmarshalText splits and checks the text.
func (o *Origins) UnmarshalText(text []byte) error {
	var list List
	if err := list.UnmarshalText(text); err != nil {
		return err
	}
	for _, origin := range list {
		if !isOrigin(origin) {
			return formatError("must be exact origins such as https://app.example.com, comma separated")
		}
	}
	*o = Origins(list)
	return nil
}

// String joins the origins.
func (o Origins) String() string { return List(o).String() }

func isOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || strings.Contains(u.Host, "*") {
		return false
	}
	own := map[string]string{schemeHTTP: "80", schemeHTTPS: "443"}[u.Scheme]
	return own != "" && u.Port() != own && !strings.HasSuffix(text, ":") && text == strings.ToLower(u.Scheme+"://"+u.Host)
}

// Options is a set of named values, written k=v&k=v. Percent-encoding works as in a query.
type Options map[string]Secret

// UnmarshalText takes the text apart.
func (o *Options) UnmarshalText(text []byte) error {
	*o = Options{}
	for pair := range strings.SplitSeq(string(text), "&") {
		name, value, ok := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(strings.TrimSpace(name))
		value, valueErr := url.QueryUnescape(value)
		if _, twice := (*o)[name]; !ok || name == "" || twice || nameErr != nil || valueErr != nil {
			return formatError("must be of the form k=v&k=v, each k once")
		}
		(*o)[name] = NewSecret(value)
	}
	return nil
}

// Reveal returns the values in clear, nil when there are none.
func (o Options) Reveal() map[string]string {
	if o == nil {
		return nil
	}
	values := make(map[string]string, len(o))
	for name, value := range o {
		values[name] = value.Reveal()
	}
	return values
}

// String masks the values: an option may be as confidential as a password.
func (o Options) String() string {
	names := slices.Sorted(maps.Keys(o))
	for i, name := range names {
		names[i] = name + "=" + masked
	}
	return strings.Join(names, "&")
}

// Format masks the values under every verb.
func (o Options) Format(f fmt.State, verb rune) { formatMasked(f, verb, o.String()) }

// LogValue masks the values in logs.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// MarshalText masks the values in JSON and other encodings.
func (o Options) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// DeploymentMode says how strict the process is about its dependencies.
type DeploymentMode string

// The deployment modes.
const (
	ModeSaaS  DeploymentMode = "saas"
	ModeBYOC  DeploymentMode = "byoc"
	ModeLocal DeploymentMode = "local"
)

// UnmarshalText accepts the modes above.
func (m *DeploymentMode) UnmarshalText(text []byte) error {
	switch v := DeploymentMode(text); v {
	case ModeSaaS, ModeBYOC, ModeLocal:
		*m = v
		return nil
	default:
		return formatError("must be saas, byoc or local")
	}
}

// Authorization says who decides what a token may do.
type Authorization string

// The ways to decide.
const (
	AuthorizationService Authorization = "service"
	AuthorizationClaims  Authorization = "claims"
)

// UnmarshalText accepts the ways above.
func (a *Authorization) UnmarshalText(text []byte) error {
	switch v := Authorization(text); v {
	case AuthorizationService, AuthorizationClaims:
		*a = v
		return nil
	default:
		return formatError("must be service or claims")
	}
}
