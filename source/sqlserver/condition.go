package sqlserver

import (
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

// condition writes one predicate of a statement. Comparing with null yields unknown in SQL, so null rows match nothing
// but isNull.
type condition struct {
	*statement

	typ    *typ
	column string // quoted
}

const never = "1 = 0"

func (c condition) sql(p source.Predicate) string {
	switch p.Op {
	case source.OpIsNull:
		if p.Values[0].Bool {
			return c.column + " IS NULL"
		}
		return c.always()
	case source.OpLike:
		return c.operand() + " LIKE " + c.text(likePattern(p.Values[0].Text)) + ` ESCAPE N'\'`
	case source.OpEq, source.OpIn:
		return c.anyOf(p.Values)
	case source.OpNe, source.OpNin:
		return c.noneOf(p.Values)
	case source.OpBetween:
		return c.compare(source.OpGte, p.Values[0]) + " AND " + c.compare(source.OpLte, p.Values[1])
	}
	return c.compare(p.Op, p.Values[0])
}

// always matches every value but null.
func (c condition) always() string { return c.column + " IS NOT NULL" }

// operand returns the column as it is compared.
func (c condition) operand() string { return expression(c.typ.compare, c.column) }

// likePattern writes a pattern in the server's language: there, brackets are sets of characters. An escaped character
// stands for itself.
func likePattern(pattern string) string {
	var out strings.Builder
	escaped := false
	for _, r := range pattern {
		switch {
		case !escaped && r == '\\':
			escaped = true
			continue
		case !escaped && (r == '%' || r == '_'):
		case strings.ContainsRune(`%_[\`, r):
			out.WriteByte('\\')
		}
		out.WriteRune(r)
		escaped = false
	}
	return out.String()
}

// compare writes one of the four comparisons. A day on a column of moments stands for all of its moments.
func (c condition) compare(op source.Op, o source.Operand) string {
	if o.DayOnly {
		switch op {
		case source.OpGt:
			return c.comparePlace(source.OpGte, c.typ.grid.locate(o.NextDay()))
		case source.OpLte:
			return c.comparePlace(source.OpLt, c.typ.grid.locate(o.NextDay()))
		}
	}
	switch c.typ.family {
	case source.FamilyUUID:
		return c.compareUUID(op, o)
	case source.FamilyBinary:
		return c.compareBytes(op, o)
	}
	if c.typ.grid != nil {
		return c.comparePlace(op, c.typ.grid.locate(o.Text))
	}
	return c.operand() + symbol(op) + c.value(o)
}

func symbol(op source.Op) string {
	switch op {
	case source.OpGt:
		return " > "
	case source.OpGte:
		return " >= "
	case source.OpLt:
		return " < "
	case source.OpLte:
		return " <= "
	}
	return " = "
}

// comparePlace compares with the place of a value among those that the column can have.
func (c condition) comparePlace(op source.Op, p place) string {
	up := op == source.OpGt || op == source.OpGte
	switch p.where {
	case below, above:
		if up == (p.where == below) {
			return c.always()
		}
		return never
	case between: // behind p.text
		op = source.OpLte
		if up {
			op = source.OpGt
		}
	}
	return c.operand() + symbol(op) + c.placed(p.text)
}

// compareUUID compares by the canonical text: the server's own order begins with the last six bytes.
func (c condition) compareUUID(op source.Op, o source.Operand) string {
	return "CONVERT(char(36), " + c.column + ") COLLATE Latin1_General_BIN2" + symbol(op) + c.text(strings.ToUpper(o.Text))
}

// compareBytes sees to zeros at the end, which the server takes no notice of.
func (c condition) compareBytes(op source.Op, o source.Operand) string {
	value := c.value(o)
	strict, length := symbol(source.OpGt), symbol(op)
	if op == source.OpLt || op == source.OpLte {
		strict = symbol(source.OpLt)
	}
	return "(" + c.operand() + strict + value + " OR " + c.operand() + " = " + value +
		" AND DATALENGTH(" + c.operand() + ")" + length + "DATALENGTH(" + value + "))"
}

// split tells days from moments, and leaves out what the column can't hold.
func (c condition) split(values []source.Operand) (days, moments []source.Operand) {
	for _, v := range values {
		switch {
		case v.DayOnly:
			days = append(days, v)
		case c.typ.grid == nil:
			moments = append(moments, v)
		default:
			if p := c.typ.grid.locate(v.Text); p.where == exact {
				moments = append(moments, source.Operand{Text: p.text})
			}
		}
	}
	return days, moments
}

// anyOf writes that the column equals one of the values.
func (c condition) anyOf(values []source.Operand) string {
	days, moments := c.split(values)
	var alternatives []string
	if len(moments) > 0 {
		alternatives = append(alternatives, c.equal(moments, false))
	}
	if len(days) > c.longest {
		alternatives = append(alternatives, c.inDays(days, " IN "))
		days = nil
	}
	for _, d := range days {
		alternatives = append(alternatives, c.compare(source.OpGte, d)+" AND "+c.compare(source.OpLte, d))
	}
	if len(alternatives) == 0 {
		return never
	}
	return strings.Join(alternatives, " OR ")
}

// noneOf writes that the column equals none of the values.
func (c condition) noneOf(values []source.Operand) string {
	days, moments := c.split(values)
	var all []string
	if len(moments) > 0 {
		all = append(all, c.equal(moments, true))
	}
	if len(days) > c.longest {
		all = append(all, c.inDays(days, " NOT IN "))
		days = nil
	}
	for _, d := range days {
		all = append(all, "("+c.compare(source.OpLt, d)+" OR "+c.compare(source.OpGt, d)+")")
	}
	if len(all) == 0 {
		return c.always()
	}
	return strings.Join(all, " AND ")
}

// equal compares with one value or with a list of them.
func (c condition) equal(values []source.Operand, negated bool) string {
	switch {
	case len(values) > c.longest:
		return c.inList(values, negated)
	case c.typ.family == source.FamilyBinary:
		return c.equalBytes(values, negated)
	case len(values) == 1 && negated:
		return c.operand() + " <> " + c.value(values[0])
	case len(values) == 1:
		return c.operand() + " = " + c.value(values[0])
	}
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = c.value(v)
	}
	in := " IN ("
	if negated {
		in = " NOT IN ("
	}
	return c.operand() + in + strings.Join(list, ", ") + ")"
}

func (c condition) equalBytes(values []source.Operand, negated bool) string {
	list := make([]string, len(values))
	for i, v := range values {
		value := c.value(v)
		list[i] = c.operand() + " = " + value + " AND DATALENGTH(" + c.operand() + ") = DATALENGTH(" + value + ")"
	}
	found := strings.Join(list, " OR ")
	if negated {
		return "NOT (" + found + ")"
	}
	return found
}
