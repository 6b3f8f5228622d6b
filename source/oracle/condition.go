package oracle

import (
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

// condition writes one predicate of a statement. Comparing with null yields unknown in SQL, so null rows match nothing
// but isNull. To Oracle a text or binary of no length is null: no value equals an empty one, and all others are behind
// it. Only LOBs may be empty.
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
		return c.like(p.Values[0].Text)
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

func (c condition) like(pattern string) string {
	if pattern == "" {
		if c.typ.place == byLob {
			return c.length(" = ")
		}
		return never
	}
	return c.column + " LIKE " + c.bind(c.textOf(likePattern(pattern))) + ` ESCAPE '\'`
}

// likePattern escapes only what needs it: the server refuses other escapes.
func likePattern(pattern string) string {
	var out strings.Builder
	escaped := false
	for _, r := range pattern {
		if !escaped && r == '\\' {
			escaped = true
			continue
		}
		if escaped && strings.ContainsRune(`%_\`, r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
		escaped = false
	}
	return out.String()
}

// compare writes one of the four comparisons. A day on a column of moments stands for all of its moments.
func (c condition) compare(op source.Op, o source.Operand) string {
	if o.DayOnly && (op == source.OpGt || op == source.OpLte) {
		next := source.Operand{Text: o.NextDay()}
		switch {
		case beyond(next.Text) && op == source.OpGt:
			return never
		case beyond(next.Text):
			return c.always()
		case op == source.OpGt:
			op = source.OpGte
		default:
			op = source.OpLt
		}
		o = next
	}
	if c.empty(o) {
		return c.compareEmpty(op)
	}
	if c.typ.place == byLob {
		return c.compareLob(symbol(op), o)
	}
	return c.column + symbol(op) + c.value(o)
}

// empty reports whether o is what Oracle takes for null.
func (c condition) empty(o source.Operand) bool {
	switch c.typ.family {
	case source.FamilyText:
		return o.Text == ""
	case source.FamilyBinary:
		return len(o.Bytes) == 0
	}
	return false
}

func (c condition) compareEmpty(op source.Op) string {
	switch {
	case c.typ.place == byLob:
		return c.length(symbol(op))
	case op == source.OpGt, op == source.OpGte:
		return c.always()
	}
	return never
}

// length compares the length of a LOB with nothing.
func (c condition) length(sign string) string {
	return "DBMS_LOB.GETLENGTH(" + c.column + ")" + sign + "0"
}

func (c condition) compareLob(sign string, o source.Operand) string {
	return "DBMS_LOB.COMPARE(" + c.column + ", " + c.value(o) + ")" + sign + "0"
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
	case source.OpNe:
		return " <> "
	}
	return " = "
}

// anyOf writes that the column equals one of the values.
func (c condition) anyOf(values []source.Operand) string {
	var singles []source.Operand
	var alternatives []string
	for _, v := range values {
		switch {
		case v.DayOnly:
			alternatives = append(alternatives, c.compare(source.OpGte, v)+" AND "+c.compare(source.OpLte, v))
		case c.empty(v) && c.typ.place == byLob:
			alternatives = append(alternatives, c.length(" = "))
		case c.empty(v):
		case c.typ.place == byLob:
			alternatives = append(alternatives, c.compareLob(" = ", v))
		default:
			singles = append(singles, v)
		}
	}
	alternatives = append(alternatives, c.lists(singles, " = ", " IN ")...)
	if len(alternatives) == 0 {
		return never
	}
	return strings.Join(alternatives, " OR ")
}

// noneOf writes that the column equals none of the values.
func (c condition) noneOf(values []source.Operand) string {
	var singles []source.Operand
	var all []string
	for _, v := range values {
		switch {
		case v.DayOnly:
			all = append(all, "("+c.compare(source.OpLt, v)+" OR "+c.compare(source.OpGt, v)+")")
		case c.empty(v) && c.typ.place == byLob:
			all = append(all, c.length(" <> "))
		case c.empty(v):
		case c.typ.place == byLob:
			all = append(all, c.compareLob(" <> ", v))
		default:
			singles = append(singles, v)
		}
	}
	all = append(all, c.lists(singles, " <> ", " NOT IN ")...)
	if len(all) == 0 {
		return c.always()
	}
	return strings.Join(all, " AND ")
}

// lists compares with one value, or with lists that are as long as the server allows.
func (c condition) lists(values []source.Operand, one, many string) []string {
	var out []string
	for len(values) > 0 {
		n := min(len(values), maxList)
		if n == 1 {
			out = append(out, c.column+one+c.value(values[0]))
		} else {
			list := make([]string, n)
			for i, v := range values[:n] {
				list[i] = c.value(v)
			}
			out = append(out, c.column+many+"("+strings.Join(list, ", ")+")")
		}
		values = values[n:]
	}
	return out
}
