package controlplane

import (
	"errors"
	"slices"
	"testing"

	"github.com/quotalease/quotalease/ledger/memory"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// One turn of the group commit: calls in their order, one transaction, each its own answer.
func TestTogetherAnswersEachCallOfOneTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a, b, c := w.agent(), w.agent(), w.agent()
	calls := []*Call{
		{Spend: &pb.SpendRequest{Hello: a.hello(), Items: []*pb.SpendItem{a.item("payments", 7, 0)}}},
		{Spend: &pb.SpendRequest{Hello: b.hello(), Items: []*pb.SpendItem{b.item("payments", 4, 0)}}},
		{Sync: &pb.SyncRequest{}}, // says not who it is
		{Sync: &pb.SyncRequest{Hello: c.hello(), Asks: []*pb.Ask{c.ask("small", 30)}}},
		{Spend: &pb.SpendRequest{Hello: b.hello(), Items: []*pb.SpendItem{b.item("payments", 3, 0)}}},
	}
	if n := w.cp.Together(t.Context(), calls); n != len(calls) {
		t.Fatalf("%d of %d calls are answered", n, len(calls))
	}
	if n := w.store.updates.Load(); n != 1 {
		t.Errorf("%d transactions, want 1", n)
	}
	var spent []int64
	for _, i := range []int{0, 1, 4} {
		if calls[i].Err != nil || calls[i].SyncReply != nil {
			t.Fatalf("call %d: %+v", i, calls[i])
		}
		spent = append(spent, calls[i].SpendReply.Decisions[0].Amount)
	}
	if want := []int64{7, 0, 3}; !slices.Equal(spent, want) { // in order, so that the second does not fit
		t.Errorf("spent %v, want %v", spent, want)
	}
	if bad := calls[2]; bad.Err == nil || bad.SyncReply != nil {
		t.Errorf("a Sync without a hello: %+v", bad)
	}
	if good := calls[3]; good.Err != nil || good.SpendReply != nil || good.SyncReply.Decisions[0].Amount != 30 {
		t.Errorf("the Sync beside it: %+v", good)
	}
	w.verified()
}

// A transaction holds so many items, and at least one call. The rest is left for the next.
func TestTogetherLeavesWhatATransactionDoesNotHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	w.cp.cfg.BatchItems = 7 // a Spend of one item is 3: itself, the item and its key
	var calls []*Call
	for _, items := range []int{1, 1, 1, 9} {
		a := w.agent()
		m := &pb.SpendRequest{Hello: a.hello()}
		for range items {
			m.Items = append(m.Items, a.item("small", 1, 0))
		}
		calls = append(calls, &Call{Spend: m})
	}
	for _, want := range []int{2, 1, 1, 0} {
		if n := w.cp.Together(t.Context(), calls); n != want {
			t.Fatalf("%d calls are answered, want %d", n, want)
		}
		for _, call := range calls[want:] {
			if call.SpendReply != nil || call.Err != nil {
				t.Fatalf("a call that was left has an answer: %+v", call)
			}
		}
		for _, call := range calls[:want] {
			if call.Err != nil || len(call.SpendReply.Decisions) != len(call.Spend.Items) {
				t.Fatalf("an answered call: %+v", call)
			}
		}
		calls = calls[want:]
	}
	if n, spent := w.store.updates.Load(), w.account("small").Spent; n != 3 || spent != 12 {
		t.Errorf("%d transactions and %d units spent, want 3 and 12", n, spent)
	}
}

func TestTogetherTellsAllOfAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	w.store.OnCommit(func() memory.Outcome { return memory.Broken })
	calls := []*Call{
		{Sync: &pb.SyncRequest{Hello: a.hello()}},
		{Spend: &pb.SpendRequest{Hello: a.hello(), Items: []*pb.SpendItem{a.item("payments", 1, 0)}}},
	}
	w.cp.Together(t.Context(), calls)
	for i, call := range calls {
		if !errors.Is(call.Err, ErrUnavailable) || call.SyncReply != nil || call.SpendReply != nil {
			t.Errorf("call %d: %+v, want unavailable and no answer", i, call)
		}
	}
}
