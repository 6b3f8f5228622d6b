package connections

import (
	"strings"

	"github.com/fetcherhq/fetcher/problem"
)

const maxProduct = 100

// ParseProduct reads the lines of the header X-Product-Name: exactly one, which trimmed and lower-cased is 1 to 100
// characters of [a-z0-9_-]. Anything else, no line at all included, is FET-0403.
func ParseProduct(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", productFault("is required")
	case 1:
	default:
		return "", productFault("must be given once")
	}
	product := strings.TrimSpace(values[0])
	switch {
	case product == "":
		return "", productFault("must not be blank")
	case len(product) > maxProduct || strings.ContainsFunc(product, func(r rune) bool { return !isNameRune(r) }):
		return "", productFault("must be 1 to 100 characters of a-z, 0-9, _ and -")
	}
	return strings.ToLower(product), nil // after the check: some letters beyond ASCII have lower cases in it
}

func productFault(message string) error {
	return problem.New(problem.HeaderInvalid, "the header X-Product-Name is not valid").
		With(problem.Field{Location: "header.X-Product-Name", Message: message})
}
