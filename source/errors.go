package source

import "strconv"

// Category is why an external database could not be used, safe to show.
type Category string

// The categories FET-1040 names, and those only failed jobs know.
const (
	CategoryDNS         Category = "dns"
	CategoryRefused     Category = "refused"
	CategoryTimeout     Category = "timeout"
	CategoryTLS         Category = "tls"
	CategoryAuth        Category = "auth"
	CategoryDatabase    Category = "database"    // no such database, or it does not let us read
	CategoryUnsupported Category = "unsupported" // a server or option we can't work with
	CategoryNotAllowed  Category = "not allowed" // the guard refused the address
	CategoryRights      Category = "rights"      // the user may not read the table
	CategoryObject      Category = "object"      // a table or column is not there any more
	CategoryInput       Category = "input"       // the server could not take a filter's value
	CategoryValue       Category = "value"       // the server could not evaluate the query, or a value it yields
	CategoryUnlisted    Category = "unlisted"    // a row has a field the catalogue does not list, and all were asked for
	CategoryBroken      Category = "broken"      // the connection ended in the middle
	CategoryOther       Category = "other"
)

// Error is a failure of an external database. Err holds the driver's own words, for nobody's eyes but errors.As.
type Error struct {
	Category  Category
	Transient bool   // a later attempt may succeed
	Code      string // the server's SQLSTATE, five digits or capitals, for operators; empty: it gave none
	Number    int    // the server's own number of the error, for operators; 0: it gave none
	Hint      string // a remedy, for operators, of constant text; empty: none
	Err       error
}

// Error names category, codes and hint only: driver messages can quote addresses, statements and values.
func (e *Error) Error() string {
	text := "source: " + string(e.Category)
	if e.Code != "" {
		text += " (SQLSTATE " + e.Code + ")"
	}
	if e.Number != 0 {
		text += " (error " + strconv.Itoa(e.Number) + ")"
	}
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Unwrap returns the driver's error.
func (e *Error) Unwrap() error { return e.Err }
