package trace

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

const accessLayout = "02/Jan/2006:15:04:05 -0700"

// layouts of CSV timestamps. A fraction of a second of any length may follow the seconds
// in each of them, and a time without a zone is UTC.
var layouts = []string{time.RFC3339, time.DateTime, "2006-01-02 15:04:05Z07:00"}

// Years outside these are typing errors or other units; inside, the distance between any
// two times is a duration.
const firstYear, lastYear = 1970, 2261

// milliseconds begin here: as seconds it would be the year 5138, as milliseconds it is 1973.
const leastMillis = 100_000_000_000

func parseAccessTime(s string) (time.Time, error) {
	at, err := time.Parse(accessLayout, s)
	if err != nil {
		return time.Time{}, &quota.FieldError{Field: "time", Allowed: "written like 17/May/2015:10:05:03 +0000"}
	}
	return inRange("time", at)
}

func parseTimestamp(s string) (time.Time, error) {
	const field = "timestamp"
	if isDigits(s) {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= leastMillis {
			return inRange(field, time.UnixMilli(n))
		} else if err == nil {
			return inRange(field, time.Unix(n, 0))
		}
	}
	for _, layout := range layouts {
		if at, err := time.Parse(layout, s); err == nil {
			return inRange(field, at)
		}
	}
	allowed := []string{"RFC 3339", "2023-11-16 18:15:46.68 (UTC)", "unix seconds", "unix milliseconds"}
	return time.Time{}, &quota.FieldError{Field: field, Allowed: strings.Join(allowed, ", ")}
}

func inRange(field string, at time.Time) (time.Time, error) {
	at = quota.At(at)
	if year := at.Year(); year < firstYear || year > lastYear {
		return time.Time{}, &quota.FieldError{Field: field, Allowed: fmt.Sprintf("in the years %d to %d", firstYear, lastYear)}
	}
	return at, nil
}
