package core

import (
	"slices"
	"testing"
	"time"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestC3LateReply(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{0, time.Second, 5 * time.Second, 8 * time.Second, 9990 * time.Millisecond, 12 * time.Second} {
		d := newDriver(t)
		d.settle()
		d.take(exports, 1)
		sent := d.now
		req := d.build()
		d.now += late / 2 // the ledger decides somewhere on the way
		reply := d.answer(req)
		closes := d.now + 10*time.Second // issued_at + ttl, before any grace
		d.now = sent + late
		d.core.SyncDone(d.now, reply)
		k := d.key(exports)
		held := k.held()
		for _, l := range held {
			if l.deadline() != sent+10*time.Second || l.deadline() > closes {
				t.Errorf("reply after %s: stops at %s after the send, want 10s and not after the ledger's %s", late, l.deadline()-sent, closes-sent)
			}
		}
		if got := k.Take(sent+10*time.Second, 1); got.Allowed {
			t.Errorf("reply after %s: spent at the deadline", late)
		}
		// With less life left than the round trip took it is no use: all of it goes back.
		useful := late <= 5*time.Second
		if (len(held) == 1) != useful {
			t.Errorf("reply after %s: %d leases are held", late, len(held))
		}
		if useful {
			continue
		}
		given := reply.GetDecisions()[0]
		returned := slices.ContainsFunc(d.build().GetReports(), func(r *pb.Report) bool {
			return string(r.GetGrantId()) == string(given.GetGrantId()) && r.GetFinal() && r.GetTaken()+r.GetReturned() == given.GetAmount()
		})
		if !returned {
			t.Errorf("reply after %s: the lease is not given back", late)
		}
	}
}
