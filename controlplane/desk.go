package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quotalease/quotalease/ledger"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// maxAttempts is how often a batch is tried on a newer policy, in other windows or with more
// accounts locked. Each reason comes up once or twice; more means that something is wrong.
const maxAttempts = 8

// Desk answers Syncs and Spends, any number in one transaction. It has no goroutine and no
// queue: the granter feeds it, and simulations call it.
type Desk struct {
	store     ledger.Store
	billing   ledger.Billing
	policies  *policies
	now       func() time.Time
	token     func() (ledger.ID, error)
	retention time.Duration
	metrics   *metrics
	health    *health
	kick      func() // something was written that agents should hear of

	offset atomic.Int64 // of the ledger's clock to this replica's, as last seen, in nanoseconds
	folded ledger.ID    // Keep's walk over old grants goes on after this one; nil: from the oldest
}

// Now estimates the ledger's clock. What is decided by it is checked again with the ledger's
// own reading.
func (d *Desk) Now() time.Time { return d.now().Add(time.Duration(d.offset.Load())) }

// Sync answers one Sync in a transaction of its own.
func (d *Desk) Sync(ctx context.Context, m *pb.SyncRequest) (*pb.SyncReply, error) {
	r, err := d.readSync(m)
	if err != nil {
		return nil, err
	}
	d.answer(ctx, []*request{r})
	return r.sync, r.err
}

// Spend answers one Spend in a transaction of its own.
func (d *Desk) Spend(ctx context.Context, m *pb.SpendRequest) (*pb.SpendReply, error) {
	r, err := readSpend(m)
	if err != nil {
		return nil, err
	}
	d.answer(ctx, []*request{r})
	return r.spend, r.err
}

func (d *Desk) readSync(m *pb.SyncRequest) (*request, error) {
	token, err := d.token()
	if err != nil {
		return nil, outage("make a token", err)
	}
	return readSync(m, token)
}

// answer decides a batch of requests in one transaction and gives each its answer. A request
// on which the rules break is answered alone, and the others are decided without it.
func (d *Desk) answer(ctx context.Context, requests []*request) {
	live := slices.Clone(requests)
	broken := 0
	var p *plan
	for attempts := 0; attempts-broken < maxAttempts && len(live) > 0; attempts++ {
		if p == nil {
			snapshot := d.policies.snapshot()
			if snapshot == nil {
				refuseAll(live, fmt.Errorf("%w: no policy is loaded", ErrUnavailable))
				return
			}
			p = newPlan(snapshot, d.Now(), d.retention)
		}
		done, err := d.attempt(ctx, p, live)
		if err == nil {
			d.publish(done, live)
			return
		}
		lacks, ok := asAgain(err)
		if !ok {
			d.metrics.outages.Inc()
			d.health.set(partLedger, err)
			refuseAll(live, outage("commit decisions", err))
			return
		}
		d.metrics.retries.Inc()
		switch {
		case lacks.failed != nil:
			broken++
			d.metrics.broken.Inc()
			lacks.failed.refuse(fmt.Errorf("decide on a request of %s: %w", lacks.failed.hello.Incarnation, lacks.cause))
			live = slices.DeleteFunc(live, func(r *request) bool { return r == lacks.failed })
		case lacks.stale:
			if err := d.policies.refresh(ctx); err != nil {
				refuseAll(live, outage("reload the policy", err))
				return
			}
			p = nil
		default:
			p.learn(lacks)
		}
	}
	refuseAll(live, fmt.Errorf("%w: no agreement on policy and windows after %d attempts", ErrUnavailable, maxAttempts))
}

// attempt runs one transaction. The last run of the function is the one that was committed.
func (d *Desk) attempt(ctx context.Context, p *plan, requests []*request) (*attempt, error) {
	var done *attempt
	err := d.store.Update(ctx, p.scope(requests), func(b *ledger.Book) error {
		read := d.now()
		var err error
		if done, err = decide(p, b, requests); err == nil {
			done.read = read
		}
		return err
	})
	return done, err
}

// publish hands out the answers of a transaction that committed.
func (d *Desk) publish(done *attempt, requests []*request) {
	suspect := done.book.ClockSuspect()
	since := max(0, d.now().Sub(done.read))
	d.metrics.suspect(suspect)
	d.health.set(partLedger, nil)
	if suspect {
		d.health.set(partClock, ledger.ErrClock)
	} else {
		d.health.set(partClock, nil)
		d.offset.Store(int64(done.now.Sub(done.read)))
	}
	items := 0
	for i, r := range requests {
		done.answers[i].later(since)
		r.sync, r.spend, r.err = done.answers[i].sync, done.answers[i].spend, done.answers[i].err
		items += r.size()
	}
	d.metrics.committed(len(requests), items, done.counts)
	if len(done.counts.events) > 0 {
		d.kick()
	}
}

func refuseAll(requests []*request, err error) {
	for _, r := range requests {
		r.refuse(err)
	}
}

// commitError tells an outage of a store from what the rules said.
func commitError(doing string, err error) error {
	for _, rule := range []error{ledger.ErrStalePolicy, ledger.ErrWindow, ledger.ErrClock, ledger.ErrNotLocked} {
		if errors.Is(err, rule) {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	return outage(doing, err)
}
