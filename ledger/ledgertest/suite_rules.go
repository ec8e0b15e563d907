package ledgertest

import (
	"errors"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

func (r *room) wantCode(err error, code ledger.Code) {
	r.Helper()
	var p *ledger.ProtocolError
	if !errors.As(err, &p) || p.Code != code {
		r.Errorf("got %v, want a protocol error %q", err, code)
	}
}

func (r *room) wantReason(ans ledger.Answer, reason quota.Reason) {
	r.Helper()
	if ans.Approved() || ans.Grant.Reason != reason {
		r.Errorf("got %d units and %q, want a denial with %q", ans.Grant.Amount, ans.Grant.Reason, reason)
	}
}

func lostReply(r *room) {
	ask := r.newAsk(r.id(), 20)
	first, second := r.ask(ask), r.ask(ask)
	if !second.Repeated || first.Grant != second.Grant {
		r.Errorf("the first answer is %+v, the second %+v", first.Grant, second.Grant)
	}
	if n := r.count(ledger.GrantQuery{}); n != 1 {
		r.Errorf("%d rows, want 1", n)
	}
	r.want(units{O: 20})
	other := ask
	other.Want = 21
	_, err := r.tryAsk(other)
	r.wantCode(err, ledger.CodeTerms)
	r.want(units{O: 20})
}

func denialIsRepeated(r *room) {
	r.lease(r.id(), 500)
	ask := r.newAsk(r.id(), 10)
	first := r.ask(ask)
	r.wantReason(first, quota.ExactLane)
	second := r.ask(ask)
	r.wantReason(second, quota.ExactLane)
	if !second.Repeated || first.Grant != second.Grant {
		r.Errorf("the first denial is %+v, the second %+v", first.Grant, second.Grant)
	}
	if !r.state(r.account).Waiting {
		r.Error("nobody is noted as waiting for growth")
	}
	r.want(units{O: 500})
}

func idIsKnownEverywhere(r *room) {
	ask := r.newAsk(r.id(), 20)
	first := r.ask(ask)
	now := time.Now()
	r.account.Window = quota.NewWindow(now.Add(-time.Hour), now.Add(time.Hour))
	ask.Account = r.account
	second := r.ask(ask)
	if !second.Repeated || second.Grant != first.Grant {
		r.Errorf("asked again in the next window: %+v, want the first answer %+v", second.Grant, first.Grant)
	}
	if n := r.count(ledger.GrantQuery{}); n != 1 {
		r.Errorf("%d rows, want 1", n)
	}
}

func reportsMerge(r *room) {
	g := r.lease(r.id(), 20)
	for _, rep := range []ledger.Report{
		reportOf(g, 8, 2, 0, false), reportOf(g, 3, 0, 0, false), reportOf(g, 11, 2, 11, true),
		reportOf(g, 9, 2, 0, false), reportOf(g, 11, 2, 11, true),
	} {
		r.must(r.report(rep))
	}
	r.want(units{S: 9})
	if got := r.grant(g.ID); got.State != ledger.Final || got.Taken != 11 || got.Refunded != 2 || got.Back != 11 {
		r.Errorf("record %+v", got)
	}
}

func hostileReports(r *room) {
	g := r.lease(r.id(), 20)
	r.must(r.report(reportOf(g, 5, 0, 0, false)))
	before, record := r.state(r.account), r.grant(g.ID)
	for _, taken := range []ledger.Units{-600, 1<<31 - 1, quota.MaxUnits} {
		var p *ledger.ProtocolError
		if err := r.report(reportOf(g, taken, 0, 0, false)); !errors.As(err, &p) {
			r.Errorf("taken %d: %v, want a protocol error", taken, err)
		}
		if r.state(r.account) != before || r.grant(g.ID) != record {
			r.Errorf("taken %d changed something", taken)
		}
	}
	r.must(r.report(reportOf(g, 6, 0, 14, true)))
	r.want(units{S: 6})
}

func foreignGrant(r *room) {
	g := r.lease(r.id(), 20)
	stolen := reportOf(g, 0, 0, 20, true)
	stolen.Agent = r.id()
	r.wantCode(r.report(stolen), ledger.CodeForeign)
	r.wantCode(r.cancel(g.ID, stolen.Agent), ledger.CodeForeign)
	r.want(units{O: 20})
}

func cancelBeforeAsk(r *room) {
	r.open()
	agent := r.id()
	ask, spend := r.newAsk(agent, 20), r.newSpend(agent, 20)
	for range 2 {
		r.must(r.cancel(ask.ID, agent))
		r.must(r.cancel(spend.ID, agent))
	}
	r.wantReason(r.ask(ask), quota.Cancelled)
	r.wantReason(r.spend(spend), quota.Cancelled)
	r.want(units{})
	// Use reported for an id that nobody knows is unleased.
	r.must(r.report(ledger.Report{ID: r.id(), Account: r.account, Agent: agent, Taken: 7}))
	r.want(units{S: 7})
	if got := r.state(r.account).Unleased; got != 7 {
		r.Errorf("unleased %d, want 7", got)
	}
}

func revokeAndRecall(r *room) {
	one, two := r.lease(r.id(), 20), r.lease(r.id(), 30)
	r.must(r.update(ledger.Scope{Grants: []ledger.ID{one.ID}}, func(b *ledger.Book) error {
		_, err := b.Revoke(one.ID, "contract ended")
		return err
	}))
	r.terms.Limit = quota.LimitOf(10)
	r.terms.PolicyVersion = 2
	r.SetPolicyVersion(2)
	r.must(r.update(ledger.Scope{Live: true}, func(b *ledger.Book) error {
		if _, err := b.Open(r.account, r.terms); err != nil {
			return err
		}
		n, err := b.Recall(r.account, "limit cut")
		if n != 1 {
			r.Errorf("recalled %d, want the lease that was not revoked", n)
		}
		return err
	}))
	r.want(units{O: 50})
	r.must(r.report(reportOf(one, 5, 0, 15, true)))
	r.must(r.report(reportOf(two, 30, 0, 0, true)))
	r.want(units{S: 35})
	if got := r.state(r.account).Tally; got.Revoked != 15 || got.Returned != 0 {
		r.Errorf("revoked %d, returned %d: want 15 and 0", got.Revoked, got.Returned)
	}
	if got := r.grant(two.ID); got.RevokedAt.IsZero() {
		r.Error("the recall is not on the lease's record")
	}
}

func spendAndRefund(r *room) {
	s := r.newSpend(r.id(), 40)
	first, second := r.spend(s), r.spend(s)
	if !first.Approved() || first.Repeated || !second.Repeated || first.Grant != second.Grant {
		r.Errorf("the first answer is %+v, the second %+v", first, second)
	}
	r.want(units{S: 40})
	late := r.newSpend(r.id(), 1)
	late.NotAfter = time.Now().Add(-time.Minute)
	r.wantReason(r.spend(late), quota.Stale)
	for range 3 {
		r.must(r.cancel(s.ID, s.Agent))
		r.want(units{})
	}
	if got := r.grant(s.ID); got.Refunded != 40 || got.Amount != 40 {
		r.Errorf("record %+v, want 40 spent and refunded", got)
	}
}

func stalePolicy(r *room) {
	r.lease(r.id(), 20)
	r.SetPolicyVersion(2)
	if _, err := r.tryAsk(r.newAsk(r.id(), 20)); !errors.Is(err, ledger.ErrStalePolicy) {
		r.Errorf("ask under version 1 while 2 is in force: %v", err)
	}
	if _, err := r.trySpend(r.Context(), r.newSpend(r.id(), 20)); !errors.Is(err, ledger.ErrStalePolicy) {
		r.Errorf("spend under version 1 while 2 is in force: %v", err)
	}
	r.want(units{O: 20})
	r.terms.PolicyVersion = 2
	r.lease(r.id(), 20)
}

func otherWindow(r *room) {
	now := time.Now()
	for _, w := range []quota.Window{
		quota.NewWindow(now.Add(-2*time.Hour), now.Add(-time.Hour)), quota.NewWindow(now.Add(time.Hour), now.Add(2*time.Hour)),
	} {
		r.account.Window = w
		if _, err := r.tryAsk(r.newAsk(r.id(), 20)); !errors.Is(err, ledger.ErrWindow) {
			r.Errorf("ask in %s: %v, want ErrWindow", w, err)
		}
	}
	if n := r.count(ledger.GrantQuery{}); n != 0 {
		r.Errorf("%d records, want none", n)
	}
	// A lease ends with its window.
	r.account.Window = quota.NewWindow(now.Add(-time.Hour), now.Add(40*time.Second))
	g := r.lease(r.id(), 20)
	if !g.ExpiresAt.Equal(r.account.Window.End) || !g.ClosesAt.Equal(g.ExpiresAt.Add(r.terms.Grace)) {
		r.Errorf("expires %s and closes %s, want the window's end %s", g.ExpiresAt, g.ClosesAt, r.account.Window.End)
	}
}

func agentsLeases(r *room) {
	agent := r.id()
	g := r.lease(agent, 20)
	r.must(r.report(reportOf(g, 5, 0, 0, false)))
	r.lease(agent, 10)
	r.lease(r.id(), 40)
	ask := r.newAsk(agent, 1)
	r.must(r.update(ledger.Scope{Agents: []ledger.ID{agent}}, func(b *ledger.Book) error {
		_, err := b.Ask(ask, r.terms, func(room ledger.Room) ledger.Units {
			if room.Holds != 25 || room.Agents != 2 {
				r.Errorf("holds %d of %d agents, want 25 and 2", room.Holds, room.Agents)
			}
			return 1
		})
		return err
	}))
}

// leasesOfPairs: of two agents in two accounts, the leases of each pair that is named are at hand.
func leasesOfPairs(r *room) {
	agents, accounts := []ledger.ID{r.id(), r.id()}, []ledger.AccountID{r.account, endless("zeta")}
	amounts := [2][2]ledger.Units{{20, 3}, {7, 5}} // by account and agent
	for i, account := range accounts {
		r.account = account
		for j, agent := range agents {
			r.lease(agent, amounts[i][j])
		}
	}
	for i, account := range accounts {
		for j, agent := range agents {
			ask := r.newAsk(agent, 1)
			ask.Account = account
			// The other agent's leases are named in the other account alone.
			scope := ledger.Scope{Accounts: accounts, Grants: []ledger.ID{ask.ID}, Holders: []ledger.Holder{
				{Account: accounts[1-i], Agent: agents[1-j]}, {Account: account, Agent: agent}}}
			r.must(r.Store.Update(r.Context(), scope, func(b *ledger.Book) error {
				_, err := b.Ask(ask, r.terms, func(room ledger.Room) ledger.Units {
					if room.Holds != amounts[i][j] {
						r.Errorf("agent %d holds %d in account %d, want %d", j, room.Holds, i, amounts[i][j])
					}
					return 0
				})
				return err
			}))
		}
	}
}

func participants(r *room) {
	r.lease(r.id(), 1)
	r.spend(r.newSpend(r.id(), 1))
	now := time.Now()
	r.account.Window = quota.NewWindow(now.Add(-time.Hour), now.Add(time.Hour))
	r.lease(r.id(), 1)
	agents := func() (n int) {
		r.must(r.update(ledger.Scope{}, func(b *ledger.Book) error {
			n = b.Agents(r.account.Key, r.terms)
			return nil
		}))
		return n
	}
	if n := agents(); n != 3 {
		r.Errorf("N = %d, want 3", n)
	}
	r.account = endless("globex")
	if n := agents(); n != 1 {
		r.Errorf("N = %d for another tenant, want 1", n)
	}
}

func tokens(r *room) {
	me := r.id()
	sync := func(token ledger.ID) (ledger.ID, bool) {
		fresh, ok := r.id(), false
		r.must(r.Store.Update(r.Context(), ledger.Scope{Agents: []ledger.ID{me}}, func(b *ledger.Book) error {
			ok = b.Admit(ledger.Hello{Incarnation: me, Name: "node-1", Region: "eu", PolicyVersion: 1, Token: token}, fresh)
			return nil
		}))
		return fresh, ok
	}
	if _, ok := sync(r.id()); ok {
		r.Error("a token that was never issued is accepted")
	}
	one, ok1 := sync(ledger.ID{})
	sibling, ok2 := sync(ledger.ID{})
	two, ok3 := sync(one)
	if !ok1 || !ok2 || !ok3 {
		r.Errorf("the agent is refused: %v %v %v", ok1, ok2, ok3)
	}
	for _, void := range []ledger.ID{sibling, {}} {
		if _, ok := sync(void); ok {
			r.Errorf("the void token %s is accepted", void)
		}
	}
	if _, ok := sync(two); !ok {
		r.Error("the answer to the first echo is refused")
	}
}
