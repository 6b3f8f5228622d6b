package sqlserver

import (
	"context"
	"errors"
	"strings"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
)

// What the driver says where it wraps no error that could be told by its type.
const (
	sayHandshake   = "TLS Handshake"
	sayNoTLS       = "server does not support encryption"
	sayNegative    = "negative serial number"
	hintNegative   = "the server's certificate has a negative serial number, which Go refuses: install a new certificate at the server, or set GODEBUG=x509negativeserial=1 for this process"
	fatalSeverity  = 20
	numberNoObject = 208
)

// classifyOpening turns the failure of connecting into a *source.Error. network is what the network itself said.
func classifyOpening(ctx context.Context, err, network error) *source.Error {
	if known := ended(ctx, err); known != nil {
		return known
	}
	text := err.Error()
	switch {
	case strings.Contains(text, sayNegative):
		return &source.Error{Category: source.CategoryTLS, Hint: hintNegative, Err: err}
	case strings.Contains(text, sayHandshake), strings.Contains(text, sayNoTLS):
		// A server that insists on TLS, or on another version, hangs up without a word; a deadline is about time.
		if !source.TimedOut(network) {
			return &source.Error{Category: source.CategoryTLS, Err: err}
		}
	}
	return classify(err, network, true)
}

// classifyRunning turns the failure of a statement into a *source.Error.
func classifyRunning(ctx context.Context, err, network error) *source.Error {
	if known := ended(ctx, err); known != nil {
		return known
	}
	return classify(err, network, false)
}

// ended judges failures that the context or the guard explain.
func ended(ctx context.Context, err error) *source.Error {
	if known := (*source.Error)(nil); errors.As(err, &known) {
		return known
	}
	switch {
	case errors.Is(err, dial.ErrNotAllowed):
		return &source.Error{Category: source.CategoryNotAllowed, Err: err}
	case errors.Is(ctx.Err(), context.Canceled):
		return &source.Error{Category: source.CategoryOther, Err: errors.Join(ctx.Err(), err)}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &source.Error{Category: source.CategoryTimeout, Transient: true, Err: errors.Join(ctx.Err(), err)}
	}
	return nil
}

func classify(err, network error, opening bool) *source.Error {
	if server, ok := errors.AsType[mssql.Error](err); ok && server.Number != 0 {
		category, transient := classifyNumber(server, opening)
		return &source.Error{Category: category, Transient: transient, Number: int(server.Number), Err: err}
	}
	category, transient := classifyNetwork(errors.Join(err, network), opening)
	return &source.Error{Category: category, Transient: transient, Err: err}
}

// classifyNumber sorts what the server itself said. Of several errors in a row the last may only say that there was
// another one, so the first that is known decides.
func classifyNumber(server mssql.Error, opening bool) (source.Category, bool) {
	for _, e := range append(server.All, server) {
		if outcome, known := numbers()[e.Number]; known {
			return outcome.category, outcome.transient
		}
	}
	switch {
	case server.Class >= fatalSeverity && opening:
		return source.CategoryRefused, true
	case server.Class >= fatalSeverity: // the server ends the connection
		return source.CategoryBroken, true
	}
	return source.CategoryOther, false
}

type outcome struct {
	category  source.Category
	transient bool
}

// numbers returns what the errors of the server that a reader meets come down to.
func numbers() map[int32]outcome {
	out := make(map[int32]outcome)
	for o, list := range map[outcome][]int32{
		// login failed, untrusted, disabled, locked, password expired or to be changed, by a trigger
		{source.CategoryAuth, false}: {18456, 18452, 18450, 18470, 18486, 18487, 18488, 17892, 18463, 18464, 18465, 18466, 18467, 18468},
		// can't be opened, not for this user, does not exist, default not there, single user, as a secondary only
		{source.CategoryDatabase, false}: {4060, 916, 911, 4064, 18461, 924, 978, 979, 976},
		// being recovered, restored, upgraded, moved; paused; not ready
		{source.CategoryDatabase, true}: {904, 905, 922, 927, 942, 945, 982, 983, 40613, 42109},
		// too many connections, upgrade under way, limits of Azure
		{source.CategoryRefused, true}: {17809, 17810, 18401, 10928, 10929, 10936, 40501, 49918, 49919, 49920, 233},
		// a firewall rule of Azure
		{source.CategoryRefused, false}: {40615, 40914},
		// no right on table, column, in database; to view or execute
		{source.CategoryRights, false}: {229, 230, 262, 297, 300, 10330},
		// no such object, column, function or type; a view that does not fit its tables any more
		{source.CategoryObject, false}: {numberNoObject, 207, 2812, 4121, 4413, 4502, 4406, 2715, 4920, 468},
		// deadlock, snapshot: conflict, changed table, not allowed any more, no versions; resources; moved on
		{source.CategoryOther, true}: {
			1205, 3960, 3961, 3952, 3958, 3966, 3967, 3957, 601, 605, 701, 802, 1204, 1105, 9002, 8645, 8651, 40197, 40143, 4221, 41301, 41302, 41305, 41325,
		},
		// a lock, by its own limit; the optimiser
		{source.CategoryTimeout, true}: {1222, 8622, 8628, -2},
		// shut down, killed
		{source.CategoryBroken, true}: {6005, 596, 6104, 121, 10054},
		// conversions, arithmetic, subqueries, dates, CLR code, JSON, XML, raised by a trigger or function
		{source.CategoryValue, false}: {
			8114, 8115, 245, 220, 232, 235, 236, 237, 238, 241, 242, 248, 293, 295, 296, 517, 512, 535, 537, 542, 8134, 8117, 8152, 2628, 6522,
			3623, 1007, 9420, 9400, 13608, 13609, 9803, 9804, 50000, 530, 8169, 8152, 257, 305, 9819, 9808,
		},
		// no such syntax, function or setting: another product, or much older; tables in memory within a snapshot
		{source.CategoryUnsupported, false}: {102, 156, 195, 170, 319, 321, 41332, 41368, 41333},
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
	case source.TLSAlert(err):
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

// isBroken reports whether the connection ended, or what came over it can't be read: a stream that is cut within a
// packet is no stream.
func isBroken(err error) bool {
	var (
		stream mssql.StreamError
		server mssql.ServerError
	)
	return source.ConnectionEnded(err) || errors.As(err, &stream) || errors.As(err, &server)
}
