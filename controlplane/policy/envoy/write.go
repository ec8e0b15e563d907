package envoy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// writer writes a policy document, line by line.
type writer struct {
	strings.Builder
	opt Options
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

func (w *writer) document(rules []rule) {
	w.line("# Carried over from Envoy rate-limit rules. Behind # is where each one comes from.")
	w.line("dimensions:")
	for _, r := range rules {
		if r.dimension != "" && r.address == "" {
			w.dimension(r)
		}
	}
	w.locals(rules)
	if len(rules) == 0 {
		return
	}
	w.line("")
	w.line("descriptors:")
	for _, r := range rules {
		w.descriptor(r)
	}
}

func (w *writer) dimension(r rule) {
	w.line("  - name: %s # %s", scalar(r.dimension), comment(r.from))
	if r.limit.times > 1 {
		w.line("    kind: rate")
		w.line("    limit: %d/%s", r.limit.requests, duration(r.limit.window()))
	} else {
		w.line("    kind: period")
		w.line("    limit: %d", r.limit.requests)
		if r.limit.unit == "week" {
			w.line("    period: {every: week, anchor: {day: 4}} # 1970-01-01, from which the original counts, was a Thursday")
		} else {
			w.line("    period: {every: %s}", r.limit.unit)
		}
	}
	w.line("    class: %s", w.opt.Class)
	if w.opt.Overshoot != "" {
		w.line("    overshoot: %s", w.opt.Overshoot)
	}
}

// locals writes the local limits. Their windows are as long as the original's, and as there
// nothing is used when they begin.
func (w *writer) locals(rules []rule) {
	begun := false
	for _, r := range rules {
		if r.address == "" {
			continue
		}
		if !begun {
			w.line("")
			w.line("local:")
			begun = true
		}
		key := "address"
		if r.apart {
			key = "tenant, address"
		}
		per, ok := map[string]string{"second": "s", "minute": "m", "hour": "h", "day": "d"}[r.limit.unit]
		if !ok || r.limit.times > 1 {
			per = duration(r.limit.window())
		}
		w.line("  - name: %s # %s", scalar(r.dimension), comment(r.from))
		w.line("    algorithm: fixed_window")
		w.line("    limit: %d/%s", r.limit.requests, per)
		w.line("    key: [%s]", key)
		w.line("    start: full")
	}
}

func (w *writer) descriptor(r rule) {
	w.line("  - domain: %s # %s", scalar(r.domain), comment(r.from))
	var levels []string
	for _, e := range r.match {
		levels = append(levels, e.String())
	}
	w.line("    match: [%s]", strings.Join(levels, ", "))
	switch {
	case r.dimension == "":
		w.line("    unlimited: true")
	case r.address != "":
		w.line("    local: %s", scalar(r.dimension))
		w.line("    caller: {address: %s}", scalar(r.address))
	default:
		w.line("    dimension: %s", scalar(r.dimension))
	}
	if r.tenant != nil {
		w.line("    tenant: %s", list(r.tenant))
	}
	if r.shadow && r.dimension != "" {
		w.line("    shadow: true")
	}
	if r.limit == nil {
		return
	}
	if r.limit.alias != "" {
		w.line("    name: %s", scalar(r.limit.alias))
	}
	if len(r.limit.replaces) > 0 {
		w.line("    replaces: %s", list(r.limit.replaces))
	}
}

// String writes a level as the policy does.
func (e entry) String() string {
	switch e.match {
	case exact:
		return fmt.Sprintf("{key: %s, value: %s}", scalar(e.key), scalar(e.value))
	case prefix:
		return fmt.Sprintf("{key: %s, value: %s}", scalar(e.key), scalar(e.value+"*"))
	}
	return fmt.Sprintf("{key: %s}", scalar(e.key))
}

func list(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = scalar(word)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// duration writes the time of a rate without parts that are zero.
func duration(d time.Duration) string {
	if d%time.Hour == 0 {
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

// bare is what YAML reads as text without quotes, wherever it stands.
var bare = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./-]*\*?$`)

// scalar writes text so that YAML, whichever version, reads the same text. What Go writes
// between quotes YAML reads alike, for text without broken characters.
func scalar(s string) string {
	word := slices.ContainsFunc([]string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}, func(w string) bool { return strings.EqualFold(w, s) })
	if bare.MatchString(s) && !word {
		return s
	}
	return strconv.Quote(s)
}

// comment writes text as the end of a line.
func comment(s string) string {
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}
