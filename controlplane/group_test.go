package controlplane

import (
	"testing"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func (w *world) item(dimension string, cost int64, group int32) *pb.SpendItem {
	return &pb.SpendItem{SpendId: w.id().Bytes(), Key: acme(dimension), Cost: cost, Group: group}
}

func TestR1_10AGroupIsSpentAllOrNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	// Two groups and an item of its own, mixed.
	items := []*pb.SpendItem{
		a.item("payments", 6, 1), a.item("small", 60, 2), a.item("payments", 3, 0),
		a.item("small", 30, 1), a.item("payments", 5, 2), a.item("report_export", 1, 2),
	}
	for range 2 { // a retry repeats it
		reply := a.spend(items...)
		for i, want := range []struct {
			amount int64
			reason quota.Reason
		}{{6, ""}, {0, quota.Cancelled}, {3, ""}, {30, ""}, {0, quota.Exhausted}, {0, quota.Cancelled}} {
			d := reply.Decisions[i]
			if d.Amount != want.amount || d.Reason != string(want.reason) || string(d.GrantId) != string(items[i].SpendId) {
				t.Errorf("item %d: %v, want %d %q", i, d, want.amount, want.reason)
			}
		}
		if p, s := w.account("payments").Spent, w.account("small").Spent; p != 9 || s != 30 {
			t.Errorf("spent %d payments and %d small, want 9 and 30", p, s)
		}
	}
	w.verified()
}

func TestAGroupWithAFaultyItemNamesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	for name, bad := range map[string]*pb.SpendItem{
		"unknown":  a.item("nobody_defined_this", 1, 1),
		"cost 0":   a.item("small", 0, 1),
		"negative": a.item("small", 5, -1),
		"too old":  {SpendId: append([]byte{0, 0, 0, 0, 0, 0, 0x70, 0, 0x80}, make([]byte, 7)...), Key: acme("small"), Cost: 1, Group: 1},
	} {
		reply := a.spend(a.item("payments", 1, 1), bad, a.item("payments", 2, 0))
		first, second, third := reply.Decisions[0], reply.Decisions[1], reply.Decisions[2]
		if second.Fault == nil {
			t.Errorf("%s: %v, want its fault", name, second)
		}
		if bad.Group == 1 && (first.Amount != 0 || first.Reason != string(quota.Cancelled) || first.Fault != nil) {
			t.Errorf("%s: the item beside it: %v, want that it was cancelled", name, first)
		}
		if third.Amount != 2 {
			t.Errorf("%s: the item that stands alone: %v", name, third)
		}
	}
	if got := w.account("payments").Spent; got != 4*2+1 {
		t.Errorf("spent %d payments, want 9: what stood alone", got)
	}
	w.verified()
}
