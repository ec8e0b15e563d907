package ledger_test

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestHoldersHearThatOthersWaitWhenSlotsFallIdle(t *testing.T) {
	t.Parallel()
	d := openSlots(t, quota.Hard, 4, 4)
	g := d.slots(agent(1), 4, 4).Grant
	d.wantReason(d.slots(agent(2), 2, 2), quota.Exhausted)
	if n := len(d.events(ledger.EventWanted)); n != 0 {
		t.Fatalf("%d calls for idle slots while all are in use", n)
	}
	d.renew(g, 1, 3, 0)
	if n := len(d.events(ledger.EventWanted)); n != 1 {
		t.Fatalf("%d calls for the slot that fell idle, want 1", n)
	}
	d.tell(g, 2, 2, 0)
	if n := len(d.events(ledger.EventWanted)); n != 1 {
		t.Errorf("%d calls within a moment, want 1", n)
	}
	d.now = d.now.Add(time.Second)
	d.tell(g, 3, 1, 0)
	if n := len(d.events(ledger.EventWanted)); n != 2 {
		t.Errorf("%d calls a second later, want 2", n)
	}
	d.tell(g, 4, 1, 3) // given back: who waits is told, and nobody else
	d.now = d.now.Add(time.Second)
	d.tell(g, 5, 0, 3)
	if n := len(d.events(ledger.EventWanted)); n != 2 {
		t.Errorf("%d calls though nobody waits, want 2", n)
	}
	d.verify()
}
