package mongodb

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/auth"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
)

// classify turns err into a *source.Error. opening says that no session existed yet.
func classify(ctx context.Context, err error, opening bool) *source.Error {
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
	if server := serverError(err); server != nil {
		e := classifyCode(server.Code, opening)
		e.Number, e.Err = int(server.Code), err
		return e
	}
	category, transient := classifyNetwork(err, opening)
	return &source.Error{Category: category, Transient: transient, Err: err}
}

// serverError returns what the server itself said; nil if it is the driver that speaks.
func serverError(err error) *mongo.CommandError {
	var command mongo.CommandError
	if !errors.As(err, &command) || command.Code == 0 {
		return nil
	}
	return &command
}

// The server's numbers of errors that are looked at one by one.
const (
	codeUnauthorized     = 13
	codeSnapshotTooOld   = 239
	codeCommandNotFound  = 59
	codeNotImplemented   = 238
	codeUnknownStage     = 40324
	codeMaxTimeExpired   = 50
	codeNoReplicaSet     = 123
	codeInvalidOptions   = 72
	codeIllegal          = 20
	codeNotSupported     = 115
	codeMajorityDisabled = 148
)

// hintWindow is the remedy for a snapshot that the server has thrown away.
const hintWindow = "raise minSnapshotHistoryWindowInSeconds at the server above the time a job takes"

// classifyCode sorts what the server said.
func classifyCode(code int32, opening bool) *source.Error {
	e := &source.Error{Category: source.CategoryOther}
	switch code {
	case codeUnauthorized:
		e.Category = source.CategoryRights
		if opening {
			e.Category = source.CategoryDatabase
		}
	case 18, 11, 33: // authentication failed, no such user
		e.Category = source.CategoryAuth
	case 73: // invalid namespace
		e.Category = source.CategoryDatabase
	case 26, 166, 167, 175, 225: // the collection is not there any more, or not the same
		e.Category, e.Transient = source.CategoryObject, true
	case codeMaxTimeExpired, 262, 202:
		e.Category, e.Transient = source.CategoryTimeout, true
	case 6, 7, 89, 91, 189, 9001, 10107, 11600, 11602, 13388, 13435, 13436: // hosts gone, stepping down, shutting down
		e.Category, e.Transient = source.CategoryRefused, true
		if !opening {
			e.Category = source.CategoryBroken
		}
	case 43, 237, 11601: // the cursor is gone, or somebody at the server killed what ran
		e.Category, e.Transient = source.CategoryBroken, true
	case codeSnapshotTooOld:
		e.Transient, e.Hint = true, hintWindow
	case 246, 24, 46, 112, 133, 134, 251, 290, 365: // snapshot not there yet, locks, conflicts, no primary, stale routes
		e.Transient = true
	case 51091, 51075, 10334, 17280: // a pattern or a list that is too large
		e.Category = source.CategoryInput
	case codeNotSupported, codeNotImplemented, codeCommandNotFound, codeNoReplicaSet, codeInvalidOptions:
		e.Category = source.CategoryUnsupported
	case 2, 9, 14, 16, 17, 96, 16020, 16500, 28667, 40353, 40515, 40518: // the query, or what a view is made of
		if !opening {
			e.Category = source.CategoryValue
		}
	}
	return e
}

// classifyNetwork sorts what the client side found.
func classifyNetwork(err error, opening bool) (source.Category, bool) {
	var (
		encryption *tlsError
		login      *auth.Error
		selection  topology.ServerSelectionError
	)
	switch {
	case source.NameUnknown(err):
		return source.CategoryDNS, true
	case errors.As(err, &encryption), source.TLSAlert(err):
		return source.CategoryTLS, false
	case source.Unreached(err):
		return source.CategoryRefused, true
	case source.TimedOut(err), mongo.IsTimeout(err),
		errors.As(err, &selection):
		return source.CategoryTimeout, true
	case opening && source.ConnectionEnded(err):
		return source.CategoryRefused, true
	case !opening && (source.ConnectionEnded(err) || mongo.IsNetworkError(err)):
		return source.CategoryBroken, true
	case errors.As(err, &login):
		return source.CategoryAuth, false
	}
	if opening { // what a server says before it is one
		return source.CategoryUnsupported, false
	}
	return source.CategoryOther, false
}
