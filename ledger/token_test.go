package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// sync lets an agent say hello with a token and returns what it is answered: a fresh token,
// or none if it is taken for a copy.
func (d *desk) sync(incarnation, token ledger.ID) (ledger.ID, bool) {
	d.Helper()
	fresh, ok := d.newID(), false
	err := d.store.Update(context.Background(), ledger.Scope{Agents: []ledger.ID{incarnation}}, func(b *ledger.Book) error {
		ok = b.Admit(ledger.Hello{Incarnation: incarnation, Name: "a", Region: "eu", PolicyVersion: 1, Token: token}, fresh)
		return nil
	})
	d.must(err)
	return fresh, ok
}

func TestD2IncarnationsTokens(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 10)
	me := agent(1)
	t1, ok := d.sync(me, ledger.ID{})
	if !ok {
		t.Fatal("the first Sync is refused")
	}
	// The reply was lost: the same token again. Every answer to it is good.
	t1b, ok := d.sync(me, ledger.ID{})
	if !ok {
		t.Fatal("a repeated first Sync is refused")
	}
	t2, ok := d.sync(me, t1)
	if !ok {
		t.Fatal("the first echo is refused")
	}
	for name, void := range map[string]ledger.ID{"the sibling": t1b, "no token": {}, "a guess": agent(77)} {
		if _, ok := d.sync(me, void); ok {
			t.Errorf("%s is accepted after the first echo", name)
		}
	}
	// The one last echoed is good until an answer to it is echoed.
	if _, ok := d.sync(me, t1); !ok {
		t.Error("the token last echoed is refused")
	}
	if _, ok := d.sync(me, t2); !ok {
		t.Error("an answer to the token last echoed is refused")
	}
	if _, ok := d.sync(me, t1); ok {
		t.Error("a token before the one last echoed is accepted")
	}
}

func TestD2IncarnationsACloneIsFoundByItsSecondSync(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 10)
	me := agent(1)
	shared, _ := d.sync(me, ledger.ID{}) // the machine is copied with this token
	mine, ok := d.sync(me, shared)
	if !ok {
		t.Fatal("the original is refused")
	}
	copied, ok := d.sync(me, shared) // indistinguishable from a lost reply
	if !ok {
		t.Fatal("the copy's first Sync is refused")
	}
	if _, ok := d.sync(me, mine); !ok {
		t.Error("the original is refused")
	}
	if _, ok := d.sync(me, copied); ok {
		t.Error("the copy goes on unnoticed")
	}
}

func TestD2IncarnationsNeverMix(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 40)
	old := d.lease(agent(1), 20)
	d.report(old, 15, 0, 0, false)
	fresh := d.lease(agent(2), 20) // the restarted agent counts from 1
	d.report(fresh, 1, 0, 0, false)
	d.report(old, 14, 0, 0, false) // late packet of the old process
	d.want(books{S: 16, O: 24, A: 60})
	mixed := reportOf(old, 16, 0, 0, false)
	mixed.Agent = agent(2)
	_, err := d.tryReport(mixed)
	d.wantCode(err, ledger.CodeForeign)
	if _, ok := d.sync(agent(2), agent(9)); ok {
		t.Error("an incarnation that the ledger forgot goes on with its old token")
	}
}

func TestASyncSubmittedTwiceIsOneSync(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 10)
	me := agent(1)
	first, second := agent(101), agent(102)
	for _, step := range []struct{ token, fresh ledger.ID }{{ledger.ID{}, first}, {first, second}} {
		for n := range 2 { // an unknown commit: the same batch again
			err := d.store.Update(context.Background(), ledger.Scope{Agents: []ledger.ID{me}}, func(b *ledger.Book) error {
				if !b.Admit(ledger.Hello{Incarnation: me, Token: step.token}, step.fresh) {
					t.Errorf("run %d of the sync with %s is refused", n, step.token)
				}
				return nil
			})
			d.must(err)
		}
	}
	list, err := d.store.Incarnations(context.Background(), time.Time{})
	d.must(err)
	if len(list) != 1 || list[0].Echoed != first || len(list[0].Issued) != 1 || list[0].Issued[0] != second {
		t.Errorf("incarnations %+v, want one that echoed the first token and was issued the second", list)
	}
}

func TestTokensOfOneSyncAreCapped(t *testing.T) {
	t.Parallel()
	d := open(t, quota.Hard, 100, 10)
	me := agent(1)
	oldest, _ := d.sync(me, ledger.ID{})
	var last ledger.ID
	for range 64 {
		last, _ = d.sync(me, ledger.ID{})
	}
	list, err := d.store.Incarnations(context.Background(), time.Time{})
	d.must(err)
	if n := len(list[0].Issued); n != 64 {
		t.Errorf("%d tokens kept, want 64", n)
	}
	if _, ok := d.sync(me, oldest); ok {
		t.Error("the oldest of 65 answers is still good")
	}
	if _, ok := d.sync(me, last); !ok {
		t.Error("the last answer is refused")
	}
}
