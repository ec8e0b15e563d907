package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quotalease/quotalease/ledger/quota"
	"go.yaml.in/yaml/v3"
)

const (
	limitAllowed = "a whole number of 0 or more, or the word unlimited"
	wordNoLimit  = "unlimited"
	wordAuto     = "auto"
	notExact     = "only with class hard, bounded or best_effort"
	maxInt64Text = "9223372036854775807"
)

// word reads one of a few words.
func (v value) word(words ...string) (string, bool) {
	allowed := orList(words)
	s, tag, ok := v.scalar(allowed)
	if !ok {
		return "", false
	}
	if tag != "!!str" || !slices.Contains(words, s) {
		v.refuse(fmt.Sprintf("%q is not known", shorten(s)), allowed)
		return "", false
	}
	return s, true
}

// orList joins words as people do: a, b or c.
func orList(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// is reports whether the value is a certain word. What else it may be wrong with is left to
// the reading that follows.
func (v value) is(word string) bool {
	return v.node.Kind == yaml.ScalarNode && v.node.Anchor == "" && v.node.Style&yaml.TaggedStyle == 0 && v.node.Value == word
}

// text reads words for people, at most limit bytes of them.
func (v value) text(limit int) (string, bool) {
	allowed := fmt.Sprintf("text of 1 to %d bytes without control characters", limit)
	s, tag, ok := v.scalar(allowed)
	if !ok {
		return "", false
	}
	if tag != "!!str" {
		v.refuse(v.describe(), allowed+" (quote it)")
		return "", false
	}
	if err := validText(s, limit); err != "" {
		v.refuse(err, allowed)
		return "", false
	}
	return s, true
}

// validText returns what is wrong with words for people, or nothing. Line breaks and tabs
// are part of long texts.
func validText(s string, limit int) string {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	switch {
	case strings.TrimSpace(s) == "":
		return "is empty"
	case len(s) > limit:
		return fmt.Sprintf("is %d bytes long", len(s))
	case !utf8.ValidString(s) || strings.ContainsFunc(s, control):
		return "holds control characters"
	}
	return ""
}

// name reads a name that a quota rule accepts.
func (v value) name(validate func(string) error) (string, bool) {
	s, tag, ok := v.scalar("a name")
	if !ok {
		return "", false
	}
	err := validate(s)
	var field *quota.FieldError
	switch {
	case errors.As(err, &field):
		v.refuse(fmt.Sprintf("%q is not a name", shorten(s)), field.Allowed)
	case tag != "!!str":
		v.refuse(v.describe(), "a name (quote it)")
	default:
		return s, true
	}
	return "", false
}

// whole reads a plain decimal number from least to the largest that an int64 holds.
func (v value) whole(least quota.Units, allowed string) (quota.Units, bool) {
	s, tag, ok := v.scalar(allowed)
	if !ok {
		return 0, false
	}
	digits := strings.TrimPrefix(s, "-")
	number := tag == "!!int" || tag == "!!float"
	// To YAML, digits that no float can hold are a word.
	if !isDigits(digits) || (!number && v.node.Style != 0) {
		problem := v.describe()
		if number {
			problem = shorten(s) + " is not a plain whole number"
		}
		v.refuse(problem, allowed)
		return 0, false
	}
	n, ok := v.digits(s, allowed)
	if ok && n < least {
		v.refuse(s+" is too small", allowed)
		return 0, false
	}
	return n, ok
}

// digits reads decimal digits, maybe behind a minus, as an amount of 0 or more.
func (v value) digits(s, allowed string) (quota.Units, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	digits := strings.TrimPrefix(s, "-")
	switch {
	case err != nil:
		v.refuse(shorten(s)+" leaves the int64 range", allowed+", up to "+maxInt64Text)
	case digits != "0" && digits[0] == '0':
		v.refuse(shorten(s)+" begins with a 0 and could be read as octal", allowed)
	case n < 0:
		v.refuse(s+" is below zero", allowed)
	default:
		return quota.Units(n), true
	}
	return 0, false
}

// limit reads a contractual amount.
func (v value) limit() (quota.Limit, bool) {
	if v.is(wordNoLimit) {
		return quota.NoLimit, true
	}
	n, ok := v.whole(0, limitAllowed)
	return quota.LimitOf(n), ok
}

// percent reads a share.
func (v value) percent() (Percent, bool) {
	s, tag, ok := v.scalar(PercentAllowed)
	if !ok {
		return 0, false
	}
	p, ok := parsePercent(s)
	if !ok {
		problem := fmt.Sprintf("%q is not a percentage", shorten(s))
		if tag != "!!str" {
			problem = v.describe()
		}
		v.refuse(problem, PercentAllowed)
	}
	return p, ok
}

// overshoot reads a budget: a share or an amount.
func (v value) overshoot() (Overshoot, bool) {
	allowed := PercentAllowed + ", or a whole number of units from 0 to the limit"
	s, tag, ok := v.scalar(allowed)
	if !ok {
		return Overshoot{}, false
	}
	if tag != "!!str" {
		n, ok := v.whole(0, allowed)
		return Overshoot{Absolute: true, Units: n}, ok
	}
	p, ok := parsePercent(s)
	if !ok {
		v.refuse(fmt.Sprintf("%q is neither", shorten(s)), allowed)
	}
	return Overshoot{Share: p}, ok
}

// span is a range of durations, both ends included, and how to say so.
type span struct {
	least, most time.Duration
	allowed     string
}

func spanOf(least, most time.Duration, why string) span {
	allowed := fmt.Sprintf("a duration such as 30s, from %s to %s", short(least), short(most))
	if why != "" {
		allowed += " (" + why + ")"
	}
	return span{least: least, most: most, allowed: allowed}
}

// duration reads a Go duration within a span.
func (v value) duration(in span) (time.Duration, bool) {
	s, tag, ok := v.scalar(in.allowed)
	if !ok {
		return 0, false
	}
	if tag != "!!str" && s != "0" {
		v.refuse(v.describe()+" without a unit", in.allowed)
		return 0, false
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		v.refuse(fmt.Sprintf("%q is not a duration, or more than one holds", shorten(s)), in.allowed)
	case d < in.least:
		v.refuse(shorten(s)+" is too short", in.allowed)
	case d > in.most:
		v.refuse(shorten(s)+" is too long", in.allowed)
	default:
		return d, true
	}
	return 0, false
}

// short writes a duration without the zero parts that Go appends.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func formatUnits(n quota.Units) string { return strconv.FormatInt(int64(n), 10) }

func formatLimit(l quota.Limit) string {
	if l.Unlimited {
		return wordNoLimit
	}
	return formatUnits(l.Units)
}
