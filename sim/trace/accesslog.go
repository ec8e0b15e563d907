package trace

import (
	"errors"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
)

var (
	errClient  = errors.New(`access log: a line begins with client, ident and user: 192.0.2.1 - - [`)
	errBracket = errors.New("access log: the time stands in square brackets")
	errRequest = errors.New(`access log: the request is "METHOD PATH PROTOCOL", in double quotes`)
	errStatus  = errors.New("access log: a status and a size follow the request")
)

// parseAccessLine reads one line of the common or combined format. What follows the size
// (referrer, agent) may be there or not, and is not looked at.
//
// Lines with more than three words before the time are refused: some servers put the
// virtual host first, and it would pass for the tenant.
func parseAccessLine(line string) (Event, error) {
	before, rest, found := strings.Cut(line, " [")
	who := strings.Fields(before)
	if !found || len(who) != 3 {
		return Event{}, errClient
	}
	stamp, rest, found := strings.Cut(rest, `] "`)
	if !found {
		return Event{}, errBracket
	}
	at, err := parseAccessTime(stamp)
	if err != nil {
		return Event{}, err
	}
	request, rest, found := cutQuoted(rest)
	if !found {
		return Event{}, errRequest
	}
	target, ok := requestTarget(request)
	if !ok {
		return Event{}, errRequest
	}
	if !statusAndSize(rest) {
		return Event{}, errStatus
	}
	if err := quota.ValidateTenant(who[0]); err != nil {
		return Event{}, err
	}
	return Event{At: at, Tenant: who[0], Dimension: dimensionOfTarget(target), Cost: 1}, nil
}

// cutQuoted cuts after the next double quote that no backslash escapes.
func cutQuoted(s string) (quoted, rest string, found bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i], s[i+1:], true
		}
	}
	return "", "", false
}

// requestTarget returns the middle of "METHOD TARGET PROTOCOL". The protocol may be
// missing, as in HTTP/0.9; a method of other than capital letters is line noise.
func requestTarget(request string) (string, bool) {
	words := strings.Fields(request)
	if len(words) < 2 || len(words) > 3 {
		return "", false
	}
	notCapital := func(r rune) bool { return r < 'A' || r > 'Z' }
	return words[1], strings.IndexFunc(words[0], notCapital) < 0
}

func statusAndSize(s string) bool {
	words := strings.Fields(s)
	return len(words) >= 2 && len(words[0]) == 3 && isDigits(words[0]) && (words[1] == "-" || isDigits(words[1]))
}

func isDigits(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// dimensionOfTarget names the dimension of a request by the first segment of its path.
func dimensionOfTarget(target string) string {
	if _, after, found := strings.Cut(target, "://"); found && !strings.HasPrefix(target, "/") {
		_, path, _ := strings.Cut(after, "/") // absolute form, as proxies get it
		target = "/" + path
	}
	if end := strings.IndexAny(target, "?#"); end >= 0 {
		target = target[:end]
	}
	segment, _, _ := strings.Cut(strings.TrimLeft(target, "/"), "/")
	if segment == "" || segment == "*" {
		return RootDimension
	}
	return DimensionName(segment)
}
