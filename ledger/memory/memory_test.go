package memory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/ledgertest"
	"github.com/quotalease/quotalease/ledger/memory"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestStore(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(_ *testing.T, retention time.Duration) ledgertest.Subject {
		s := memory.New(time.Now)
		s.SetRetention(retention)
		return ledgertest.Subject{
			Store:            s,
			SetPolicyVersion: s.SetPolicyVersion,
			Tamper:           func(id ledger.AccountID) { s.Tamper(id, func(a *ledger.Account) { a.Held++ }) },
		}
	})
}

var (
	account = ledger.AccountID{Key: quota.Key{Tenant: "acme", Dimension: "calls"}}
	terms   = ledger.Terms{
		Kind: quota.Period, Class: quota.Hard, Limit: quota.LimitOf(1_000_000), Budget: quota.LimitOf(1_000_000),
		TTL: time.Minute, Grace: time.Second,
	}
)

func newID(t testing.TB) ledger.ID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func spend(t testing.TB, s *memory.Store, item ledger.Spend) (answers []ledger.Answer, err error) {
	t.Helper()
	scope := ledger.Scope{Accounts: []ledger.AccountID{account}, Grants: []ledger.ID{item.ID}}
	err = s.Update(t.Context(), scope, func(b *ledger.Book) error {
		ans, err := b.Spend(item, terms)
		answers = append(answers, ans)
		return err
	})
	return answers, err
}

func settled(t testing.TB, s *memory.Store) ledger.Units {
	t.Helper()
	list, err := s.Accounts(t.Context(), ledger.AccountQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var sum ledger.Units
	for _, a := range list {
		sum += a.Settled()
	}
	return sum
}

// in makes commits end as told, and well after that.
func in(outcomes ...memory.Outcome) func() memory.Outcome {
	return func() memory.Outcome {
		if len(outcomes) == 0 {
			return memory.Committed
		}
		next := outcomes[0]
		outcomes = outcomes[1:]
		return next
	}
}

func TestD5RetryAfterAFailedCommit(t *testing.T) {
	t.Parallel()
	s := memory.New(time.Now)
	s.OnCommit(in(memory.Conflict, memory.Conflict))
	answers, err := spend(t, s, ledger.Spend{ID: newID(t), Account: account, Agent: newID(t), Cost: 7})
	if err != nil || len(answers) != 3 {
		t.Fatalf("%d runs, %v: want 3", len(answers), err)
	}
	if last := answers[2]; !last.Approved() || last.Repeated {
		t.Errorf("the last answer is %+v, want a first one: nothing was written before", last)
	}
	if got := settled(t, s); got != 7 {
		t.Errorf("S = %d, want 7", got)
	}
	s.OnCommit(in(memory.Broken))
	if _, err := spend(t, s, ledger.Spend{ID: newID(t), Account: account, Agent: newID(t), Cost: 5}); !errors.Is(err, memory.ErrBroken) {
		t.Errorf("a broken commit returns %v", err)
	}
	if got := settled(t, s); got != 7 {
		t.Errorf("S = %d after a broken commit, want 7", got)
	}
}

func TestD8UnknownCommit(t *testing.T) {
	t.Parallel()
	s := memory.New(time.Now)
	s.OnCommit(in(memory.Unknown, memory.Unknown))
	answers, err := spend(t, s, ledger.Spend{ID: newID(t), Account: account, Agent: newID(t), Cost: 7})
	if err != nil || len(answers) != 3 {
		t.Fatalf("%d runs, %v: want 3", len(answers), err)
	}
	for _, later := range answers[1:] {
		if !later.Repeated || later.Grant != answers[0].Grant {
			t.Errorf("run again, the answer is %+v, want %+v", later.Grant, answers[0].Grant)
		}
	}
	if got := settled(t, s); got != 7 {
		t.Errorf("S = %d, want 7", got)
	}
}

func TestACommitThatNeverSettlesEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	s := memory.New(time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	s.OnCommit(func() memory.Outcome { cancel(); return memory.Conflict })
	err := s.Update(ctx, ledger.Scope{}, func(*ledger.Book) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestNothingIsShared(t *testing.T) {
	t.Parallel()
	s := memory.New(time.Now)
	agent := newID(t)
	first, second := newID(t), newID(t)
	hello := func(token, fresh ledger.ID) func(*ledger.Book) error {
		return func(b *ledger.Book) error {
			b.Admit(ledger.Hello{Incarnation: agent, Token: token}, fresh)
			return nil
		}
	}
	scope := ledger.Scope{Agents: []ledger.ID{agent}}
	for _, fresh := range []ledger.ID{first, second} {
		if err := s.Update(t.Context(), scope, hello(ledger.ID{}, fresh)); err != nil {
			t.Fatal(err)
		}
	}
	read := func() ledger.Incarnation {
		list, err := s.Incarnations(t.Context(), time.Time{})
		if err != nil || len(list) != 1 {
			t.Fatalf("%d incarnations, %v", len(list), err)
		}
		return list[0]
	}
	got := read()
	got.Issued[0], got.Name = ledger.ID{}, "changed"
	if again := read(); again.Issued[0] != first || again.Name == "changed" {
		t.Errorf("a reader changed the store: %+v", again)
	}
	broken := errors.New("broken")
	err := s.Update(t.Context(), scope, func(b *ledger.Book) error {
		b.Admit(ledger.Hello{Incarnation: agent, Token: first}, newID(t))
		return broken
	})
	if err != broken {
		t.Fatal(err)
	}
	if again := read(); len(again.Issued) != 2 || !again.Echoed.IsNil() {
		t.Errorf("a transaction that failed changed the store: %+v", again)
	}
}

func TestAnIdOutsideTheScopeIsAnError(t *testing.T) {
	t.Parallel()
	s := memory.New(time.Now)
	item := ledger.Spend{ID: newID(t), Account: account, Agent: newID(t), Cost: 7}
	if _, err := spend(t, s, item); err != nil {
		t.Fatal(err)
	}
	err := s.Update(t.Context(), ledger.Scope{Accounts: []ledger.AccountID{account}}, func(b *ledger.Book) error {
		_, err := b.Spend(item, terms)
		return err
	})
	if err == nil {
		t.Error("an id was recorded twice")
	}
	if got := settled(t, s); got != 7 {
		t.Errorf("S = %d, want 7", got)
	}
}
