package core

import (
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// chain is a driver of three dimensions, a to c, and an exact one, x; limits are by name.
func chain(t *testing.T, limits map[string]int64) *chained {
	var dims []*pb.Dimension
	for _, name := range []string{"a", "b", "c", "x", "y"} {
		dim := hardDay()
		dim.Name, dim.TtlUs = name, (10 * time.Second).Microseconds()
		if name >= "x" {
			dim.Class = "exact"
		}
		dims = append(dims, dim)
	}
	d := &chained{driver: newDriver(t, dims...), limits: limits, used: map[string]int64{}, spent: map[ID]*pb.SpendItem{}, leased: map[ID]*pb.Ask{}}
	d.rtt = 0
	return d
}

// chained answers by dimension: leases of what is asked, and spends all or none by group.
type chained struct {
	*driver
	limits map[string]int64
	used   map[string]int64 // granted or spent, and not come back
	spent  map[ID]*pb.SpendItem
	leased map[ID]*pb.Ask
	alone  bool // a ledger that decides on each item by itself
}

func (d *chained) free(dimension string) int64 {
	if limit, ok := d.limits[dimension]; ok {
		return limit - d.used[dimension]
	}
	return 1000 - d.used[dimension]
}

// rounds carries messages until nothing is due.
func (d *chained) rounds() {
	d.t.Helper()
	for range 50 {
		sync, spend := d.build(), d.core.BuildSpend(d.now, time.Second)
		if sync == nil && spend == nil {
			return
		}
		if sync != nil {
			d.core.SyncDone(d.now, d.grant(sync))
		}
		if spend != nil {
			d.core.SpendDone(d.now, d.now, d.decideSpends(spend))
		}
	}
	d.t.Fatal("messages without end")
}

func (d *chained) grant(req *pb.SyncRequest) *pb.SyncReply {
	reply := &pb.SyncReply{Token: []byte("t"), LedgerNowUs: d.ledgerNow().UnixMicro()}
	if req.GetHello().GetPolicyVersion() == 0 {
		reply.Catalogue = d.catalogue
	}
	for _, r := range req.GetReports() {
		id := uuid.FromBytesOrNil(r.GetGrantId())
		if a := d.leased[id]; a != nil && r.GetFinal() {
			d.used[a.GetKey().GetDimension()] -= r.GetReturned() + r.GetRefunded()
			delete(d.leased, id)
		}
		state := pb.GrantState_GRANT_STATE_LIVE
		if r.GetFinal() {
			state = pb.GrantState_GRANT_STATE_FINAL
		}
		reply.Results = append(reply.Results, &pb.ReportResult{GrantId: r.GetGrantId(), State: state})
	}
	for _, a := range req.GetAsks() {
		name := a.GetKey().GetDimension()
		dec := &pb.Decision{GrantId: a.GetGrantId(), Window: d.window, Generation: 1, State: pb.GrantState_GRANT_STATE_LIVE, TtlUs: 10_000_000}
		if dec.Amount = min(a.GetWant(), d.free(name)); dec.Amount < a.GetNeed() {
			dec.Amount, dec.State, dec.Reason = 0, pb.GrantState_GRANT_STATE_DENIED, string(quota.Exhausted)
		}
		d.used[name] += dec.Amount
		d.leased[uuid.FromBytesOrNil(a.GetGrantId())] = a
		reply.Decisions = append(reply.Decisions, dec)
		reply.Keys = append(reply.Keys, d.state(a.GetKey()))
	}
	return reply
}

func (d *chained) state(k *pb.Key) *pb.KeyState {
	st := &pb.KeyState{Key: k, Window: d.window, Generation: 1, Limit: d.free(k.GetDimension()) + d.used[k.GetDimension()], PolicyVersion: 7, LeaseCap: 500}
	st.Headroom = d.free(k.GetDimension())
	if k.GetDimension() >= "x" {
		st.LeaseCap = 0
	}
	return st
}

func (d *chained) decideSpends(req *pb.SpendRequest) *pb.SpendReply {
	reply := &pb.SpendReply{LedgerNowUs: d.ledgerNow().UnixMicro()}
	for _, c := range req.GetRefunds() {
		id := uuid.FromBytesOrNil(c.GetGrantId())
		if it := d.spent[id]; it != nil {
			d.used[it.GetKey().GetDimension()] -= it.GetCost()
			delete(d.spent, id)
		}
	}
	short := map[int32]bool{}
	for _, it := range req.GetItems() {
		if it.GetCost() > d.free(it.GetKey().GetDimension()) {
			short[it.GetGroup()] = true
		}
	}
	for _, it := range req.GetItems() {
		dec := &pb.Decision{GrantId: it.GetSpendId(), Window: d.window, Generation: 1}
		switch {
		case it.GetCost() > d.free(it.GetKey().GetDimension()):
			dec.Reason = string(quota.Exhausted)
		case it.GetGroup() > 0 && short[it.GetGroup()] && !d.alone:
			dec.Reason = string(quota.Cancelled)
		default:
			dec.Amount = it.GetCost()
			d.used[it.GetKey().GetDimension()] += it.GetCost()
			d.spent[uuid.FromBytesOrNil(it.GetSpendId())] = it
		}
		reply.Decisions = append(reply.Decisions, dec)
		reply.Keys = append(reply.Keys, d.state(it.GetKey()))
	}
	return reply
}

func takes(costs ...any) (ds []DimensionCost) {
	for i := 0; i < len(costs); i += 2 {
		ds = append(ds, DimensionCost{Dimension: costs[i].(string), Cost: int64(costs[i+1].(int))})
	}
	return ds
}

// all is one caller of several keys, whose patience ends when nothing more is due.
func (d *chained) all(ts []DimensionCost) Outcome {
	d.t.Helper()
	var got *Outcome
	g := &Group{Tenant: "acme", Takes: ts, Done: func(o Outcome) { got = &o }}
	d.core.WantAll(d.now, g)
	d.rounds()
	if got == nil {
		o, mine := d.core.GiveUpAll(d.now, g)
		if !mine {
			d.t.Fatal("neither answered nor waiting")
		}
		return o
	}
	return *got
}

// taken is what callers were charged of a dimension, leases and spends together.
func (d *chained) taken(dimension string) int64 {
	var sum int64
	if k := d.core.Table.Find(quota.Key{Tenant: "acme", Dimension: dimension}); k != nil {
		sum += k.total()
	}
	for _, it := range d.spent {
		if it.GetKey().GetDimension() == dimension {
			sum += it.GetCost()
		}
	}
	return sum
}

func (d *chained) mustHave(what string, want map[string]int64) {
	d.t.Helper()
	for _, name := range []string{"a", "b", "c", "x", "y"} {
		if got := d.taken(name); got != want[name] {
			d.t.Errorf("%s: %d taken of %s, want %d", what, got, name, want[name])
		}
	}
}

func TestR1_10AChainTakesAllOrNone(t *testing.T) {
	t.Parallel()
	d := chain(t, map[string]int64{"b": 5})
	d.rounds()
	for range 5 {
		if got := d.all(takes("c", 1, "a", 2, "b", 1)); !got.Allowed || got.Key.Dimension == "" {
			t.Fatalf("all three have room: %+v", got)
		}
	}
	d.mustHave("five takes", map[string]int64{"a": 10, "b": 5, "c": 5})
	for range 3 {
		got := d.all(takes("c", 1, "a", 2, "b", 1))
		if !got.Denied || got.Reason != quota.Exhausted || got.Key.Dimension != "b" || got.Limit != 5 {
			t.Fatalf("the failing link is named: %+v", got)
		}
	}
	d.mustHave("three denials", map[string]int64{"a": 10, "b": 5, "c": 5})
	if got := d.all(takes("a", 2, "c", 1)); !got.Allowed {
		t.Fatalf("the others are as they were: %+v", got)
	}
}

func TestR1_10ExactKeysGoLastAndTogether(t *testing.T) {
	t.Parallel()
	for name, alone := range map[string]bool{"all or none": false, "a ledger that decides one by one": true} {
		d := chain(t, map[string]int64{"x": 10, "y": 2})
		d.alone = alone
		d.rounds()
		for range 2 {
			if got := d.all(takes("x", 1, "a", 3, "y", 1)); !got.Allowed {
				t.Fatalf("%s: %+v", name, got)
			}
		}
		d.mustHave(name, map[string]int64{"a": 6, "x": 2, "y": 2})
		d.core.Table.Find(quota.Key{Tenant: "acme", Dimension: "y"}).denial.Store(nil)
		got := d.all(takes("x", 1, "a", 3, "y", 1))
		if !got.Denied || got.Key.Dimension != "y" || got.Reason != quota.Exhausted {
			t.Fatalf("%s: the denier is named: %+v", name, got)
		}
		d.rounds() // what was approved all the same goes back
		d.mustHave(name+", denied", map[string]int64{"a": 6, "x": 2, "y": 2})
		if d.core.Owes() && len(d.core.refunds) > 0 {
			t.Errorf("%s: %d refunds still owed", name, len(d.core.refunds))
		}
	}
}

func TestNothingIsHeldWhileAKeyIsWaitedFor(t *testing.T) {
	t.Parallel()
	d := chain(t, nil)
	d.rounds()
	d.all(takes("a", 1))
	a := d.core.Table.Find(quota.Key{Tenant: "acme", Dimension: "a"})
	left := a.left(d.now)
	var got *Outcome
	g := &Group{Tenant: "acme", Takes: takes("a", 1, "b", 1), Done: func(o Outcome) { got = &o }}
	d.core.WantAll(d.now, g) // b is cold
	if got != nil || a.left(d.now) != left {
		t.Fatalf("%d of %d units of a are in hand while b is waited for: %+v", a.left(d.now), left, got)
	}
	for a.Take(d.now, 1).Allowed { // someone else empties a meanwhile
		continue
	}
	d.rounds() // b comes, then a is fetched anew
	if got == nil || !got.Allowed {
		t.Fatalf("tried from the start when the missing key came: %+v", got)
	}
	d.mustHave("both", map[string]int64{"a": left + 2, "b": 1})
}

func TestCallersOfSeveralKeysWhoLeaveChargeNothing(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*chained, *Group){
		"patience": func(d *chained, g *Group) {
			if o, mine := d.core.GiveUpAll(d.now, g); !mine || o.Allowed {
				d.t.Errorf("gave up: %+v", o)
			}
		},
		"hang up": func(d *chained, g *Group) { d.core.AbandonAll(d.now, g) },
		"stop":    func(d *chained, _ *Group) { d.core.Stop(d.now) },
		"outage": func(d *chained, _ *Group) {
			if d.build() != nil {
				d.core.SyncDone(d.now, nil)
			}
			if d.core.BuildSpend(d.now, time.Second) != nil {
				d.core.SpendDone(d.now, d.now, nil)
			}
			d.now += 5 * time.Second
		},
	} {
		for at, ts := range map[string][]DimensionCost{"in line": takes("a", 1, "b", 2), "in the exact lane": takes("a", 1, "x", 2, "y", 1)} {
			d := chain(t, nil)
			d.rounds()
			d.all(takes("a", 1))
			answers := 0
			g := &Group{Tenant: "acme", Takes: ts, Done: func(o Outcome) {
				if answers++; o.Allowed {
					t.Errorf("%s, %s: allowed", name, at)
				}
			}}
			d.core.WantAll(d.now, g)
			leave(d, g)
			d.rounds()
			d.mustHave(name+", "+at, map[string]int64{"a": 1})
			if want := map[string]int{"stop": 1, "outage": 1}[name]; answers != want {
				t.Errorf("%s, %s: %d answers, want %d", name, at, answers, want)
			}
			for k := range d.core.each {
				if k.busy != 0 || k.spends != 0 {
					t.Errorf("%s, %s: %s is still busy", name, at, k.ID())
				}
			}
		}
	}
}

func TestAnOperationMayOverrideTheOutageMode(t *testing.T) {
	t.Parallel()
	d := chain(t, nil)
	for _, dim := range d.catalogue.Dimensions {
		if dim.Class != "exact" {
			dim.Class = "best_effort"
		}
	}
	d.catalogue.Operations = []*pb.Operation{
		{Name: "read", Takes: []*pb.Take{{Dimension: "a", Cost: 1}, {Dimension: "b", Cost: 2}},
			Outage: &pb.Outage{Mode: "open", AfterUs: time.Second.Microseconds(), ForUs: time.Hour.Microseconds()}},
		{Name: "export", Takes: []*pb.Take{{Dimension: "a", Cost: 1}, {Dimension: "b", Cost: 2}}},
		{Name: "pay", Takes: []*pb.Take{{Dimension: "x", Cost: 1}},
			Outage: &pb.Outage{Mode: "open", AfterUs: time.Second.Microseconds(), ForUs: time.Hour.Microseconds()}},
	}
	d.rounds()
	do := func(operation string) Outcome {
		var got *Outcome
		g := &Group{Tenant: "acme", Operation: operation, Times: 3, Done: func(o Outcome) { got = &o }}
		d.core.WantAll(d.now, g)
		if got == nil {
			o, _ := d.core.GiveUpAll(d.now, g)
			return o
		}
		return *got
	}
	d.cutOff(20 * time.Second)
	if got := do("read"); !got.Allowed || got.Reason != quota.OpenMode {
		t.Errorf("free reads go on: %+v", got)
	}
	if got := do("export"); !got.Unavailable {
		t.Errorf("new exports are refused: %+v", got)
	}
	if got := do("pay"); !got.Unavailable {
		t.Errorf("an exact key never goes on without the ledger: %+v", got)
	}
	if got := do("reed"); got.Bad == nil || got.Bad.Field != "operation" {
		t.Errorf("unknown: %+v", got)
	}
	unleased := map[string]int64{}
	for k := range d.core.each {
		for _, u := range k.unleased {
			unleased[k.Dimension()] += u.taken
		}
	}
	if unleased["a"] != 3 || unleased["b"] != 6 || unleased["x"] != 0 {
		t.Errorf("three times 1 and 2: %v", unleased)
	}
}

func TestPiecesThatWerePutBackAreNotReportedAsTaken(t *testing.T) {
	t.Parallel()
	d := chain(t, map[string]int64{"b": 1})
	d.rounds()
	d.all(takes("a", 1, "b", 1))
	a, b := d.core.Table.Find(quota.Key{Tenant: "acme", Dimension: "a"}), d.core.Table.Find(quota.Key{Tenant: "acme", Dimension: "b"})
	d.all(takes("b", 1)) // denied from now on
	left := a.left(d.now)
	got, at, quiet := TakePieces(d.now, []Piece{{Key: a, Cost: 2}, {Key: b, Cost: 1}})
	if !got.Denied || at != 1 || !quiet || a.left(d.now) != left {
		t.Fatalf("denied by b: %+v at %d, quiet %v, a has %d of %d", got, at, quiet, a.left(d.now), left)
	}
	l := a.held()[0]
	if r := l.now(); r.taken != 1 || r.refunded != 0 {
		t.Errorf("reported as %+v", r)
	}
	// A report went out in between: it was taken, and is refunded.
	taken := a.Take(d.now, 2)
	l.own().said = l.now()
	d.core.putBack(d.now, a, taken.lease, 2)
	if r := l.now(); r.taken != 3 || r.refunded != 2 || r.use() != 1 {
		t.Errorf("reported as %+v", r)
	}
	// The lease was sealed in between.
	taken = a.Take(d.now, 4)
	d.core.end(d.now, a, l)
	d.core.putBack(d.now, a, taken.lease, 4)
	if r := l.now(); r.use() != 1 || r.taken+r.returned < l.amount || r.taken-r.refunded+r.returned > l.amount {
		t.Errorf("of %d reported as %+v", l.amount, r)
	}
}
