package postgres

import "bytes"

// maxDimensions is how deep PostgreSQL nests an array; types nest within each other beyond that.
const maxDimensions = 6

// appendArray appends an array like [0:1]={"a b",NULL,{1,2}}. Lower bounds are not shown.
func (r *row) appendArray(dst []byte, t *typ, v []byte) []byte {
	if len(v) > 0 && v[0] == '[' {
		i := bytes.IndexByte(v, '=')
		if i < 0 {
			return r.malformed(dst)
		}
		v = v[i+1:]
	}
	mark := len(dst)
	dst, rest, ok := r.appendDimension(dst, t, v, 1)
	if !ok || len(rest) > 0 {
		return r.malformed(dst[:mark])
	}
	return dst
}

// appendDimension appends what is between a pair of braces and returns what follows it.
func (r *row) appendDimension(dst []byte, t *typ, v []byte, depth int) (out, rest []byte, ok bool) {
	if len(v) < 2 || v[0] != '{' || depth > maxDimensions {
		return dst, v, false
	}
	dst, v = append(dst, '['), v[1:]
	if v[0] == '}' {
		return append(dst, ']'), v[1:], true
	}
	for len(v) > 0 {
		if v[0] == '{' {
			dst, v, ok = r.appendDimension(dst, t, v, depth+1)
		} else {
			dst, v, ok = r.appendElement(dst, t, v)
		}
		if !ok || len(v) == 0 {
			return dst, v, false
		}
		c := v[0]
		v = v[1:]
		switch c {
		case t.delim:
			dst = append(dst, ',')
		case '}':
			return append(dst, ']'), v, true
		default:
			return dst, v, false
		}
	}
	return dst, v, false
}

// appendElement appends one element and returns what follows it.
func (r *row) appendElement(dst []byte, t *typ, v []byte) (out, rest []byte, ok bool) {
	if v[0] == '"' {
		return r.appendPart(dst, t.element, v)
	}
	n := 0
	for n < len(v) && v[n] != t.delim && v[n] != '}' {
		n++
	}
	switch element := v[:n]; {
	case n == 0:
		return dst, v, false
	case string(element) == "NULL":
		dst = append(dst, "null"...)
	default:
		dst = r.appendText(dst, t.element, element)
	}
	return dst, v[n:], true
}

// appendComposite appends a composite like (1,"a ""b""",) as an object, its members in the order of declaration.
func (r *row) appendComposite(dst []byte, t *typ, v []byte) []byte {
	mark := len(dst)
	dst, ok := r.appendFields(dst, t, v)
	if !ok {
		return r.malformed(dst[:mark])
	}
	return dst
}

func (r *row) appendFields(dst []byte, t *typ, v []byte) (out []byte, ok bool) {
	if len(v) < 2 || v[0] != '(' || v[len(v)-1] != ')' {
		return dst, false
	}
	v = v[1:]
	dst = append(dst, '{')
	for i := range t.fields {
		if i > 0 {
			if v[0] != ',' {
				return dst, false
			}
			dst, v = append(dst, ','), v[1:]
		}
		dst = append(dst, t.fields[i].key...)
		if dst, v, ok = r.appendField(dst, t.fields[i].typ, v); !ok || len(v) == 0 {
			return dst, false
		}
	}
	return append(dst, '}'), string(v) == ")"
}

// appendField appends one attribute and returns what follows it. Nothing at all is null, an empty text has quotes.
func (r *row) appendField(dst []byte, t *typ, v []byte) (out, rest []byte, ok bool) {
	if len(v) > 0 && v[0] == '"' {
		return r.appendPart(dst, t, v)
	}
	n := bytes.IndexAny(v, ",)")
	switch {
	case n < 0:
		return dst, v, false
	case n == 0:
		dst = append(dst, "null"...)
	default:
		dst = r.appendText(dst, t, v[:n])
	}
	return dst, v[n:], true
}

// appendPart appends a quoted part of an array or composite. A quote within is doubled or behind a backslash, a
// backslash likewise.
func (r *row) appendPart(dst []byte, t *typ, v []byte) (out, rest []byte, ok bool) {
	v = v[1:]
	n := bytes.IndexAny(v, `"\`)
	if n < 0 {
		return dst, v, false
	}
	if v[n] == '"' && (n+1 == len(v) || v[n+1] != '"') { // nothing to unescape
		return r.appendText(dst, t, v[:n]), v[n+1:], true
	}
	mark := len(r.scratch)
	r.scratch = append(r.scratch, v[:n]...)
	for v = v[n:]; len(v) > 1; {
		if v[0] == '"' && v[1] != '"' {
			break
		}
		if v[0] == '"' || v[0] == '\\' {
			v = v[1:]
		}
		r.scratch = append(r.scratch, v[0])
		v = v[1:]
	}
	if len(v) == 0 || v[0] != '"' {
		r.scratch = r.scratch[:mark]
		return dst, v, false
	}
	dst = r.appendText(dst, t, r.scratch[mark:])
	r.scratch = r.scratch[:mark]
	return dst, v[1:], true
}

// parseTexts reads an array of texts that are not null, as the catalogue's queries return them.
func parseTexts(v []byte) []string {
	var out []string
	for len(v) > 1 {
		v = v[1:] // the brace, or the comma
		if len(v) > 0 && v[0] == '"' {
			text, rest := parseQuoted(v[1:])
			out, v = append(out, text), rest
			continue
		}
		n := bytes.IndexAny(v, ",}")
		if n <= 0 {
			break
		}
		out, v = append(out, string(v[:n])), v[n:]
	}
	return out
}

func parseQuoted(v []byte) (text string, rest []byte) {
	var out []byte
	for len(v) > 0 && v[0] != '"' {
		if v[0] == '\\' && len(v) > 1 {
			v = v[1:]
		}
		out, v = append(out, v[0]), v[1:]
	}
	return string(out), v[min(1, len(v)):]
}
