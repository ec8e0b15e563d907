package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestASizerThatGivesLessThanNeededDenies(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	for _, size := range []ledger.Units{4, 0, -7} {
		ask := d.newAsk(agent(1), 10, 5)
		d.must(d.update(ledger.Scope{}, func(b *ledger.Book) error {
			ans, err := b.Ask(ask, d.terms, func(ledger.Room) ledger.Units { return size })
			d.wantReason(ans, quota.ExactLane)
			return err
		}))
	}
	d.want(books{A: 100})
}

func TestLeasedOutAndExhaustedAreDifferentAnswers(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.spend(agent(1), 50)
	d.lease(agent(1), 50)
	d.wantReason(d.spend(agent(2), 50), quota.LeasedOut) // S + H + cost = Q
	d.wantReason(d.spend(agent(2), 51), quota.Exhausted) // S + H + cost > Q
	d.wantReason(d.ask(agent(2), 1), quota.LeasedOut)
}

func TestLeasedOutWhenReturnedLeasesWouldServe(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Bounded, 100, 15)
	d.spend(agent(1), 75)
	d.lease(agent(1), 15)
	d.expire(40 * time.Second)
	d.apply(func(t *ledger.Terms) { t.Budget = quota.LimitOf(10) })
	d.lease(agent(1), 10)
	d.want(books{S: 75, O: 10, H: 15})
	// With the 10 back, A = 10 and 10 of H may move: 12 is a matter of waiting.
	d.wantReason(d.spend(agent(2), 12), quota.LeasedOut)
}

func TestAnAskOutOfRangeChangesNothing(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	for _, ask := range []ledger.Ask{
		d.newAsk(agent(1), 0, 0), d.newAsk(agent(1), -5, 1), d.newAsk(agent(1), 5, 0), d.newAsk(agent(1), 5, 6),
		{Account: d.account, Agent: agent(1), Want: 1, Need: 1},
	} {
		_, err := d.tryAsk(ask)
		d.wantCode(err, ledger.CodeInvalid)
	}
	if n := len(d.records()); n != 0 {
		t.Errorf("%d records, want none", n)
	}
}

func TestAStalePolicyGrantsNothing(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 50)
	d.store.SetPolicyVersion(2)
	if _, err := d.tryAsk(d.newAsk(agent(1), 5, 1)); !errors.Is(err, ledger.ErrStalePolicy) {
		t.Errorf("ask under version 1 while 2 is in force: %v, want ErrStalePolicy", err)
	}
	if _, err := d.trySpend(d.newSpend(agent(1), 5)); !errors.Is(err, ledger.ErrStalePolicy) {
		t.Errorf("spend under version 1 while 2 is in force: %v, want ErrStalePolicy", err)
	}
	if n := len(d.records()); n != 0 {
		t.Errorf("%d records, want none", n)
	}
	d.terms.PolicyVersion = 2
	d.lease(agent(1), 5)
}

func TestF1SmallLimitManyAgents(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 3, 3)
	var sum ledger.Units
	for n := range 5 {
		sum += d.ask(agent(uint64(n)), 1).Grant.Amount
	}
	if sum != 3 {
		t.Errorf("5 agents got %d of 3", sum)
	}
}
