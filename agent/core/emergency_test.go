package core

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const extendPolicy = `
dimensions:
  - name: report_export
    kind: period
    limit: 30
    period: {every: minute}
    class: hard
    overshoot: 100%
    lease: {ttl: 4s, grace: 1s, max: 5}
    outage: {mode: extend, after: 2s, rate: 10/s, budget: 12}
`

// outageOf cuts an agent's callers off and lets them go on for d, ten a second each, and
// returns how many passed, by reason.
func (r *real) outageOf(d time.Duration, agents ...*realAgent) map[quota.Reason]int64 {
	r.t.Helper()
	passed := map[quota.Reason]int64{}
	r.down = true
	for end := r.now + d; r.now < end; {
		for _, a := range agents {
			switch o := a.take("report_export", 1); {
			case o.Allowed:
				passed[o.Reason]++
			case o.Denied && o.Reason != quota.LeasedOut:
				r.t.Errorf("an outage is answered as %v", o)
			}
		}
		r.run(100 * time.Millisecond)
	}
	r.down = false
	return passed
}

func TestO5TwoAgentsGoOnWithinTheirAllowances(t *testing.T) {
	t.Parallel()
	r := newReal(t, extendPolicy)
	a, b := r.agent(), r.agent()
	for range 6 { // both are in use, so N is 2, and the next window's allowances are shared
		a.take("report_export", 1)
		b.take("report_export", 1)
		r.run(time.Second)
	}
	before := r.account("report_export")
	leased := int64(before.Outstanding)
	if before.Emergency != 12 && before.Emergency != 6 {
		t.Fatalf("the pot is for emergencies: %+v", before.Tally)
	}
	passed := r.outageOf(20*time.Second, a, b)
	if passed[quota.Extended] == 0 || passed[quota.Extended] > 12 || passed[quota.Allowed] > leased {
		t.Errorf("passed %v: at most %d leased and 12 from the pot", passed, leased)
	}
	r.run(5 * time.Second)
	acc := r.account("report_export")
	if got := int64(acc.Extended); got != passed[quota.Extended] || got != a.Stats(a.clock()).Extended["report_export"]+b.Stats(b.clock()).Extended["report_export"] {
		t.Errorf("the ledger knows of %d from the pot, callers were allowed %v", got, passed)
	}
	r.balanced()
}

func TestAnAllowanceIsSpentAtTheAgentsShareOfTheRate(t *testing.T) {
	t.Parallel()
	text := `
dimensions:
  - name: report_export
    kind: period
    limit: 1000
    period: {every: hour}
    class: hard
    lease: {ttl: 4s, max: 5}
    outage: {mode: extend, after: 2s, rate: 2/s, budget: 500}
`
	r := newReal(t, text)
	a := r.agent()
	a.take("report_export", 1)
	r.run(time.Second)
	passed := r.outageOf(32*time.Second, a)
	// After 2 s it goes on for 30 s at 2 a second, and a second's worth at once.
	if got := passed[quota.Extended]; got < 50 || got > 64 {
		t.Errorf("%d passed in 30 s at 2 a second", got)
	}
	if o := a.take("report_export", 400); o.Allowed && o.Reason == quota.Extended {
		t.Error("there is contact again")
	}
}

func TestO7TheNextWindowHasAnAllowanceOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newReal(t, extendPolicy)
	a := r.agent()
	r.run(50 * time.Second)
	for range 5 {
		a.take("report_export", 1)
		r.run(time.Second)
	}
	passed := r.outageOf(40*time.Second, a) // 5 s in this window, 35 s in the next
	if passed[quota.Extended] < 13 || passed[quota.Extended] > 24 {
		t.Errorf("%v passed, of two windows' pots of 12", passed)
	}
	r.run(10 * time.Second)
	found, err := r.store.Accounts(t.Context(), accountsOf("report_export"))
	r.must(err)
	var sum int64
	for _, acc := range found {
		if acc.Extended > 12 || acc.Emergency > 12 {
			t.Errorf("%s: %+v, the pot is 12", acc.ID, acc.Tally)
		}
		sum += int64(acc.Extended)
	}
	if sum != passed[quota.Extended] {
		t.Errorf("the ledger knows of %d, callers were allowed %v", sum, passed)
	}
	r.balanced()
}

func TestWhatIsUnspentOfAnAllowanceGoesBack(t *testing.T) {
	t.Parallel()
	r := newReal(t, extendPolicy)
	a := r.agent()
	a.take("report_export", 1)
	r.run(time.Second)
	r.outageOf(4*time.Second, a)
	r.run(time.Second)
	a.Stop(a.clock())
	r.until("everything is reported", func() bool { return !a.Owes() })
	for _, acc := range must(r.store.Accounts(t.Context(), accountsOf("report_export"))) {
		if acc.Emergency != acc.Extended {
			t.Errorf("%s: %d of the pot are charged, %d were used", acc.ID, acc.Emergency, acc.Extended)
		}
	}
	b := r.agent()
	r.down = true
	r.run(time.Second)
	if o := b.take("report_export", 1); !o.Unavailable {
		t.Errorf("a restarted agent has no allowance: %+v", o)
	}
}

func TestACopyCannotDoubleAnAllowance(t *testing.T) {
	t.Parallel()
	r := newReal(t, extendPolicy)
	a := r.agent()
	a.take("report_export", 1)
	r.run(3 * time.Second)
	passed := r.outageOf(6*time.Second, a)
	if passed[quota.Extended] == 0 {
		t.Fatal("it went on:", passed)
	}
	a.reincarnate(a.clock())
	a.listen()
	if k := a.Table.Find(exports); len(k.allowances()) > 0 {
		t.Error("the allowance is the original's")
	}
	r.run(5 * time.Second)
	acc := r.account("report_export")
	if int64(acc.Unleased) < passed[quota.Extended] {
		t.Errorf("%d without a lease, it spent %v before it knew", acc.Unleased, passed)
	}
}

func TestAnAllowanceIsNotAskedForTwiceAtATime(t *testing.T) {
	t.Parallel()
	r := newReal(t, extendPolicy)
	a := r.agent()
	a.take("report_export", 1)
	r.run(time.Second)
	r.down = true
	k := a.Table.Find(quota.Key{Tenant: "acme", Dimension: "report_export"})
	w := a.window(a.clock(), k)
	k.extend.leases, k.extend.asked = nil, []int64{w.start}
	k.extend.asks = []*ask{{id: a.newID(a.clock()), window: &pb.Window{StartUs: w.start, EndUs: w.end}, need: 1, want: 1, emergency: true}}
	r.run(12 * time.Second) // nobody uses the key, and the ask cannot be answered
	a.take("report_export", 1)
	r.run(time.Second)
	if now := a.window(a.clock(), k); now != w {
		t.Fatalf("the window has ended: %v after %v", now, w)
	}
	n := 0
	for _, x := range k.extend.asks {
		if x.window.GetStartUs() == w.start {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d asks for one window are in flight, want 1", n)
	}
}
