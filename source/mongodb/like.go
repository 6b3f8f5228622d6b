package mongodb

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// likePattern turns a LIKE pattern into an anchored regular expression: % is any text, _ one character, line ends
// among them, and a backslash takes what follows as it is.
func likePattern(like string) bson.Regex {
	const meta = `\.+*?()|[]{}^$/`
	var b strings.Builder
	b.WriteByte('^')
	escaped := false
	for _, c := range like {
		switch {
		case !escaped && c == '\\':
			escaped = true
			continue
		case !escaped && c == '%':
			b.WriteString(".*")
		case !escaped && c == '_':
			b.WriteByte('.')
		default:
			if strings.ContainsRune(meta, c) {
				b.WriteByte('\\')
			}
			b.WriteRune(c)
		}
		escaped = false
	}
	b.WriteString(`\z`) // a dollar would also match before a last line end
	return bson.Regex{Pattern: b.String(), Options: "s"}
}
