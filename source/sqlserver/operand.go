package sqlserver

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-sql/civil"
	mssql "github.com/microsoft/go-mssqldb"

	"github.com/fetcherhq/fetcher/source"
)

// value binds an operand as a parameter of the column's own type, so that it is the parameter that is converted, if
// anything is, and an index on the column can be used.
func (c condition) value(o source.Operand) string {
	switch c.typ.family {
	case source.FamilyBool:
		return c.bind(o.Bool)
	case source.FamilyInt:
		return c.bind(c.integer(o.Text))
	case source.FamilyFloat:
		return c.bind(c.float(o.Text))
	case source.FamilyBinary:
		return c.bind(append([]byte{}, o.Bytes...)) // no bytes are not null
	case source.FamilyUUID:
		return c.bind(identifier(o.Text))
	case source.FamilyText:
		return c.text(o.Text)
	}
	return c.placed(o.Text)
}

// integer returns the number in the type of the column, which the operand fits.
func (c condition) integer(text string) any {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && c.err == nil {
		c.err = err
	}
	switch c.typ.bits {
	case 8:
		return byte(n) // #nosec G115 -- of that size
	case 16:
		return int16(n) // #nosec G115 -- of that size
	case 32:
		return int32(n) // #nosec G115 -- of that size
	}
	return n
}

func (c condition) float(text string) any {
	f, err := strconv.ParseFloat(text, c.typ.bits)
	if err != nil && c.err == nil {
		c.err = err
	}
	if c.typ.bits == 32 {
		return float32(f)
	}
	return f
}

// text binds a text. Columns in a code page are compared in it if the text has only what all code pages have: compared
// with UTF-16 they would be converted, every row of them.
func (c condition) text(s string) string {
	if (c.typ.narrow || c.typ.family == source.FamilyUUID) && isASCII(s) {
		return c.bind(mssql.VarChar(s))
	}
	return c.bind(s)
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// identifier takes a canonical UUID apart.
func identifier(text string) mssql.UniqueIdentifier {
	var id mssql.UniqueIdentifier
	_, _ = hex.Decode(id[:], []byte(strings.ReplaceAll(text, "-", "")))
	return id
}

// placed binds a value that lies on the column's grid.
func (c condition) placed(text string) string {
	switch c.typ.name {
	case "decimal", "numeric", "money", "smallmoney":
		return c.convert(text)
	case "date":
		at, _ := time.Parse(time.DateOnly, text)
		return c.bind(civil.DateOf(at))
	case "time":
		at, _ := time.Parse(layoutClock, text)
		return c.convert(civil.TimeOf(at))
	}
	at, _ := parseMoment(text)
	switch c.typ.name {
	case "datetime":
		return c.bind(mssql.DateTime1(at))
	case "smalldatetime":
		return c.convert(mssql.DateTime1(at))
	case "datetimeoffset":
		return c.convert(mssql.DateTimeOffset(at))
	}
	return c.convert(civil.DateTimeOf(at))
}

// widest is the number of fraction digits that parameters are sent with.
const widest = 7

// convert binds a value and has it converted to the column's type, which it fits, unless it is sent in that.
func (c condition) convert(value any) string {
	if c.typ.digital && c.typ.scale == widest {
		return c.bind(value)
	}
	return "CONVERT(" + c.typ.decl + ", " + c.bind(value) + ")"
}

// inList compares with a list of any length as one parameter.
func (c condition) inList(values []source.Operand, negated bool) string {
	texts := make([]string, len(values))
	for i, v := range values {
		switch c.typ.family {
		case source.FamilyBool:
			texts[i] = strconv.FormatBool(v.Bool)
		case source.FamilyBinary:
			texts[i] = base64.StdEncoding.EncodeToString(v.Bytes)
		default:
			texts[i] = strings.TrimSuffix(v.Text, "Z")
		}
	}
	decl, collate := c.typ.decl, ""
	switch c.typ.family {
	case source.FamilyBinary:
		from := "FROM " + c.list(texts, "varbinary(max)") + " WHERE v = " + c.operand() + " AND DATALENGTH(v) = DATALENGTH(" + c.operand() + ")"
		if negated {
			return c.always() + " AND NOT EXISTS (SELECT 1 " + from + ")"
		}
		return "EXISTS (SELECT 1 " + from + ")"
	case source.FamilyText:
		decl = "nvarchar(max)"
		if c.typ.collation != "" {
			collate = " COLLATE " + c.typ.collation
		}
	}
	in := " IN "
	if negated {
		in = " NOT IN "
	}
	return c.operand() + in + "(SELECT v" + collate + " FROM " + c.list(texts, decl) + ")"
}

// inDays compares the day, in UTC, with a list of any length.
func (c condition) inDays(days []source.Operand, in string) string {
	texts := make([]string, len(days))
	for i, d := range days {
		texts[i] = d.Text
	}
	at := c.column
	if c.typ.family == source.FamilyTimestampTZ {
		at = "SWITCHOFFSET(" + at + ", '+00:00')"
	}
	return "CONVERT(date, " + at + ")" + in + "(SELECT v FROM " + c.list(texts, "date") + ")"
}

// list binds texts as one parameter and makes rows of the type of it, in a column called v.
func (c condition) list(texts []string, decl string) string {
	if c.level < levelJSON && c.err == nil {
		c.err = errLongList
	}
	return "OPENJSON(" + c.bind(mssql.NVarCharMax(jsonArray(texts))) + ") WITH (v " + decl + " '$')"
}
