package mysql

import (
	"context"
	"errors"
	"strings"

	"github.com/go-sql-driver/mysql"

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
	if server := (*mysql.MySQLError)(nil); errors.As(err, &server) {
		category, transient := classifyNumber(server.Number, opening)
		return &source.Error{
			Category: category, Transient: transient, Err: err,
			Code: sqlState(server.SQLState), Number: int(server.Number),
		}
	}
	category, transient := classifyNetwork(err, opening)
	return &source.Error{Category: category, Transient: transient, Err: err}
}

// sqlState returns code if it looks like one: whoever answers may not be a server that keeps secrets out of it.
func sqlState(code [5]byte) string {
	s := string(code[:])
	if strings.Trim(s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return ""
	}
	return s
}

// classifyNumber sorts what the server itself said.
func classifyNumber(number uint16, opening bool) (source.Category, bool) {
	switch number {
	case 1044, 1049, 1102: // no right to it, no such database, no name for one
		return source.CategoryDatabase, false
	case 1045, 1698, 1130, 1251, 1275, 1524, 1820, 1862, 3118, 3955, 4151, 3032: // password, host, plugin, locked
		return source.CategoryAuth, false
	case 3159: // encryption demanded
		return source.CategoryTLS, false
	case 1040, 1041, 1129, 1135, 1203, 1226: // too many of us, or too many errors from us
		return source.CategoryRefused, true
	case 1317, 1969, 3024, 1028: // interrupted, ours or an administrator's limit
		return source.CategoryTimeout, true
	case 1053, 1077, 1079, 1080, 1152, 1153, 1159, 1160, 1161, 1927, 1158, 4031: // shutdown, killed, network
		if opening {
			return source.CategoryRefused, true
		}
		return source.CategoryBroken, true
	}
	return classifyStatement(number)
}

// classifyStatement sorts what goes wrong with a statement.
func classifyStatement(number uint16) (source.Category, bool) {
	switch number {
	case 1142, 1143, 1227, 1370, 1345, 1449: // also of a view's definer
		return source.CategoryRights, false
	case 1412: // the table was altered after the snapshot began
		return source.CategoryObject, true
	case 1051, 1054, 1109, 1146, 1356, 1932:
		return source.CategoryObject, false
	case 1205, 1213, 1020, 1021, 1037, 1038, 1114, 1206, 3572: // locks, memory, disk
		return source.CategoryOther, true
	case 1047, 1064, 1193, 1235, 1289, 1305: // what a relative or a proxy does not know
		return source.CategoryUnsupported, false
	case 1267, 1270, 1271, 1300, 1525, 1366: // a value in an encoding the column can't be compared with
		return source.CategoryInput, false
	case 1242, 1264, 1292, 1365, 1367, 1406, 1411, 1416, 1690, 1792, 3140, 3141, 3143, 3516, 4037, 4038, 4079, 1644:
		return source.CategoryValue, false
	}
	return source.CategoryOther, false
}

// classifyNetwork sorts what the client side found.
func classifyNetwork(err error, opening bool) (source.Category, bool) {
	var encryption *tlsError
	switch {
	case source.NameUnknown(err):
		return source.CategoryDNS, true
	case source.TimedOut(err):
		return source.CategoryTimeout, true
	case errors.As(err, &encryption), source.TLSAlert(err):
		return source.CategoryTLS, false
	case errors.Is(err, mysql.ErrUnknownPlugin), errors.Is(err, mysql.ErrCleartextPassword), errors.Is(err, mysql.ErrOldPassword):
		return source.CategoryAuth, false
	case source.Unreached(err):
		return source.CategoryRefused, true
	case source.ConnectionEnded(err):
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
