package source

import "github.com/go-json-experiment/json/jsontext"

// Op is a filter operator.
type Op string

// The operators of a filter.
const (
	OpEq      Op = "eq"
	OpNe      Op = "ne"
	OpGt      Op = "gt"
	OpGte     Op = "gte"
	OpLt      Op = "lt"
	OpLte     Op = "lte"
	OpBetween Op = "between"
	OpIn      Op = "in"
	OpNin     Op = "nin"
	OpLike    Op = "like"
	OpIsNull  Op = "isNull"
)

// Condition is one filter as requested: field, operator and the JSON values with all their digits.
type Condition struct {
	Field  string           `json:"field"`
	Op     Op               `json:"op"`
	Values []jsontext.Value `json:"values"`
}

// Predicate is a condition resolved against the catalogue, its values converted by the column's type.
type Predicate struct {
	Column *Column
	Op     Op
	Values []Operand
}

// Operand is one converted filter value. Text is the canonical text of the column's family: digits for integers and
// decimals, RFC 3339 style for dates and times, base64 decoded into Bytes for binary.
type Operand struct {
	Text    string
	Bytes   []byte
	Bool    bool
	DayOnly bool // a date without a time on a timestamp column: means that whole day in UTC
}
