package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
)

// A reader that goes on after the last event it saw misses none, however writers race.
func TestEventsBecomeVisibleInTheOrderOfTheirIds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const writers, each = 8, 40
	var wg sync.WaitGroup
	var done atomic.Int64
	for w := range writers {
		id := endless(string(rune('a' + w)))
		wg.Go(func() {
			defer done.Add(1)
			for n := range each + 1 { // the first opens the account, which is no event
				err := f.store.Update(f.Context(), ledger.Scope{Accounts: []ledger.AccountID{id}}, func(b *ledger.Book) error {
					changed := terms()
					changed.Limit = quota.LimitOf(ledger.Units(1000 + n))
					_, err := b.Open(id, changed)
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	seen := 0
	for after := int64(0); ; {
		over := done.Load() == writers
		events, err := f.store.Events(f.Context(), after, 100)
		f.must(err)
		for _, e := range events {
			after = e.ID
			seen++
		}
		if over && len(events) == 0 {
			break
		}
	}
	wg.Wait()
	if seen != writers*each {
		t.Errorf("a reader that went on saw %d of %d events", seen, writers*each)
	}
}
