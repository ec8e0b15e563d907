package controlplane

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// midnight is the end of the day of noon.
var midnight = noon.Add(12 * time.Hour)

func (w *world) askIn(dimension string, want int64, window quota.Window) *pb.Ask {
	ask := w.ask(dimension, want)
	ask.Window = windowMessage(window)
	return ask
}

// A window begins when it begins, however long the commit takes that a lease for it waits for.
func TestALeaseForTheNextWindowIsNotLateByTheCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	w.ledger.move(12*time.Hour - 10*time.Second)
	for _, took := range []time.Duration{3 * time.Second, 9 * time.Second} { // in 7 s, and 2 s ago
		w.store.commits = func() { w.ledger.move(took) }
		reply := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{a.askIn("small", 1, day(midnight))}})
		left := midnight.Sub(w.ledger.now())
		if got := time.Duration(reply.Decisions[0].StartsInUs) * time.Microsecond; got != max(0, left) || reply.LedgerNowUs != micros(w.ledger.now()) {
			t.Errorf("after a commit of %s it begins in %s, at %d; want in %s, at %d", took, got, reply.LedgerNowUs, max(0, left), micros(w.ledger.now()))
		}
	}
}

func TestANextWindowIsNamedAndLeasedAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	w.ledger.move(12*time.Hour - 10*time.Second)
	reply := a.sync(&pb.SyncRequest{Keys: []*pb.Key{acme("small")}})
	tomorrow := day(midnight)
	if got := reply.Keys[0].Next; !proto.Equal(got, windowMessage(tomorrow)) {
		t.Fatalf("the window after is %v, want %v", got, windowMessage(tomorrow))
	}
	asks := []*pb.Ask{a.askIn("small", 100, day(noon)), a.askIn("small", 60, tomorrow)}
	reply = a.sync(&pb.SyncRequest{Asks: asks})
	now, ahead := reply.Decisions[0], reply.Decisions[1]
	if now.Amount != 100 || now.StartsInUs != 0 || now.RemainingUs != 10_000_000 || !now.Last {
		t.Errorf("today's: %v, want the last 100 for 10 s", now)
	}
	if ahead.Amount != 60 || ahead.StartsInUs != 10_000_000 || ahead.TtlUs != 30_000_000 ||
		ahead.RemainingUs != 30_000_000 || ahead.Last || !proto.Equal(ahead.Window, windowMessage(tomorrow)) {
		t.Errorf("tomorrow's: %v, want 60 in 10 s, gone after 30 s", ahead)
	}
	if key := reply.Keys[0]; key.Headroom != 0 || !proto.Equal(key.Window, windowMessage(day(noon))) {
		t.Errorf("the key's state is %v, want today's", key)
	}
	// The repeat of a lost reply, when the window has begun.
	w.ledger.move(12 * time.Second)
	again := a.sync(&pb.SyncRequest{Asks: asks[1:]}).Decisions[0]
	if again.Amount != 60 || again.StartsInUs != 0 || again.RemainingUs != 18_000_000 {
		t.Errorf("asked again after 12 s: %v", again)
	}
	a.sync(&pb.SyncRequest{Reports: []*pb.Report{usedUp(now, acme("small")), usedUp(ahead, acme("small"))}})
	for _, window := range []quota.Window{day(noon), tomorrow} {
		id := ledger.AccountID{Key: quota.Key{Tenant: "acme", Dimension: "small"}, Window: window}
		found, err := w.store.Accounts(t.Context(), ledger.AccountQuery{Tenant: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		for _, account := range found {
			if account.ID == id && account.Outstanding != 0 {
				t.Errorf("%d of %s still out", account.Outstanding, window)
			}
		}
	}
	w.verified()
}

func TestD9AnAskNamesAWindowThatIs(t *testing.T) {
	t.Parallel()
	tomorrow := day(midnight)
	for name, c := range map[string]struct {
		window quota.Window
		ahead  time.Duration // of midnight
		fault  bool
	}{
		"none is the current one":      {quota.Window{}, time.Hour, false},
		"the current one":              {day(noon), time.Hour, false},
		"the next, half a ttl ahead":   {tomorrow, 15 * time.Second, false},
		"the next, a microsecond more": {tomorrow, 15*time.Second + time.Microsecond, true},
		"the one after it":             {day(midnight.Add(24 * time.Hour)), time.Second, true},
		"one that is over":             {day(noon.Add(-24 * time.Hour)), time.Second, true},
		"one that never was":           {quota.NewWindow(midnight, midnight.Add(time.Hour)), time.Second, true},
	} {
		w := newWorld(t, examplePolicy)
		a := w.agent()
		w.ledger.move(12*time.Hour - c.ahead)
		other := a.ask("report_export", 1)
		reply := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{a.askIn("small", 10, c.window), other}})
		d := reply.Decisions[0]
		if c.fault && (d.Fault.GetField() != "window" || !strings.Contains(d.Fault.Allowed, "half a ttl")) {
			t.Errorf("%s: %v, want a fault that names the window", name, d)
		}
		if !c.fault && d.Amount != 10 {
			t.Errorf("%s: %v, want 10 granted", name, d)
		}
		if reply.Decisions[1].Amount != 1 {
			t.Errorf("%s: the ask beside it got %v", name, reply.Decisions[1])
		}
		w.verified()
	}
}

func TestRatesAndSlotsHaveOneEndlessWindow(t *testing.T) {
	t.Parallel()
	calendar, err := quota.ParsePeriod("day", "", 0, "")
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[quota.Kind]quota.Window{
		quota.Period: day(noon), quota.RateLimit: {}, quota.Concurrency: {},
	} {
		dim := &policy.Dimension{Kind: kind, Period: calendar}
		if got := windowAt(dim, noon); got != want {
			t.Errorf("%s: the window is %s, want %s", kind, got, want)
		}
		if next := windowAfter(dim, windowAt(dim, noon)); next.Endless() != want.Endless() {
			t.Errorf("%s: the window after is %s", kind, next)
		}
	}
}

// What a lump, a trickle and a denial of a rate key look like to an agent.
func TestDecisionsTellOfTrickles(t *testing.T) {
	t.Parallel()
	g := ledger.Grant{ID: newWorld(t, examplePolicy).id(), Amount: 5, State: ledger.Live, TTL: time.Minute,
		ExpiresAt: noon.Add(time.Minute), Delay: 750 * time.Millisecond, Drip: 1250 * time.Millisecond}
	if d := decisionMessage(&g, noon); d.DelayUs != 750_000 || d.DripUs != 1_250_000 || d.StartsInUs != 0 {
		t.Errorf("%v, want a delay of 750 ms and a drip of 1.25 s", d)
	}
	for wait, want := range map[time.Duration]int64{0: 0, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2} {
		if got := upToMicros(wait); got != want {
			t.Errorf("a wait of %d ns is told as %d us, want %d", wait, got, want)
		}
	}
}
