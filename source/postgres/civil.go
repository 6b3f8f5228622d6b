package postgres

import (
	"encoding/binary"
	"math"
)

// Binary dates count days, binary timestamps microseconds, from 2000-01-01. The extremes stand for infinity.
const (
	microsPerSecond = 1_000_000
	microsPerDay    = 24 * 60 * 60 * microsPerSecond

	// Days from 0000-03-01, from which the calendar repeats in a regular way, to 2000-01-01.
	daysToEpoch = 730425
	daysPerEra  = 146097 // 400 years
)

func appendDate(dst, v []byte) []byte {
	days := int32(binary.BigEndian.Uint32(v)) // #nosec G115 -- the wire's sign
	switch days {
	case math.MaxInt32:
		return append(dst, `"infinity"`...)
	case math.MinInt32:
		return append(dst, `"-infinity"`...)
	}
	dst, bc := appendDay(append(dst, '"'), int64(days))
	return closeDate(dst, bc)
}

func appendTimestamp(dst, v []byte, zone string) []byte {
	micros := int64(binary.BigEndian.Uint64(v)) // #nosec G115 -- the wire's sign
	switch micros {
	case math.MaxInt64:
		return append(dst, `"infinity"`...)
	case math.MinInt64:
		return append(dst, `"-infinity"`...)
	}
	days, clock := micros/microsPerDay, micros%microsPerDay
	if clock < 0 {
		days, clock = days-1, clock+microsPerDay
	}
	dst, bc := appendDay(append(dst, '"'), days)
	dst = appendClock(append(dst, 'T'), clock)
	return closeDate(append(dst, zone...), bc)
}

func closeDate(dst []byte, bc bool) []byte {
	if bc {
		dst = append(dst, " BC"...)
	}
	return append(dst, '"')
}

// appendDay appends the day as PostgreSQL does and tells whether the year is one before Christ.
func appendDay(dst []byte, days int64) (out []byte, bc bool) {
	year, month, day := civil(days)
	if bc = year <= 0; bc {
		year = 1 - year
	}
	dst = appendYear(dst, year)
	dst = appendTwo(append(dst, '-'), month)
	return appendTwo(append(dst, '-'), day), bc
}

// appendYear appends a year with at least four digits.
func appendYear(dst []byte, year int64) []byte {
	const fourDigits = 10_000
	if year >= fourDigits {
		dst = appendYearAbove(dst, year/fourDigits)
		year %= fourDigits
	}
	return appendTwo(appendTwo(dst, year/100), year%100)
}

const decimals = "0123456789"

// appendTwo appends a number below a hundred as two digits.
func appendTwo(dst []byte, n int64) []byte {
	return append(dst, decimals[n/10], decimals[n%10])
}

func appendYearAbove(dst []byte, n int64) []byte {
	if n >= 10 {
		dst = appendYearAbove(dst, n/10)
	}
	return append(dst, decimals[n%10])
}

// civil turns days from 2000-01-01 into a date of the proleptic Gregorian calendar; year 0 is 1 BC. Years are counted
// from March, so that the leap day is the last one.
func civil(days int64) (year, month, day int64) {
	days += daysToEpoch
	era := days / daysPerEra
	if days < 0 {
		era = (days - daysPerEra + 1) / daysPerEra
	}
	ofEra := days - era*daysPerEra
	yearOfEra := (ofEra - ofEra/1460 + ofEra/36524 - ofEra/146096) / 365
	ofYear := ofEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	fromMarch := (5*ofYear + 2) / 153
	day = ofYear - (153*fromMarch+2)/5 + 1
	year, month = yearOfEra+era*400, fromMarch+3
	if month > 12 {
		year, month = year+1, month-12
	}
	return year, month, day
}

// appendClock appends HH:MM:SS and as much of a fraction as there is.
func appendClock(dst []byte, micros int64) []byte {
	seconds, fraction := micros/microsPerSecond, micros%microsPerSecond
	dst = appendTwo(dst, seconds/3600)
	dst = appendTwo(append(dst, ':'), seconds/60%60)
	dst = appendTwo(append(dst, ':'), seconds%60)
	if fraction == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := int64(microsPerSecond / 10); fraction > 0; unit /= 10 {
		dst = append(dst, decimals[fraction/unit])
		fraction %= unit
	}
	return dst
}
