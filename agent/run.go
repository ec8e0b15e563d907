package agent

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Run keeps the agent in leases until ctx ends, then stops gracefully: it seals every lease,
// reports and returns everything, for at most the stop timeout. What could not be reported by
// then the ledger charges by class when the leases expire. Run may be called once.
func (a *Agent) Run(ctx context.Context) error {
	defer close(a.stopped)
	loops, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	watching, unwatch := context.WithCancel(loops)
	var wg sync.WaitGroup
	wg.Go(func() { a.syncLoop(loops) })
	wg.Go(func() { a.spendLoop(loops) })
	wg.Go(func() { a.tickLoop(loops) })
	wg.Go(func() { a.sweepLoop(loops) })
	wg.Go(func() { a.watchLoop(watching) })
	wg.Go(func() { a.lineLoop(loops) })
	hot := a.keepHot(ctx)
	unwatch()
	a.mu.Lock()
	a.core.Stop(a.now())
	a.mu.Unlock()
	kick(a.syncKick)
	kick(a.spendKick)
	kick(a.lines.kick)
	a.hot.keep(time.Now(), hot)
	patience, over := context.WithTimeout(loops, a.cfg.StopTimeout)
	defer over()
	select {
	case <-a.lines.left:
	case <-patience.Done(): // tickets that were served lapse
	}
	select {
	case <-a.drained:
	case <-patience.Done():
		a.log.Warn("stopped with reports unsent: the ledger will charge by class at expiry")
	}
	cancel()
	wg.Wait()
	return nil
}

// hotEvery is how often the names of the hot keys are written: an agent that is killed leaves
// those of a minute ago.
const hotEvery = time.Minute

// keepHot writes which keys are hot now and then until ctx ends, and returns which are then.
func (a *Agent) keepHot(ctx context.Context) []quota.Key {
	if a.hot.dir == "" {
		<-ctx.Done()
		return nil
	}
	for {
		pause(ctx, nil, hotEvery)
		a.mu.Lock()
		hot := a.core.Hot(a.now(), maxHot)
		a.mu.Unlock()
		if ctx.Err() != nil {
			return hot
		}
		a.hot.keep(time.Now(), hot)
	}
}

// syncLoop has one Sync in flight at a time.
func (a *Agent) syncLoop(ctx context.Context) {
	drained := false
	for ctx.Err() == nil {
		a.mu.Lock()
		now := a.now()
		req := a.core.BuildSync(now)
		next := a.core.NextSync()
		if a.core.Stopping() && !a.core.Owes() && !drained {
			drained = true
			close(a.drained)
		}
		a.mu.Unlock()
		if req == nil {
			pause(ctx, a.syncKick, next-now)
			continue
		}
		call, cancel := context.WithTimeout(ctx, a.cfg.SyncTimeout)
		reply, err := a.uplink.Sync(call, req)
		cancel()
		if err != nil {
			reply = nil
		}
		a.mu.Lock()
		was := a.core.Incarnation()
		newer := a.synced(reply)
		if a.core.Incarnation() != was && a.unhook != nil {
			a.unhook() // the stream tells of the old one's leases
		}
		a.noteContact(err)
		a.mu.Unlock()
		kick(a.tickKick)
		kick(a.spendKick)
		if reply != nil {
			a.terms.keep(time.Now(), newer)
		}
	}
}

// synced takes in the answer to a Sync, or that there was none, and returns the newer terms that
// it brought. The owner holds mu.
func (a *Agent) synced(reply *pb.SyncReply) (newer *pb.Catalogue) {
	a.core.SyncDone(a.now(), reply)
	newer = reply.GetCatalogue()
	if newer.GetPolicyVersion() != a.core.PolicyVersion() {
		newer = nil // this agent could not read it
	}
	if newer != nil {
		_ = a.local.Apply(a.now(), newer) // the core has read it, local limits and all
	}
	if !a.hasMet {
		a.hasMet = true
		close(a.met)
	}
	return newer
}

// spendLoop has one Spend in flight at a time; items gather behind it.
func (a *Agent) spendLoop(ctx context.Context) {
	for ctx.Err() == nil {
		a.mu.Lock()
		sent := a.now()
		req := a.core.BuildSpend(sent, spendPatience)
		a.mu.Unlock()
		if req == nil {
			pause(ctx, a.spendKick, time.Second)
			continue
		}
		call, cancel := context.WithTimeout(ctx, a.cfg.SyncTimeout)
		reply, err := a.uplink.Spend(call, req)
		cancel()
		if err != nil {
			reply = nil
		}
		a.mu.Lock()
		a.core.SpendDone(a.now(), sent, reply)
		a.noteContact(err)
		a.mu.Unlock()
		kick(a.syncKick)
		runtime.Gosched() // who was answered and comes right back is carried by the next one already
	}
}

// tickLoop lets time pass for the core.
func (a *Agent) tickLoop(ctx context.Context) {
	for ctx.Err() == nil {
		a.mu.Lock()
		now := a.now()
		a.core.Tick(now)
		next, ok := a.core.NextTick()
		a.mu.Unlock()
		kick(a.syncKick)
		if !ok {
			next = now + time.Minute
		}
		pause(ctx, a.tickKick, next-now)
	}
}

// watchLoop listens for notices, and reconnects for ever with backoff.
func (a *Agent) watchLoop(ctx context.Context) {
	const first, most = 100 * time.Millisecond, 5 * time.Second
	wait := first
	for ctx.Err() == nil {
		stream, cancel := context.WithCancel(ctx)
		a.mu.Lock()
		incarnation := a.core.Incarnation()
		a.unhook = cancel
		a.mu.Unlock()
		began := time.Now()
		_ = a.uplink.Watch(stream, &pb.WatchRequest{Incarnation: incarnation.Bytes()}, a.noticed)
		cancel()
		if time.Since(began) > most {
			wait = first
		}
		pause(ctx, nil, a.spread(wait))
		wait = min(2*wait, most)
	}
}

func (a *Agent) noticed(reply *pb.WatchReply) {
	a.mu.Lock()
	for _, n := range reply.GetNotices() {
		a.core.Notice(a.now(), n)
		a.lines.news(a.now(), n.GetLines())
	}
	a.mu.Unlock()
	kick(a.syncKick)
	kick(a.tickKick)
}

func (a *Agent) spread(d time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.core.Jitter(d)
}

// maxOffset is how far this machine's wall clock may be from the ledger's before it is worth a
// warning (4.5). Nothing goes by the wall clock once there was contact, so nothing else changes.
const maxOffset = 5 * time.Second

// noteContact logs the loss and the return of contact, once each, and a wall clock that is
// off. The owner holds mu.
func (a *Agent) noteContact(err error) {
	offset := time.Until(a.core.LedgerTime(a.now()))
	off := err == nil && offset.Abs() > maxOffset
	if err == nil && off != a.clockOff {
		a.clockOff = off
		if off {
			a.log.Warn("this machine's wall clock is off; the control plane's time is used", "offset", offset)
		} else {
			a.log.Info("this machine's wall clock agrees with the control plane's again")
		}
	}
	if lost := a.core.Failing(); lost != a.lost {
		a.lost = lost
		if lost {
			a.log.Warn("contact with the control plane lost", "cause", err)
		} else {
			a.log.Info("contact with the control plane regained")
		}
	}
}

// pause waits for a kick, for d to pass, or for ctx to end.
func pause(ctx context.Context, kicked <-chan struct{}, d core.Instant) {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-kicked:
	case <-timer.C:
	}
}
