package scenario

import (
	"time"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
)

// account is what callers were really allowed of one key, counted where they are answered and
// by true time: it knows nothing of leases, and its judgement of a limit is independent of the
// ledger's.
type account struct {
	run      *run
	key      quota.Key
	kind     quota.Kind
	class    quota.Class
	calendar quota.Calendar
	limit    int64 // by the policy in force; -1: unlimited
	credit   int64 // of the present window
	freed    int64 // of its held units, which may have been used
	budget   int64
	bound    int64   // what a window may end with; -1: unlimited
	rate     float64 // a second, of a rate key
	debt     float64 // of a rate key: what was used and has not come back
	debtAt   time.Duration
	running  int64   // slots in use
	region   []int64 // used in the present window, by region; of slots: in use

	window *Window // the present one
	before *Window
	ends   time.Duration
	all    []*Window

	// What the ledger has committed, as far as leases go.
	headroom    int64
	outstanding int64
	held        int64
	headroomIn  time.Time // window that headroom is of
	overshoot   int64     // as the ledger recorded it
}

func newAccount(r *run, key quota.Key) *account {
	a := &account{run: r, key: key, region: make([]int64, len(r.Regions))}
	a.retake(r.snap)
	a.roll()
	return a
}

// retake reads the limit in force. It reports that the limit grew.
func (a *account) retake(s *policy.Snapshot) bool {
	at := a.run.Start.Add(a.run.now)
	dim, ok := s.Dimension(a.key.Dimension)
	if !ok {
		a.limit, a.bound = 0, 0
		return false
	}
	terms, _, err := s.Resolve(a.key, dim.Moment(at))
	if err != nil {
		a.limit, a.bound = 0, 0
		return false
	}
	was := a.limit
	a.kind, a.class, a.calendar = dim.Kind, terms.Class, dim.Period
	a.limit, a.budget = number(terms.Limit), number(terms.Budget)
	a.rate = perSecond(terms.Rate)
	if of, err := controlplane.TermsOf(s, dim, a.key.Tenant, at); err == nil {
		a.bound = controlplane.ComputeBound(of).GetMost()
	}
	if w := a.window; w != nil {
		a.raise(w)
	}
	return was >= 0 && (a.limit < 0 || a.limit > was)
}

// inForce is the limit of the present window; -1: unlimited.
func (a *account) inForce() int64 {
	if a.limit < 0 {
		return a.limit
	}
	return a.limit + a.credit
}

// raise lets the present window's largest limit and bound grow with what is in force.
func (a *account) raise(w *Window) {
	w.Limit = most(w.Limit, a.inForce())
	if a.bound < 0 {
		w.Bound = -1
	} else {
		w.Bound = most(w.Bound, a.bound+a.credit+a.freed)
	}
}

func number(l quota.Limit) int64 {
	if l.Unlimited {
		return -1
	}
	return int64(l.Units)
}

// most is the larger limit, where -1 is none.
func most(x, y int64) int64 {
	if x < 0 || y < 0 {
		return -1
	}
	return max(x, y)
}

func perSecond(r quota.Rate) float64 {
	if r.Per <= 0 {
		return 0
	}
	return float64(r.Units) / r.Per.Seconds()
}

// roll begins a window if the present one is over.
func (a *account) roll() {
	for a.window == nil || a.run.now >= a.ends {
		start := a.ends
		length := a.run.meterStep()
		if a.kind == quota.Period {
			w := a.calendar.WindowAt(a.run.Start.Add(start))
			start, length = max(w.Start.Sub(a.run.Start), 0), w.End.Sub(w.Start)
			a.ends = w.End.Sub(a.run.Start)
		} else {
			a.ends = start + length
		}
		a.before = a.window
		a.window = &Window{Key: a.key.String(), Start: millis(start), Limit: a.limit, Bound: a.bound, Denied: map[quota.Reason]int64{}}
		a.window.whole = a.ends <= a.run.Duration && a.ends-start >= length
		if a.kind == quota.RateLimit && a.limit >= 0 {
			a.window.Limit = int64(a.rate * length.Seconds())
			a.window.Bound = a.window.Limit + a.limit + a.budget
		}
		a.credit, a.freed = 0, 0
		a.all = append(a.all, a.window)
		if a.kind == quota.Concurrency {
			a.window.Used, a.window.whole = a.running, false // most at one time, and no demand says what would be all
			continue
		}
		clear(a.region)
	}
}

// use counts what a caller was allowed, at the moment at which it was spent.
func (a *account) use(at time.Duration, cost int64, region int) {
	w := a.window
	if at < a.run.startOf(w) && a.before != nil {
		w = a.before
	} else {
		a.region[region] += cost
	}
	if a.kind == quota.Concurrency {
		a.running += cost
		w.Used = max(w.Used, a.running)
	} else {
		w.Used += cost
	}
	switch {
	case a.limit < 0:
	case a.kind == quota.RateLimit:
		if at > a.debtAt {
			a.debt, a.debtAt = max(0, a.debt-a.rate*(at-a.debtAt).Seconds()), at
		}
		a.debt += float64(cost)
		w.Overshoot = max(w.Overshoot, int64(a.debt-float64(a.limit+a.budget)+0.999))
	case a.kind == quota.Concurrency:
		w.Overshoot = max(w.Overshoot, a.running-w.Limit)
	case a.kind == quota.Period:
		w.Overshoot = max(w.Overshoot, w.Used-w.Limit)
	}
}

// ended is the end of work that held slots.
func (a *account) ended(slots int64, region int) {
	a.roll()
	a.running -= slots
	a.region[region] -= slots
}

// inUse is what counts against the limit now.
func (a *account) inUse() int64 {
	if a.kind == quota.Concurrency {
		return a.running
	}
	return a.window.Used
}

func (r *run) startOf(w *Window) time.Duration { return time.Duration(float64(w.Start) * 1e6) }
