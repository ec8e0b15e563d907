package core

import (
	"errors"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// reserve takes an estimate from the lease in hand.
func (d *driver) reserve(estimate int64, maximum bool) ID {
	d.t.Helper()
	got, _ := d.take(exports, estimate)
	if got == nil || !got.Allowed {
		d.t.Fatalf("reserve %d: %+v", estimate, got)
	}
	id, ok := d.core.Reserve(d.now, exports, estimate, maximum, *got)
	if !ok {
		d.t.Fatal("no reservation")
	}
	return id
}

func (d *driver) mustSettle(id ID, actual int64) {
	d.t.Helper()
	if err := d.core.Settle(d.now, id, actual); err != nil {
		d.t.Fatal(err)
	}
}

// roomy is a driver with a lease of 100 units, and one unit taken of it.
func roomy(t *testing.T, class string) *driver {
	dim := hardMinute()
	dim.Class = class
	d := newDriver(t, dim)
	d.every = time.Minute
	d.limit, d.cap = 1_000_000, 100
	d.settle()
	d.take(exports, 60) // its caller waits; a lease of what is asked comes
	d.settle()
	return d
}

func TestSettlingPutsTheRestBackIntoALeaseThatLives(t *testing.T) {
	t.Parallel()
	d := roomy(t, "hard")
	k := d.key(exports)
	left := k.left(d.now)
	id := d.reserve(30, true)
	if k.left(d.now) != left-30 {
		t.Fatal("an estimate counts as taken")
	}
	for range 2 { // A3: twice with one id counts once
		d.mustSettle(id, 12)
		if got := k.left(d.now); got != left-12 {
			t.Fatalf("%d in hand, want %d", got, left-12)
		}
	}
	if err := d.core.Settle(d.now, id, 13); err == nil {
		t.Error("settled once more, otherwise")
	}
	d.core.Stop(d.now)
	d.settle()
	if settled, out := d.used(); settled != 60+12 || out != 0 {
		t.Errorf("settled %d, %d out, want 72 and 0", settled, out)
	}
}

func TestARefundThatWouldLiftTheAgentAboveItsCapGoesBack(t *testing.T) {
	t.Parallel()
	d := roomy(t, "hard")
	k := d.key(exports)
	id := d.reserve(30, true)
	d.settle() // the next lease came
	v := *k.view()
	v.leaseCap = k.left(d.now) + 5
	k.see(&v)
	d.mustSettle(id, 0)
	if got := k.left(d.now); got != v.leaseCap {
		t.Fatalf("%d in hand, L is %d", got, v.leaseCap)
	}
	var returned int64
	for _, r := range d.sync().GetReports() {
		returned += r.GetReturned()
	}
	if returned != 25 {
		t.Errorf("%d returned of the 30, 5 fitted", returned)
	}
}

func TestSettlingADeadLeaseIsReportedOnItsGrant(t *testing.T) {
	t.Parallel()
	for name, die := range map[string]func(*driver, *Lease){
		"ended":                    func(d *driver, l *Lease) { d.advance(l.deadline() - d.now) },
		"ended and accounted for":  func(d *driver, l *Lease) { d.advance(l.deadline() - d.now); d.settle() },
		"ended, and nobody saw it": func(d *driver, l *Lease) { d.now = l.deadline() },
		"its window is long over": func(d *driver, _ *Lease) {
			d.advance(5 * time.Minute)
			d.settle()
			d.advance(30 * time.Minute)
			d.settle()
		},
		"a report says it was taken": func(d *driver, _ *Lease) { d.core.mark(d.key(exports)); d.settle() },
	} {
		d := roomy(t, "hard")
		k := d.key(exports)
		id := d.reserve(30, true)
		l := k.held()[0]
		window := l.window.GetStartUs()
		die(d, l)
		d.mustSettle(id, 12)
		d.mustSettle(id, 12)
		d.advance(30 * time.Second) // what nobody uses goes back
		d.settle()
		d.advance(30 * time.Second)
		d.settle()
		if settled, out := d.usedIn(window); settled != 72 || out != 0 {
			t.Errorf("%s: the window has %d settled and %d out, want 72 and 0", name, settled, out)
		}
		for _, g := range d.grants {
			if g.taken < 0 || g.refunded > g.taken || g.taken-g.refunded+g.returned > g.amount || g.taken+g.returned < g.amount {
				t.Errorf("%s: %+v", name, *g)
			}
		}
		if now, _ := d.used(); window != d.present().GetStartUs() && now != 0 {
			t.Errorf("%s: the present window is charged %d", name, now)
		}
	}
}

func TestD3ARefundWhileTheFinalReportIsInFlight(t *testing.T) {
	t.Parallel()
	d := roomy(t, "hard")
	id := d.reserve(30, true)
	window := d.present().GetStartUs()
	d.core.Stop(d.now)
	req := d.build()
	if len(req.GetReports()) == 0 || !req.GetReports()[0].GetFinal() {
		t.Fatalf("no final report: %v", req)
	}
	reply := d.answer(req)
	d.mustSettle(id, 12)
	d.core.SyncDone(d.now, reply)
	d.settle()
	if settled, _ := d.usedIn(window); settled != 72 || d.core.Owes() {
		t.Errorf("%d settled, want 72, owes %v", settled, d.core.Owes())
	}
}

func TestMoreThanTheEstimateIsUseWithoutALease(t *testing.T) {
	t.Parallel()
	d := roomy(t, "bounded")
	window := d.present()
	id := d.reserve(10, false)
	d.advance(d.at(70*time.Second) - d.now)
	d.mustSettle(id, 25)
	var unleased *pb.Report
	for range 3 {
		for _, r := range d.sync().GetReports() {
			if r.GetUnleased() {
				unleased = r
			}
		}
	}
	if unleased.GetTaken() != 15 || unleased.GetWindow().GetStartUs() != window.GetStartUs() {
		t.Fatalf("15 more, in the window of the reservation: %v", unleased)
	}
}

// The class at the reservation counts: who could say more than the estimate then can do so later.
func TestAnEstimateOfBeforeAClassChangeIsSettledAsItWasMade(t *testing.T) {
	t.Parallel()
	for was, becomes := range map[string]string{"bounded": "hard", "hard": "bounded"} {
		d := roomy(t, was)
		id := d.reserve(10, was == "hard")
		d.catalogue.PolicyVersion++
		d.catalogue.Dimensions[0].Class = becomes
		d.advance(7 * time.Second)
		d.settle()
		if got := d.key(exports).dim().Class.String(); got != becomes {
			t.Fatalf("the class is %s", got)
		}
		err := d.core.Settle(d.now, id, 25)
		if was == "hard" {
			var field *quota.FieldError
			if !errors.As(err, &field) || field.Field != "actual" {
				t.Errorf("25 of a maximum of 10: %v", err)
			}
			continue
		}
		if err != nil {
			t.Errorf("25 used of an estimate of 10: %v", err)
		}
		d.settle()
		if settled, _ := d.used(); settled != 60+25 {
			t.Errorf("%d settled, want all 85 that were used", settled)
		}
	}
}

func TestAMaximumIsOne(t *testing.T) {
	t.Parallel()
	for class, maximum := range map[string]bool{"hard": false, "bounded": true} {
		d := roomy(t, class)
		id := d.reserve(10, maximum)
		var field *quota.FieldError
		if err := d.core.Settle(d.now, id, 11); !errors.As(err, &field) || field.Field != "actual" {
			t.Errorf("%s: 11 of at most 10: %v", class, err)
		}
		d.mustSettle(id, 10)
	}
	if roomy(t, "hard").key(exports).MayExceed() {
		t.Error("a hard dimension accepts an estimate that is no maximum")
	}
}

func TestReservationsThatNobodySettlesCountInFull(t *testing.T) {
	t.Parallel()
	d := roomy(t, "hard")
	old := d.reserve(10, true)
	d.core.reservedOrder[0].at = d.now - ReservedFor
	young := d.reserve(5, true)
	var field *quota.FieldError
	if err := d.core.Settle(d.now, old, 0); !errors.As(err, &field) || field.Field != "id" {
		t.Errorf("an hour later: %v", err)
	}
	d.mustSettle(young, 0)
	if got := d.key(exports).total(); got != 70 {
		t.Errorf("%d taken, want 60 and the 10", got)
	}
	if d.key(exports).busy != 0 {
		t.Error("the key is still held for it")
	}
	d.advance(5 * time.Minute)
	d.settle()
	if err := d.core.Settle(d.now, uuid.Nil, 0); err == nil {
		t.Error("settled what was never reserved")
	}
}

func TestAnExactReservationIsNeverChargedLessThanWasUsed(t *testing.T) {
	t.Parallel()
	reserved := func(limit int64) (*chained, ID) {
		d := chain(t, map[string]int64{"x": limit})
		d.rounds()
		key := quota.Key{Tenant: "acme", Dimension: "x"}
		var got *Outcome
		d.core.Want(d.now, &Waiter{Key: key, Cost: 6, Done: func(o Outcome) { got = &o }})
		d.rounds()
		id, ok := d.core.Reserve(d.now, key, 6, true, *got)
		if !got.Allowed || !ok {
			t.Fatalf("%+v", got)
		}
		return d, id
	}
	for _, c := range []struct{ limit, actual, want int64 }{
		{20, 4, 4}, {20, 0, 0}, {20, 6, 6},
		{8, 4, 6}, // no room for the actual beside the estimate, which stays charged
		{10, 4, 4},
	} {
		d, id := reserved(c.limit)
		if err := d.core.Settle(d.now, id, c.actual); err != nil {
			t.Fatal(err)
		}
		d.rounds()
		if got := d.taken("x"); got != c.want {
			t.Errorf("6 reserved of %d, %d used: %d charged, want %d", c.limit, c.actual, got, c.want)
		}
	}
	// The outcome of the second spend is unknown: it is taken back, the first stays.
	d, id := reserved(20)
	if err := d.core.Settle(d.now, id, 4); err != nil {
		t.Fatal(err)
	}
	d.decideSpends(d.core.BuildSpend(d.now, time.Second))
	d.core.SpendDone(d.now, d.now, nil)
	d.now += 5 * time.Second
	d.rounds()
	if got := d.taken("x"); got != 6 {
		t.Errorf("%d charged, want the 6 reserved", got)
	}
	// The window is over: the estimate stays where it was.
	d, id = reserved(20)
	if err := d.core.Settle(d.now, id, 4); err != nil {
		t.Fatal(err)
	}
	d.window = &pb.Window{StartUs: d.window.EndUs, EndUs: d.window.EndUs + 1_000_000}
	d.rounds()
	if got := d.taken("x"); got != 6 {
		t.Errorf("%d charged, want the 6 reserved", got)
	}
}

func TestWhatPassedInAnOutageIsSettledToo(t *testing.T) {
	t.Parallel()
	d := newDriver(t, openMinute())
	d.settle()
	d.cutOff(20 * time.Second)
	id := d.reserve(10, false)
	window := d.core.window(d.now, d.key(exports))
	d.mustSettle(id, 3)
	d.advance(3 * time.Second)
	d.settle()
	var use int64
	for _, g := range d.grants {
		if g.window == window.start {
			use += g.taken - g.refunded
		}
	}
	if use != 3 || d.core.Owes() {
		t.Errorf("%d reported of the 3 used, owes %v", use, d.core.Owes())
	}
}
