package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// tomorrow is the window after the desk's.
var tomorrow = quota.NewWindow(day.End, day.End.Add(24*time.Hour))

// inNext runs act on the next window's account.
func (d *desk) inNext(act func()) {
	present := d.account
	d.account.Window = tomorrow
	act()
	d.account = present
}

func TestAnAskForTheNextWindowLeadsByHalfATTLAtMost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before  time.Duration // the window's start
		allowed bool
	}{
		{24 * time.Hour, false}, {15*time.Second + time.Microsecond, false},
		{15 * time.Second, true}, {time.Microsecond, true}, {0, true},
	} {
		d := open(t, quota.Hard, 100, 50)
		d.now = day.End.Add(-c.before)
		d.inNext(func() {
			ask := d.newAsk(agent(1), 10, 1)
			ans, err := d.tryAsk(ask)
			if !c.allowed {
				if !errors.Is(err, ledger.ErrWindow) {
					t.Errorf("%s ahead: %v, want ErrWindow", c.before, err)
				}
				if n := len(d.records()); n != 0 || d.state().Kind != 0 {
					t.Errorf("%s ahead: %d records, account %+v: want no trace", c.before, n, d.state())
				}
				return
			}
			d.must(err)
			g := ans.Grant
			starts := day.End
			if c.before == 0 {
				starts = time.Time{}
			}
			if g.Amount != 10 || !g.StartsAt.Equal(starts) || g.Account.Window != tomorrow {
				t.Errorf("%s ahead: %+v, want 10 of tomorrow from its start", c.before, g)
			}
			// Its whole life, the lead included, is one ttl.
			if !g.ExpiresAt.Equal(d.now.Add(30*time.Second)) || g.TTL != 30*time.Second {
				t.Errorf("%s ahead: expires %s, ttl %s", c.before, g.ExpiresAt, g.TTL)
			}
		})
	}
}

func TestD9NothingCrossesIntoTheNextWindow(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.spend(agent(1), 60)
	d.now = day.End.Add(-10 * time.Second)
	old := d.lease(agent(1), 40) // today is spent
	if !old.ExpiresAt.Equal(day.End) {
		t.Errorf("today's lease ends %s", old.ExpiresAt)
	}
	d.inNext(func() {
		ahead := d.lease(agent(1), 50)
		d.want(books{O: 50, A: 50})
		d.wantReason(d.ask(agent(2), 1), quota.ExactLane) // the budget is the window's own
		if _, err := d.trySpend(d.newSpend(agent(1), 1)); !errors.Is(err, ledger.ErrWindow) {
			t.Errorf("a spend ahead: %v, want ErrWindow", err)
		}
		d.now = day.End.Add(time.Second)
		d.report(ahead, 20, 0, 0, false)
		d.want(books{S: 20, O: 30, A: 50})
		d.report(ahead, 20, 0, 30, true)
		d.want(books{S: 20, A: 80})
	})
	d.report(old, 40, 0, 0, true)
	d.want(books{S: 100})
}

func TestD1ALostReplyOfAnAskAhead(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.now = day.End.Add(-10 * time.Second)
	d.inNext(func() {
		ask := d.newAsk(agent(1), 10, 1)
		first, err := d.tryAsk(ask)
		d.must(err)
		d.now = day.End.Add(time.Second) // the window has begun meanwhile
		again, err := d.tryAsk(ask)
		d.must(err)
		if !again.Repeated || again.Grant != first.Grant {
			t.Errorf("asked again: %+v, want %+v", again.Grant, first.Grant)
		}
		d.want(books{O: 10, A: 90})
	})
}

func TestALeaseAheadOfAShortWindowEndsWithIt(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	second := quota.NewWindow(start.Add(5*time.Second), start.Add(6*time.Second))
	d.account.Window = second
	g := d.lease(agent(1), 10)
	if !g.StartsAt.Equal(second.Start) || !g.ExpiresAt.Equal(second.End) || g.TTL != 6*time.Second {
		t.Errorf("starts %s, expires %s after %s: want the window's second", g.StartsAt, g.ExpiresAt, g.TTL)
	}
}
