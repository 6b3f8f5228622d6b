package oracle

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	sqldriver "database/sql/driver"
	"errors"
	"strings"

	"github.com/sijms/go-ora/v2/network"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
)

// classifyOpening turns the failure of connecting into a *source.Error. failed is what the network itself said.
func classifyOpening(ctx context.Context, err, failed error) *source.Error {
	return classify(ctx, err, failed, true)
}

// classifyRunning turns the failure of a statement into a *source.Error.
func classifyRunning(ctx context.Context, err, failed error) *source.Error {
	return classify(ctx, err, failed, false)
}

func classify(ctx context.Context, err, failed error, opening bool) *source.Error {
	if known := (*source.Error)(nil); errors.As(err, &known) {
		return known
	}
	both := errors.Join(err, failed)
	switch {
	case errors.Is(both, dial.ErrNotAllowed):
		return &source.Error{Category: source.CategoryNotAllowed, Err: both}
	case errors.Is(ctx.Err(), context.Canceled):
		return &source.Error{Category: source.CategoryOther, Err: errors.Join(ctx.Err(), both)}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &source.Error{Category: source.CategoryTimeout, Transient: true, Err: errors.Join(ctx.Err(), both)}
	}
	if server := (*network.OracleError)(nil); errors.As(err, &server) {
		o := numbers()[server.ErrCode]
		if o.category == "" {
			o.category = source.CategoryOther
		}
		return &source.Error{Category: o.category, Transient: o.transient, Number: server.ErrCode, Err: both}
	}
	category, transient := classifyNetwork(both, opening)
	return &source.Error{Category: category, Transient: transient, Err: both}
}

type outcome struct {
	category  source.Category
	transient bool
}

// numbers returns what the errors of the server that a reader meets come down to.
func numbers() map[int]outcome {
	out := make(map[int]outcome)
	for o, list := range map[outcome][]int{
		// wrong password, no right to log in, locked, expired, logon trigger, by proxy, of an older protocol
		{source.CategoryAuth, false}: {1017, 1045, 28000, 28001, 28002, 28003, 28150, 28040, 1005, 28009, 28221, 1988, 12638, 12641, 12631},
		// the listener knows no such service, SID or instance; the descriptor names none
		{source.CategoryDatabase, false}: {12154, 12514, 12505, 12521, 12504, 12526, 12527, 1219, 1507, 65096},
		// starting, stopping, mounted only, restricted, being opened, standby without recovery
		{source.CategoryDatabase, true}: {1033, 1034, 1035, 1089, 1090, 1092, 12528, 27101, 65054, 16000, 10456},
		// nobody listens, no handler, refused, by access lists
		{source.CategoryRefused, true}:  {12541, 12516, 12519, 12520, 12518, 12564, 12545, 12543, 12502, 20, 18, 2391, 12500, 12537},
		{source.CategoryRefused, false}: {12506, 12546, 12529},
		// no such table, column, sequence or synonym; a view that does not fit its tables; dropped or changed meanwhile
		{source.CategoryObject, false}: {942, 904, 980, 4043, 4063, 1775, 4044, 4045, 8103, 1410, 38802},
		{source.CategoryRights, false}: {1031, 1039, 1749, 1720, 28115, 41900},
		// deadlock, no serial order, versions gone, changed while read, cursor invalid; space, memory, processes
		{source.CategoryOther, true}: {60, 8177, 1555, 1466, 22924, 4068, 1652, 1653, 1654, 4030, 4031, 1631, 12805, 12801, 12829, 29740, 25402, 25408, 25401, 54, 1002},
		// of a resource plan, a lock, a distributed lock, the network
		{source.CategoryTimeout, true}: {12170, 40, 2049, 30006, 12535, 12606, 2396, 2399, 51, 3136, 56735, 7445, 56720},
		// killed, not connected, ended by the server, lost contact, closed
		{source.CategoryBroken, true}: {28, 29, 1012, 3113, 3114, 3135, 3127, 12571, 12547, 12583, 12560, 2397, 600, 31, 1013},
		// numbers, dates, text and bytes that can't be converted; arithmetic, subqueries, files, XML, JSON, by a function
		{source.CategoryValue, false}: {
			1722, 1426, 1427, 1476, 1438, 1401, 12899, 1830, 1839, 1840, 1841, 1843, 1847, 1848, 1849, 1850, 1851, 1852, 1853, 1858, 1861, 1862, 1864, 1867, 1870, 1873, 1878, 1882,
			1873, 6502, 6503, 6512, 1406, 29275, 12703, 22835, 22288, 22285, 29400, 29913, 40441, 31011, 31061, 19202, 30625, 20000, 1465, 1489, 932, 1456,
		},
		// parameters that are too long
		{source.CategoryInput, false}: {1461, 1460, 1424, 1425, 1704},
		// syntax and functions of other releases, too many columns or lists
		{source.CategoryUnsupported, false}: {900, 902, 903, 905, 906, 907, 911, 920, 923, 933, 936, 2000, 1795, 1792, 2248, 439, 3120, 24550},
		// TLS and wallets
		{source.CategoryTLS, false}: {28860, 28862, 28864, 28865, 29024, 29002, 28750, 28759, 28857, 28858, 28868, 12650, 12660},
	} {
		for _, n := range list {
			out[n] = o
		}
	}
	return out
}

// classifyNetwork sorts what the client side found.
func classifyNetwork(err error, opening bool) (source.Category, bool) {
	switch {
	case source.NameUnknown(err):
		return source.CategoryDNS, true
	case source.TimedOut(err):
		return source.CategoryTimeout, true
	case isTLS(err):
		return source.CategoryTLS, false
	case source.Unreached(err):
		return source.CategoryRefused, true
	case isBroken(err):
		if opening {
			return source.CategoryRefused, true
		}
		return source.CategoryBroken, true
	}
	if opening { // what a server says before it is one
		return source.CategoryUnsupported, false
	}
	return source.CategoryOther, false
}

// isTLS reports whether the two did not agree on TLS. The check of a certificate has no type of its own: what makes it
// says so in front.
func isTLS(err error) bool {
	var (
		record  tls.RecordHeaderError
		invalid *tls.CertificateVerificationError
		name    x509.HostnameError
		unknown x509.UnknownAuthorityError
		wrong   x509.CertificateInvalidError
	)
	return errors.Is(err, errPlain) || errors.As(err, &record) || errors.As(err, &invalid) || errors.As(err, &name) ||
		errors.As(err, &unknown) || errors.As(err, &wrong) ||
		source.TLSAlert(err) ||
		strings.Contains(err.Error(), "tls: ")
}

// isBroken reports whether the connection ended, or what came over it can't be read: the driver does not tell much about
// either.
func isBroken(err error) bool {
	return source.ConnectionEnded(err) || errors.Is(err, sqldriver.ErrBadConn) ||
		errors.Is(err, errPanic) || errors.Is(err, errCut) || errors.Is(err, network.ErrConnReset)
}
