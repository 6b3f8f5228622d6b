package mysql

import (
	"strings"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/form"
)

// unnest binds a list of any length as one parameter, a JSON array that the server makes rows of. Not every type can
// be had that way with all of its values, and not every server can do it.
func (c condition) unnest(values []source.Operand) (string, bool) {
	column, ok := c.rowType()
	if !ok {
		return "", false
	}
	list := []byte{'['}
	for i, v := range values {
		if i > 0 {
			list = append(list, ',')
		}
		text := v.Text
		switch c.typ.family {
		case source.FamilyTimestamp, source.FamilyTimestampTZ:
			text = strings.TrimSuffix(strings.Replace(text, "T", " ", 1), "Z")
		}
		list = form.AppendString(list, []byte(text))
	}
	list = append(list, ']')
	return "(SELECT v FROM JSON_TABLE(" + c.bind(textParam(string(list))) +
		", '$[*]' COLUMNS (v " + column + " PATH '$' ERROR ON ERROR)) AS list)", true
}

// rowType is the type of the rows that values are compared with.
func (c condition) rowType() (string, bool) {
	switch c.typ.family {
	case source.FamilyInt:
		if c.typ.unsigned {
			return "BIGINT UNSIGNED", true
		}
		return "BIGINT", true
	case source.FamilyDecimal:
		return "DECIMAL(65,30)", true
	case source.FamilyDate:
		return "DATE", true
	case source.FamilyTimestamp, source.FamilyTimestampTZ:
		return "DATETIME(6)", true
	case source.FamilyTime:
		return "TIME(6)", true
	case source.FamilyText, source.FamilyEnum:
		if c.typ.charset == "utf8mb4" { // others lack characters that values have
			return "LONGTEXT CHARACTER SET utf8mb4 COLLATE " + c.typ.collate, true
		}
	}
	return "", false
}
