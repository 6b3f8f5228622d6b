package oracle

import (
	"fmt"
	"strconv"
	"strings"
)

// appendInterval appends the ISO 8601 duration of what the server writes, ±days h:m:s.f or ±years-months, each part with
// the sign and without those that are zero. It reports whether text is that.
func appendInterval(dst []byte, text string, k kind) ([]byte, bool) {
	text = strings.TrimSpace(text)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign = "-"
	}
	text = strings.TrimLeft(text, "+-")
	var parts []string
	units := "YM"
	if k == kindMonths {
		parts = strings.Split(text, "-")
	} else {
		days, clock, _ := strings.Cut(text, " ")
		parts = append([]string{days}, strings.Split(clock, ":")...)
		units = "DHMS"
	}
	if len(parts) != len(units) {
		return dst, false
	}
	dst = append(dst, 'P')
	some, clock := false, false
	for i, part := range parts {
		whole, fraction, ok := intervalPart(part, i == 3)
		if !ok {
			return dst, false
		}
		if whole == "" && fraction == "" {
			continue
		}
		if i > 0 && k == kindSeconds && !clock {
			dst, clock = append(dst, 'T'), true
		}
		if whole == "" {
			whole = "0"
		}
		dst, some = append(append(dst, sign...), whole...), true
		if fraction != "" {
			dst = append(append(dst, '.'), fraction...)
		}
		dst = append(dst, units[i])
	}
	if !some {
		dst = append(dst, "T0S"...)
	}
	return dst, true
}

// intervalPart reads one number, of which only seconds have a fraction, without zeros that mean nothing.
func intervalPart(part string, seconds bool) (whole, fraction string, ok bool) {
	whole, fraction, _ = strings.Cut(part, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" || fraction != "" && !seconds {
		return "", "", false
	}
	return strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0"), true
}

// intervalOf writes an ISO 8601 duration as the server reads intervals of the kind. It reports whether it is one: years
// and months, or days and less, all with one sign, and the parts behind the first below their limits.
func intervalOf(iso string, k kind) (string, bool) {
	sign, rest := int64(1), strings.TrimLeft(iso, "+")
	if strings.HasPrefix(rest, "-") {
		sign, rest = -1, rest[1:]
	}
	amounts := make(map[string]int64) // in billionths
	prefix := ""
	for rest = strings.TrimPrefix(rest, "P"); rest != ""; {
		if rest[0] == 'T' {
			prefix, rest = "T", rest[1:]
			continue
		}
		end := strings.IndexAny(rest, "YMWDHS")
		if end < 0 {
			return "", false
		}
		n, ok := billionths(rest[:end])
		if !ok {
			return "", false
		}
		amounts[prefix+rest[end:end+1]], rest = sign*n, rest[end+1:]
	}
	if k == kindMonths {
		return yearsOf(amounts)
	}
	return daysOf(amounts)
}

const billion = 1_000_000_000

// billionths reads a number with a sign, up to nine digits and as many behind the point.
func billionths(text string) (int64, bool) {
	sign := int64(1)
	if strings.HasPrefix(text, "-") {
		sign = -1
	}
	whole, fraction, _ := strings.Cut(strings.ReplaceAll(strings.TrimLeft(text, "+-"), ",", "."), ".")
	if len(whole) > 9 || len(fraction) > 9 {
		return 0, false
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", 9-len(fraction)), 10, 64)
	return sign * n, err == nil
}

func yearsOf(amounts map[string]int64) (string, bool) {
	years, months := amounts["Y"], amounts["M"]
	total := years/billion*12 + months/billion
	for unit := range amounts {
		if unit != "Y" && unit != "M" {
			return "", false
		}
	}
	if years%billion != 0 || months%billion != 0 {
		return "", false
	}
	sign := signOf(&total)
	return fmt.Sprintf("%s%d-%02d", sign, total/12, total%12), total/12 <= 999_999_999
}

func daysOf(amounts map[string]int64) (string, bool) {
	const hour, day = 60 * 60, 24 * 60 * 60
	var seconds, nanos int64 // of which neither overflows: nine digits of days are less than 2^47 seconds
	for unit, n := range amounts {
		size, ok := map[string]int64{"W": 7 * day, "D": day, "TH": hour, "TM": 60, "TS": 1}[unit]
		if !ok || size > 1 && n%billion != 0 {
			return "", false
		}
		seconds += n / billion * size
		nanos += n % billion
	}
	seconds, nanos = seconds+nanos/billion, nanos%billion
	switch {
	case seconds > 0 && nanos < 0:
		seconds, nanos = seconds-1, nanos+billion
	case seconds < 0 && nanos > 0:
		seconds, nanos = seconds+1, nanos-billion
	}
	sign := "+"
	if seconds < 0 || nanos < 0 {
		sign, seconds, nanos = "-", -seconds, -nanos
	}
	return fmt.Sprintf("%s%d %02d:%02d:%02d.%09d", sign, seconds/day, seconds/hour%24, seconds/60%60, seconds%60, nanos), seconds/day <= 999_999_999
}

// signOf makes n positive and tells what it was.
func signOf(n *int64) string {
	if *n < 0 {
		*n = -*n
		return "-"
	}
	return "+"
}
