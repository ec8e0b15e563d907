package core

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// live is one history: trouble, then rest, then the end.
func (h *history) live() {
	every := func(d time.Duration, do func()) {
		var again func()
		again = func() { do(); h.after(d, again) }
		h.after(d, again)
	}
	every(700*time.Millisecond, func() {
		if _, err := h.cp.Sweep(context.Background()); err != nil {
			h.broken("sweep: %v", err)
		}
	})
	every(100*time.Millisecond, h.notify)
	for h.now < historyBusy && h.fault == "" {
		h.runUntil(h.now + time.Duration(h.rng.IntN(120))*time.Millisecond)
		h.act()
		h.check()
	}
	h.calm, h.cut = true, false
	for _, m := range h.members {
		if m.syncs > 50*int(historyBusy/time.Second) {
			h.broken("%d Syncs in %s", m.syncs, historyBusy)
		}
		m.wakes = min(m.wakes, h.now)
	}
	h.runUntil(h.now + historyCalm - 3*time.Second)
	for _, m := range h.members {
		m.syncs = 0
	}
	h.runUntil(h.now + 3*time.Second)
	h.rest()
	for _, m := range h.members {
		if !m.dead {
			m.core.Stop(m.clock())
			m.pump()
		}
	}
	h.runUntil(h.now + 3*time.Second)
	h.end()
}

// act is one random thing that happens.
func (h *history) act() {
	m := h.members[h.rng.IntN(len(h.members))]
	switch n := h.rng.IntN(100); {
	case n < 83:
		for range 1 + h.rng.IntN(6) {
			if h.rng.IntN(6) == 0 {
				m.wantSeveral()
			} else {
				m.want()
			}
		}
	case n < 84:
		h.cut = true
		h.after(time.Duration(h.rng.IntN(3000))*time.Millisecond, func() { h.cut = false })
	case n < 87:
		m.wakes = h.now + time.Duration(h.rng.IntN(5000))*time.Millisecond
	case n < 89 && !m.dead && len(h.members) < 6:
		h.lossy, m.dead = true, true
		h.join(seeded(h.rng.Uint64()))
	case n < 90 && len(h.members) < 6:
		m.copy()
	case n < 94:
		if err := h.apply(h.docs[h.rng.IntN(len(h.docs))]); err != nil {
			h.broken("apply: %v", err)
		}
	case n < 97:
		if err := h.cp.Refresh(context.Background()); err == nil {
			err = h.cp.Reconcile(context.Background())
			if err != nil {
				h.broken("reconcile: %v", err)
			}
		}
	default:
		_, err := h.cp.RevokeLeases(context.Background(), &pb.RevokeLeasesRequest{
			Key: wireKey(h.key()), Who: "tester", Why: "history"})
		if err != nil {
			h.broken("revoke: %v", err)
		}
	}
}

// late is by how much a timer is late: callers may come before the agent's loops.
func (h *history) late() time.Duration {
	if h.calm || h.rng.IntN(3) > 0 {
		return 0
	}
	return time.Duration(h.rng.IntN(150)) * time.Millisecond
}

func (h *history) key() quota.Key {
	return quota.Key{Tenant: "acme", Dimension: historyDimensions[h.rng.IntN(len(historyDimensions))]}
}

// want is one caller, as the facade serves it.
func (m *member) want() {
	if !m.awake() {
		return
	}
	key, cost := m.key(), int64(1)
	switch m.rng.IntN(12) {
	case 0:
		cost = 0
	case 1:
		cost = int64(2 + m.rng.IntN(9))
	case 2:
		cost = int64(1 + m.rng.IntN(60))
	}
	now := m.clock()
	defer m.observe()
	if k := m.core.Table.Find(key); k != nil {
		if t := k.Take(now, cost); t.Allowed || t.Denied {
			m.answered(key, cost, Outcome{Taken: t}, nil)
			m.reserve(key, cost, Outcome{Taken: t})
			if t.Low {
				m.core.Low(now, k)
			}
			m.pump()
			return
		}
	}
	c := &caller{}
	c.w = &Waiter{Key: key, Cost: cost, Done: func(o Outcome) {
		c.answers++
		m.answered(key, cost, o, c.w)
	}}
	m.callers = append(m.callers, c)
	m.core.Want(now, c.w)
	m.pump()
	m.patience(c, 10*time.Millisecond, m.rng.IntN(15) == 0)
}

func (m *member) patience(c *caller, d time.Duration, leaves bool) {
	m.deliver(d, func() {
		switch {
		case c.answers > 0:
		case leaves:
			c.gone = true
			m.core.Abandon(c.w)
		case d < time.Second && (c.w.Exact() || c.w.Cost == 0):
			m.patience(c, time.Second, false)
		default:
			if o, mine := m.core.GiveUp(m.clock(), c.w); mine {
				c.w.Done(o)
			}
		}
	})
}

// answered counts what a caller was allowed, in the window that it is charged to.
func (m *member) answered(key quota.Key, cost int64, o Outcome, w *Waiter) {
	if o.Remaining < 0 || o.Reset < 0 || o.RetryIn < 0 || o.Allowed && (o.Denied || o.Unavailable) {
		m.broken("answer %+v", o)
	}
	if o.Allowed && o.Reason == "" && w != nil && w.Exact() {
		m.did["spend"]++
	}
	m.did[fmt.Sprintf("allowed %v, unavailable %v, %s", o.Allowed, o.Unavailable, o.Reason)]++
	if !o.Allowed || cost == 0 {
		return
	}
	dim, _ := m.core.Dimension(key.Dimension)
	account := ledger.AccountID{Key: key, Window: dim.Calendar.WindowAt(m.ledgerNow())}
	if o.Reason == quota.OpenMode || o.Reason == quota.Cold {
		if dim.Class == quota.Exact || dim.Class == quota.Hard {
			m.broken("%s went on without a lease", key)
		}
		account.Window = dim.Calendar.WindowAt(m.core.LedgerTime(m.clock()))
		m.truth(account).open += cost
		return
	}
	if spent, ok := m.decided[w]; ok && w != nil {
		account.Window = spent
	}
	m.truth(account).leased += cost
}

func (h *history) truth(id ledger.AccountID) *truth {
	t, ok := h.truths[id]
	if !ok {
		t = &truth{}
		h.truths[id] = t
	}
	return t
}

// notify turns the journal into notices, as the control plane does; some are lost.
func (h *history) notify() {
	events, err := h.store.Events(context.Background(), h.journal, 100)
	if err != nil {
		h.broken("journal: %v", err)
	}
	for _, e := range events {
		h.journal = e.ID
		n := &pb.Notice{Key: wireKey(e.Account.Key), Generation: e.Generation,
			Window: &pb.Window{StartUs: e.Account.Window.Start.UnixMicro(), EndUs: e.Account.Window.End.UnixMicro()}}
		if e.Kind == ledger.EventRevoked {
			n.RevokedGrant = e.Grant.Bytes()
		} else if e.Kind != ledger.EventGrew && e.Kind != ledger.EventLimit {
			continue
		}
		for _, m := range h.members {
			if d, ok := h.delay(); ok && !h.cut {
				m.deliver(d, func() { m.core.Notice(m.clock(), n) })
			}
		}
	}
}

// check compares what callers were allowed with the ledger's books (DESIGN 3.3).
func (h *history) check() {
	accounts, err := h.store.Accounts(context.Background(), ledger.AccountQuery{})
	if err != nil {
		h.broken("accounts: %v", err)
	}
	for _, a := range accounts {
		t := h.truth(a.ID)
		var bare int64
		for id, n := range h.bare {
			if h.bareIn[id] == a.ID {
				bare += n
			}
		}
		bound := int64(a.Bound()) + t.slack
		if !h.lossy {
			bound -= bare
		}
		if t.leased > bound {
			h.broken("%s: %d used of leases and spends, the ledger knows of %d (of it unleased %d): %+v", a.ID, t.leased, a.Bound(), bare, a.Tally)
		}
		most := int64(a.Largest.Units) + t.open + t.slack
		if (a.Class == quota.Hard || a.Class == quota.Exact) && t.leased+t.open > most {
			h.broken("%s: %d used, the largest limit was %d", a.ID, t.leased+t.open, a.Largest.Units)
		}
	}
}

// rest is what must be true a ttl and a grace after the last fault, with Syncs flowing.
func (h *history) rest() {
	h.check()
	for _, m := range h.members {
		if m.dead {
			continue
		}
		if m.core.Owes() || len(m.core.dirty) > 0 && !m.syncing || len(m.core.early) > 0 || len(m.core.spends) > 0 {
			h.broken("at rest an agent owes %v, has %d keys with something to say, %d spends", m.core.Owes(), len(m.core.dirty), len(m.core.spends))
		}
		if m.syncs > 15 {
			h.broken("%d Syncs in 3 s of rest", m.syncs)
		}
	}
	accounts, _ := h.store.Accounts(context.Background(), ledger.AccountQuery{})
	for _, a := range accounts {
		t := h.truth(a.ID)
		if a.Outstanding != 0 {
			h.broken("%s: %d still outstanding", a.ID, a.Outstanding)
		}
		if used := t.leased + t.open; !h.lossy && (int64(a.Settled()) != used || a.Held != 0 || a.Uncertain != 0) {
			h.broken("%s: %d were used (%d of it unleased), the ledger has settled %+v", a.ID, used, t.open, a.Tally)
		}
	}
	for _, c := range h.callers {
		if c.answers > 1 || c.gone && c.answers > 0 || c.answers == 0 && !c.gone && !h.lossy {
			h.broken("a caller got %d answers (left before: %v)", c.answers, c.gone)
		}
	}
	_, _ = h.store.Verify(context.Background(), func(d ledger.Difference) { h.broken("ledger: %v", d) }, func(int, int) {})
}

// end is what must be true when every agent has stopped.
func (h *history) end() {
	for _, m := range h.members {
		if !m.dead && m.core.Owes() {
			h.broken("a stopped agent still owes")
		}
	}
}

// TestRandomHistories runs many short lives, each from its seed: as many as a few seconds
// allow. QUOTALEASE_HISTORIES=n runs n, however long; QUOTALEASE_HISTORY=seed replays one.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	first, n := uint64(1), uint64(3000)
	least, enough := uint64(100), time.Now().Add(12*time.Second)
	if testing.Short() {
		n = 200
	}
	if s := os.Getenv("QUOTALEASE_HISTORIES"); s != "" {
		n, _ = strconv.ParseUint(s, 10, 32)
		least = n
	}
	if s := os.Getenv("QUOTALEASE_HISTORY"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
		n = 1
	}
	docs := readHistoryPolicies(t)
	var mu sync.Mutex // guards did
	did := map[string]int{}
	const parts = 2
	t.Run("seeds", func(t *testing.T) {
		for part := range uint64(parts) {
			t.Run(strconv.FormatUint(part, 10), func(t *testing.T) {
				t.Parallel()
				for seed := first + part; seed < first+n && !t.Failed(); seed += parts {
					if seed > first+least && time.Now().After(enough) {
						break
					}
					h, err := newHistory(seed, docs)
					if err != nil {
						t.Fatal(err)
					}
					if h.live(); h.fault != "" {
						t.Errorf("%s\nreplay: QUOTALEASE_HISTORY=%d go test ./agent/core -run TestRandomHistories", h.fault, seed)
					}
					mu.Lock()
					for what, times := range h.did {
						did[what] += times
					}
					mu.Unlock()
				}
			})
		}
	})
	for _, what := range []string{
		"several: yes", "several: no", "several: spend", "settle",
		"spend", "reincarnate", "allowed true, unavailable false, ", "allowed true, unavailable false, cold",
		"allowed true, unavailable false, open_mode", "allowed false, unavailable false, exhausted",
		"allowed false, unavailable false, leased_out", "allowed false, unavailable false, too_large",
		"allowed false, unavailable true, ",
	} {
		if did[what] == 0 && n >= 100 && !t.Failed() {
			t.Errorf("no history ever saw %q", what)
		}
	}
}
