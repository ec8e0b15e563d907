//go:build linux

package chaos

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/postgres"
)

// How long the rest state may take. Leases end after ttl + grace, 2.5 s; the rest is patience
// with a busy machine.
const (
	restPatience  = 30 * time.Second
	servePatience = 20 * time.Second
	pollEvery     = 50 * time.Millisecond
)

// settle waits until nothing is out, sees that what has room is served, stops everything and
// holds what callers were told against the ledger.
func (r *round) settle(ctx context.Context) {
	pool, err := postgres.Open(ctx, r.database.dsn(), 2)
	if err != nil {
		r.violated("open the ledger: %v", err)
		return
	}
	defer pool.Close()
	store := postgres.New(pool, postgres.Options{})
	accounts := r.nothingOut(ctx, store)
	r.served(ctx, accounts)
	var stopping sync.WaitGroup
	for _, n := range r.agents {
		stopping.Go(n.stop)
	}
	stopping.Wait()
	accounts = r.nothingOut(ctx, store)
	for _, n := range r.controls {
		n.stop()
	}
	for _, what := range judge(r.history.all(), accounts) {
		r.violated("%s", what)
	}
	if said, err := r.command("ledger", "verify"); err != nil {
		r.violated("ledger verify: %v: %s", err, said)
	}
	r.readLogs()
}

// nothingOut waits for the end of every lease and returns the accounts.
func (r *round) nothingOut(ctx context.Context, store *postgres.Store) []ledger.Account {
	ctx, cancel := context.WithTimeout(ctx, restPatience)
	defer cancel()
	for {
		accounts, err := store.Accounts(ctx, ledger.AccountQuery{})
		var out ledger.Units
		for _, a := range accounts {
			out += a.Outstanding
		}
		if err == nil && out == 0 {
			r.history.say("nothing is out")
			return accounts
		}
		if ctx.Err() != nil {
			r.violated("%d units are still out %s after the last fault (%v)", out, restPatience, err)
			return accounts
		}
		rest(ctx, pollEvery)
	}
}

// roomEnough is what makes a key's take certain to be served: more than all that the checks of
// a round take from one key.
const roomEnough = 100

// served takes one unit of each key that has room, at each agent.
func (r *round) served(ctx context.Context, accounts []ledger.Account) {
	ctx, cancel := context.WithTimeout(ctx, servePatience)
	defer cancel()
	var waiting sync.WaitGroup
	now := time.Now()
	for _, n := range r.agents {
		waiting.Go(func() {
			client := newClient()
			defer client.CloseIdleConnections()
			for _, a := range accounts {
				if a.Headroom() < roomEnough || !a.ID.Window.Contains(now) {
					continue
				}
				for r.take(client, n, a.ID.Key, 1) != allowed {
					if rest(ctx, pollEvery); ctx.Err() != nil {
						r.violated("%s still serves no take of %s, which has %d units of room", n.name, a.ID.Key, a.Headroom())
						break
					}
				}
			}
		})
	}
	waiting.Wait()
}

// alarms are words that no log may hold.
var alarms = []string{"panic", "fatal error", "DATA RACE", "rules broke"}

func (r *round) readLogs() {
	logs, err := filepath.Glob(filepath.Join(r.dir, "*.log"))
	if err != nil || len(logs) != replicas+agents {
		r.violated("find the logs: %v (%v)", logs, err)
	}
	for _, path := range logs {
		content, err := os.ReadFile(path)
		if err != nil {
			r.violated("read a log: %v", err)
		}
		for line := range strings.Lines(string(content)) {
			for _, word := range alarms {
				if strings.Contains(line, word) {
					r.violated("%s says %s", filepath.Base(path), strings.TrimSpace(line))
				}
			}
		}
	}
}
