package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fetcherhq/fetcher/source"
)

// condition writes one predicate of a statement. Comparing with null yields null in SQL, so null rows match nothing
// but isNull.
type condition struct {
	*statement

	typ    *typ
	column string // quoted
}

func (c condition) sql(p source.Predicate) string {
	switch p.Op {
	case source.OpIsNull:
		// IS NULL looks into composites; this looks at the value itself.
		if p.Values[0].Bool {
			return c.column + " IS NOT DISTINCT FROM NULL"
		}
		return c.column + " IS DISTINCT FROM NULL"
	case source.OpLike:
		return c.like(p.Values[0])
	case source.OpEq, source.OpIn:
		return c.anyOf(p.Values)
	case source.OpNe, source.OpNin:
		return c.noneOf(p.Values)
	case source.OpBetween:
		return c.compare(source.OpGte, p.Values[0]) + " AND " + c.compare(source.OpLte, p.Values[1])
	}
	return c.compare(p.Op, p.Values[0])
}

// operand returns the column as it is compared.
func (c condition) operand() string {
	if c.typ.cast != "" {
		return "CAST(" + c.column + " AS " + c.typ.cast + ")"
	}
	return c.column
}

// operator returns op so that it is found wherever the type's extension lives.
func (c condition) operator(op string) string {
	if c.typ.operators == "" {
		return " " + op + " "
	}
	return " OPERATOR(" + quoteIdent(c.typ.operators) + "." + op + ") "
}

func (c condition) value(o source.Operand) string {
	return c.bind(c.typ.compareAs, []byte(operandText(c.typ.family, o)))
}

func (c condition) like(o source.Operand) string {
	oid := uint32(pgtype.TextOID)
	if c.typ.operators != "" {
		oid = c.typ.compareAs
	}
	return c.column + c.operator("~~") + c.bind(oid, []byte(o.Text))
}

// compare writes one of the four comparisons. A day on a timestamp stands for all of its moments.
func (c condition) compare(op source.Op, o source.Operand) string {
	if o.DayOnly {
		next := source.Operand{Text: o.NextDay()}
		switch op {
		case source.OpGt:
			op, o = source.OpGte, next
		case source.OpLte:
			op, o = source.OpLt, next
		}
	}
	symbols := map[source.Op]string{source.OpGt: ">", source.OpGte: ">=", source.OpLt: "<", source.OpLte: "<="}
	return c.operand() + c.operator(symbols[op]) + c.value(o)
}

// anyOf writes that the column equals one of the values.
func (c condition) anyOf(values []source.Operand) string {
	days, moments := splitDays(values)
	var alternatives []string
	if len(moments) > 0 {
		alternatives = append(alternatives, c.equal("=", "ANY", moments))
	}
	switch len(days) {
	case 0:
	case 1:
		within := c.compare(source.OpGte, days[0]) + " AND " + c.compare(source.OpLte, days[0])
		alternatives = append(alternatives, "("+within+")")
	default:
		alternatives = append(alternatives, c.dayOf()+" = ANY ("+c.bind(pgtype.DateArrayOID, textArray(texts(days)))+")")
	}
	return strings.Join(alternatives, " OR ")
}

// noneOf writes that the column equals none of the values.
func (c condition) noneOf(values []source.Operand) string {
	days, moments := splitDays(values)
	var all []string
	if len(moments) > 0 {
		all = append(all, c.equal("<>", "ALL", moments))
	}
	switch len(days) {
	case 0:
	case 1:
		outside := c.compare(source.OpLt, days[0]) + " OR " + c.compare(source.OpGt, days[0])
		all = append(all, "("+outside+")")
	default:
		all = append(all, c.dayOf()+" <> ALL ("+c.bind(pgtype.DateArrayOID, textArray(texts(days)))+")")
	}
	return strings.Join(all, " AND ")
}

// dayOf is the day of a timestamp, in the session's zone, which is UTC.
func (c condition) dayOf() string { return "CAST(" + c.column + " AS pg_catalog.date)" }

// equal compares with one value or with a list of them; lists of any length are one parameter.
func (c condition) equal(op, quantifier string, values []source.Operand) string {
	if len(values) == 1 {
		return c.operand() + c.operator(op) + c.value(values[0])
	}
	elements := make([]string, len(values))
	for i, v := range values {
		elements[i] = operandText(c.typ.family, v)
	}
	return c.operand() + c.operator(op) + quantifier + " (" + c.bind(c.typ.compareAll, textArray(elements)) + ")"
}

// splitDays tells days on a timestamp column from moments.
func splitDays(values []source.Operand) (days, moments []source.Operand) {
	for _, v := range values {
		if v.DayOnly {
			days = append(days, v)
		} else {
			moments = append(moments, v)
		}
	}
	return days, moments
}

func texts(values []source.Operand) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.Text
	}
	return out
}
