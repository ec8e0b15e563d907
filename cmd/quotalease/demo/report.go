package demo

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Report is the demo's result.
type Report struct {
	Dimensions         []Dimension `json:"dimensions"`
	Decisions          int64       `json:"decisions"`
	Commits            int64       `json:"database_commits"`
	DecisionsPerCommit float64     `json:"decisions_per_commit"`
	Verify             Verify      `json:"ledger_verify"`
	Held               bool        `json:"bounds_held"`
	Agree              bool        `json:"ledger_and_callers_agree"`
	Broken             []string    `json:"broken"` // each promise that did not hold; empty when all did
	Seconds            float64     `json:"seconds"`
}

// OK reports that every bound held, ledger and callers agree, and the ledger adds up.
func (r *Report) OK() bool { return r.Held && r.Agree && r.Verify.Differences == 0 }

// Verify is what `ledger verify` found.
type Verify struct {
	Accounts    int      `json:"accounts"`
	Grants      int      `json:"grants"`
	Differences int      `json:"differences"`
	Found       []string `json:"found"`
}

// Dimension sums up one dimension over its tenants. Limit and Bound are one tenant's, the
// one that used most.
type Dimension struct {
	Name        string      `json:"dimension"`
	Kind        string      `json:"kind"`
	Class       string      `json:"class"`
	Rate        string      `json:"rate,omitempty"` // of a rate, whose limit is the burst
	Tenants     int         `json:"tenants"`
	Limit       quota.Units `json:"limit"`
	Cut         bool        `json:"limit_was_cut"`
	Used        quota.Units `json:"used"`           // as the callers counted it, all tenants
	MostUsed    quota.Units `json:"most_used"`      // by one tenant; of slots, at the same time
	Open        quota.Units `json:"used_in_outage"` // without a lease, by outage mode open
	Denied      int64       `json:"denied"`
	Unavailable int64       `json:"unavailable"`
	Confirmed   quota.Units `json:"confirmed"` // settled in the ledger
	Held        quota.Units `json:"held"`
	Uncertain   quota.Units `json:"uncertain"`
	Bound       quota.Units `json:"bound"` // most that the promise lets that tenant use
	Overshoot   quota.Units `json:"overshoot"`
	OverLimit   quota.Units `json:"over_limit"`
}

// promise is the most that one account's callers may have used: the largest limit it had,
// what its class adds, and use that policy allowed without a lease. Of a rate it is what may be
// used in the time that the demo ran, and of slots what may be in use at the same time.
func promise(a ledger.Account, ran time.Duration) quota.Units {
	if a.Kind == quota.RateLimit {
		return a.Limit.Units + refilled(a.Rate, ran) + a.Budget.Units + a.Unleased
	}
	most := a.Largest.Units
	switch a.Class {
	case quota.Bounded:
		most += a.Budget.Units
	case quota.BestEffort:
		// Unconfirmed units go back at once: no more than B at a time, and what late reports
		// settled above the limit was within it.
		most += a.Uncertain + a.Overshoot
	}
	return most + a.Unleased
}

// refilled is what a rate gives in a time, rounded up.
func refilled(r quota.Rate, ran time.Duration) quota.Units {
	if r.Per <= 0 {
		return 0
	}
	return (r.Units*quota.Units(ran) + quota.Units(r.Per) - 1) / quota.Units(r.Per)
}

// mostUsed is what a promise speaks of.
func (n Count) mostUsed(kind quota.Kind) quota.Units {
	if kind == quota.Concurrency {
		return n.Most
	}
	return n.Used
}

// compare holds the callers' counts against the ledger's accounts. ran is how long they were at it.
func compare(counts map[quota.Key]Count, accounts []ledger.Account, cut string, ran time.Duration) *Report {
	r := &Report{Held: true, Agree: true, Broken: []string{}, Verify: Verify{Found: []string{}}}
	byKey := map[quota.Key]ledger.Account{}
	rows := map[string]*Dimension{}
	row := func(name string) *Dimension {
		d, ok := rows[name]
		if !ok {
			d = &Dimension{Name: name, Cut: name == cut}
			rows[name] = d
		}
		return d
	}
	for _, a := range accounts {
		byKey[a.ID.Key] = a
		d := row(a.ID.Key.Dimension)
		d.Kind, d.Class = a.Kind.String(), a.Class.String()
		if a.Kind == quota.RateLimit {
			d.Rate = policy.Terms{Rate: a.Rate}.RateText()
		}
		d.Tenants++
		d.Confirmed += a.Settled()
		d.Held += a.Held
		d.Uncertain += a.Uncertain
		d.Overshoot = max(d.Overshoot, a.Overshoot)
		d.OverLimit = max(d.OverLimit, a.OverLimit())
		if d.Tenants == 1 {
			d.Limit, d.Bound = a.Limit.Units, promise(a, ran)
		}
	}
	for key, n := range counts {
		d := row(key.Dimension)
		a := byKey[key]
		d.Used += n.Used
		d.Open += n.Open
		d.Denied += n.Denied
		d.Unavailable += n.Unavailable
		if used := n.mostUsed(a.Kind); used > d.MostUsed {
			d.MostUsed, d.Limit, d.Bound = used, a.Limit.Units, promise(a, ran)
		}
		r.Decisions += n.Allowed + n.Denied + n.Unavailable
		r.check(key, n, a, ran)
	}
	for _, d := range rows {
		r.Dimensions = append(r.Dimensions, *d)
	}
	slices.SortFunc(r.Dimensions, func(x, y Dimension) int { return cmp.Compare(x.Name, y.Name) })
	return r
}

// fill takes class and limit of dimensions that no lease was ever granted in from the policy.
func (r *Report) fill(text []byte) error {
	doc, err := policy.Parse([]policy.File{{Name: "demo.yaml", Text: text}}, time.Time{})
	if err != nil {
		return err
	}
	known := doc.Snapshot(0)
	for i := range r.Dimensions {
		d := &r.Dimensions[i]
		if terms, ok := known.Dimension(d.Name); ok && d.Class == "" {
			d.Kind, d.Class = terms.Kind.String(), terms.Class.String()
			d.Limit, d.Bound = terms.Limit.Units, terms.Limit.Units
		}
	}
	return nil
}

// check holds one key against its promises: the bound, and that ledger and callers agree as
// far as the class and the crash allow.
func (r *Report) check(key quota.Key, n Count, a ledger.Account, ran time.Duration) {
	broken := func(ok *bool, format string, args ...any) {
		*ok = false
		r.Broken = append(r.Broken, fmt.Sprintf("%s: ", key)+fmt.Sprintf(format, args...))
	}
	if used, most := n.mostUsed(a.Kind), promise(a, ran); used > most {
		broken(&r.Held, "callers used %d, the bound is %d", used, most)
	}
	if a.Outstanding != 0 {
		broken(&r.Agree, "%d units are still out after every lease ended", a.Outstanding)
	}
	if a.Kind == quota.Concurrency { // what ran and is over is nowhere any more
		if a.Settled() != 0 {
			broken(&r.Agree, "%d slots are still in use after every job ended", a.Settled())
		}
		return
	}
	if a.Class == quota.Exact || a.Class == quota.Hard {
		if over := a.Overshoot; over > a.Unleased {
			broken(&r.Held, "realised overshoot %d of a class that has none", over)
		}
	}
	if covered := a.Bound(); n.Used > covered {
		broken(&r.Agree, "callers used %d, the ledger accounts for %d", n.Used, covered)
	}
	if a.Settled() > n.Used+n.Unknown {
		broken(&r.Agree, "the ledger confirmed %d, callers used %d and do not know of %d", a.Settled(), n.Used, n.Unknown)
	}
	if unconfirmed := n.Used - a.Settled(); unconfirmed > a.Held+a.Uncertain {
		broken(&r.Agree, "%d used units are unconfirmed, only %d held or uncertain", unconfirmed, a.Held+a.Uncertain)
	}
}
