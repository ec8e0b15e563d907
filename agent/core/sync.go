package core

import (
	"bytes"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Most that one Sync carries of each. What is left over goes in the next one, at once.
const (
	maxReports = 2000
	maxAsks    = 1000
	maxKeys    = 1000
)

// syncInFlight remembers what a Sync said, to know what its reply acknowledges.
type syncInFlight struct {
	request  *pb.SyncRequest
	sent     Instant
	reports  []sentReport
	renewals []sentSlots
	asks     []*Key // whose it was, for each ask
	keys     []*Key // in the order in which they stood in line
}

type sentReport struct {
	key      *Key
	lease    ID // unless it is of one of the others
	unleased *unleased
	slots    *sentSlots
	report   report
}

// NextSync is when BuildSync may have a request, given no event before that.
func (c *Core) NextSync() Instant {
	switch {
	case c.syncing != nil:
		return c.syncing.sent + time.Hour
	case c.hasToSay():
		return c.retryAt
	default:
		return max(min(c.syncAt, c.lazyAt), c.retryAt)
	}
}

// hasToSay reports that a Sync is due whatever the time.
func (c *Core) hasToSay() bool {
	return len(c.dirty) > 0 || len(c.news) > 0 || len(c.cancels) > 0 || c.Failing()
}

// BuildSync returns the next request, or nil if none is due or one is in flight. Sending it
// is the caller's part, and so is to call SyncDone with what came of it.
func (c *Core) BuildSync(now Instant) *pb.SyncRequest {
	if c.syncing != nil || now < c.retryAt {
		return nil
	}
	if now < min(c.syncAt, c.lazyAt) && !c.hasToSay() {
		return nil
	}
	if now >= c.syncAt-c.beat || c.Failing() {
		c.heartbeat(now) // one that is due soon needs no Sync of its own
	}
	c.gather(now)
	if c.silent(now) {
		return nil
	}
	s := &syncInFlight{sent: now, request: &pb.SyncRequest{Hello: c.hello()}}
	s.request.Cancels = c.cancels[:min(len(c.cancels), maxAsks)]
	for _, k := range c.dirty {
		if len(s.request.Reports) >= maxReports || len(s.request.Asks) >= maxAsks || len(s.request.Renewals) >= maxAsks || len(s.request.Keys) >= maxKeys {
			break
		}
		s.add(now, c, k)
	}
	c.syncing = s
	return s.request
}

func (c *Core) hello() *pb.Hello {
	return &pb.Hello{
		Incarnation: c.incarnation.Bytes(), Name: c.cfg.Name, Region: c.cfg.Region,
		PolicyVersion: c.told, Token: c.token,
	}
}

// add puts all that a key has to say into the request: reports before asks, so that the
// ledger sizes the next lease by what this agent really holds.
func (s *syncInFlight) add(now Instant, c *Core, k *Key) {
	s.keys = append(s.keys, k)
	if k.ask != nil {
		c.returnUseless(now, k)
	}
	c.sealSpent(k)
	for _, l := range slices.Concat(k.closing, k.held(), k.allowances()) {
		if r := l.now(); r != l.reported() {
			l.own().said = r
			s.reports = append(s.reports, sentReport{key: k, lease: l.id, report: r})
			s.request.Reports = append(s.request.Reports, &pb.Report{
				GrantId: l.id.Bytes(), Key: wireKey(k.ID()), Window: l.window,
				Taken: r.taken, Refunded: r.refunded, Returned: r.returned, Final: r.final, Emergency: l.emergency,
			})
		}
	}
	for _, u := range k.unleased {
		if !u.owes() {
			continue
		}
		r := report{taken: min(u.taken, u.acked+u.most(k))}
		r.refunded = min(u.refunded, r.taken)
		s.reports = append(s.reports, sentReport{key: k, unleased: u, report: r})
		s.request.Reports = append(s.request.Reports, &pb.Report{
			GrantId: u.id.Bytes(), Key: wireKey(k.ID()), Taken: r.taken, Refunded: r.refunded, Unleased: true,
			Window: &pb.Window{StartUs: u.window.start, EndUs: u.window.end},
		})
	}
	if k.slots != nil {
		s.addSlots(now, k)
	}
	for _, a := range append([]*ask{k.ask, k.next}, k.allowanceAsks()...) {
		if a == nil {
			continue
		}
		if !a.sent {
			a.sent, a.firstSent = true, now
			if a == k.ask && k.slots == nil { // callers came since it was made
				a.waiting = k.waiting()
				a.want = max(a.want, a.waiting)
			}
		}
		s.asks = append(s.asks, k)
		s.request.Asks = append(s.request.Asks, &pb.Ask{
			GrantId: a.id.Bytes(), Key: wireKey(k.ID()), Want: a.want, Need: a.need, Window: a.window, Emergency: a.emergency, Waiting: a.waiting,
		})
	}
	if k.refresh {
		s.request.Keys = append(s.request.Keys, wireKey(k.ID()))
	}
}

// most is what a report of unleased use may grow by at once (3.13). The ledger goes by the
// limits that the window had, which this agent may not know: what it refused was too much.
func (u *unleased) most(k *Key) int64 {
	if u.step > 0 {
		return u.step
	}
	limit := k.dim().Limit
	if v := k.view(); v != nil {
		limit = v.limit
	}
	if limit < 0 {
		return 1 << 62
	}
	return max(limit, 1)
}

// returnUseless seals leases whose rest covers none of the callers in wait: it would count
// against what this agent may hold.
func (c *Core) returnUseless(now Instant, k *Key) {
	if len(k.waiters) == 0 {
		return
	}
	for _, l := range k.held() {
		if !l.live(now) {
			continue
		}
		covers := slices.ContainsFunc(k.waiters, func(w *Waiter) bool { return w.Cost <= l.left() })
		if !covers {
			c.retire(k, l)
		}
	}
}

// SyncDone takes in what came of the Sync in flight: a reply, or nil after an error.
func (c *Core) SyncDone(now Instant, reply *pb.SyncReply) {
	s := c.syncing
	c.syncing = nil
	if s == nil {
		return
	}
	if reply == nil {
		c.failed(now, s.sent)
		c.tellOutage(now, s)
		return
	}
	c.answered(now, s.sent, reply.GetLedgerNowUs())
	c.synced = now
	c.failures, c.retryAt = 0, 0
	c.cancels = c.cancels[len(s.request.GetCancels()):]
	if reply.GetNewIncarnation() {
		c.reincarnate(now)
		return
	}
	c.token = bytes.Clone(reply.GetToken())
	if reply.GetCatalogue() != nil {
		c.adopt(now, reply.GetCatalogue())
	}
	for i, result := range reply.GetResults() {
		if i < len(s.reports) {
			c.acknowledge(now, s.reports[i], result)
		}
	}
	for i, d := range reply.GetRenewals() {
		if i < len(s.renewals) {
			c.slotsRenewed(s.renewals[i], d)
		}
	}
	for _, st := range reply.GetKeys() {
		c.learn(now, st)
	}
	for i, d := range reply.GetDecisions() {
		if i < len(s.asks) {
			c.decided(now, s.asks[i], d)
		}
	}
	clear(c.dirty[:len(s.keys)]) // or the array would keep keys that are forgotten
	if c.dirty = c.dirty[len(s.keys):]; len(c.dirty) == 0 {
		c.dirty = nil
	}
	for _, k := range s.keys {
		k.dirty = false
	}
	for _, k := range s.keys {
		if k.known() {
			c.settleDirty(now, k)
			c.unpark(now, k)
			c.tend(now, k)
		}
	}
	if c.dims != nil {
		c.warmUp(now)
		c.takeInEarly(now)
	}
}

// takeInEarly takes in the callers who came before there was a policy.
func (c *Core) takeInEarly(now Instant) {
	early, groups := c.early, c.earlyGroups
	c.early, c.earlyGroups = nil, nil
	for _, w := range early {
		c.Want(now, w)
	}
	for _, g := range groups {
		c.WantAll(now, g)
	}
}

// tellOutage answers the callers who waited for a Sync that failed: to wait on would not help
// them, and those who come now are answered at once too.
func (c *Core) tellOutage(now Instant, s *syncInFlight) {
	if c.dims == nil {
		early := c.early
		c.early = nil
		for _, w := range early {
			c.finish(now, w, Outcome{Unavailable: true})
		}
		for _, g := range slices.Clone(c.earlyGroups) {
			c.finishAll(now, g, Outcome{Unavailable: true})
		}
	}
	for _, k := range s.keys {
		waiters := k.some().waiters
		k.waiters = nil
		for _, w := range waiters {
			c.disappoint(now, w, k)
		}
		c.tend(now, k) // sent now, an ask has an age to watch
	}
}

// answered notes contact: round trip, the ledger's clock.
func (c *Core) answered(now, sent Instant, ledgerUs int64) {
	c.contact, c.contacted = now, true
	took := max(0, now-sent) // a clock may go back a little when it is sampled anew
	c.rtt += (took - c.rtt) / 4
	if ledgerUs > 0 {
		c.setClock(now, time.UnixMicro(ledgerUs).UTC(), sent+took/2, took/2)
	}
}

// setClock takes in a reading of the ledger's clock that was made somewhere on the way, so it
// is off by half the round trip at most. A slow reply does not replace a better estimate before
// drift has made that worse, unless the two cannot both be true: then the clock was set.
func (c *Core) setClock(now Instant, read time.Time, on Instant, off time.Duration) {
	drifted := c.ledgerErr + (now-c.ledgerOn)/maxDrift
	apart := read.Sub(c.LedgerTime(on)).Abs()
	if c.ledgerErr == unknownErr || off <= drifted || apart > off+drifted {
		c.ledgerAt, c.ledgerOn, c.ledgerErr = read, on, off
	}
}

// Clocks drift apart by 500 ppm at most (DESIGN 4.3), one part in maxDrift.
const (
	maxDrift   = 2000
	unknownErr = -1 // before the first reply
)

// backoff doubles from 50 ms to 2 s, with jitter, for ever. A stop has little time: it tries
// on at short intervals.
func (c *Core) backoff() time.Duration {
	most := 2 * time.Second
	if c.stopping {
		most = 200 * time.Millisecond
	}
	return c.Jitter(min(most, 50*time.Millisecond<<min(c.failures-1, 6)))
}

// settleDirty puts a key back in line, at its end, if it has something left to say.
func (c *Core) settleDirty(now Instant, k *Key) {
	ledger := c.ledgerAt.UnixMicro()
	if len(k.unleased) > 0 {
		k.unleased = slices.DeleteFunc(k.unleased, func(u *unleased) bool {
			return !u.owes() && u.window.end != 0 && u.window.end < ledger
		})
	}
	if k.ask != nil || k.next != nil || len(k.allowanceAsks()) > 0 {
		c.mark(k) // unanswered
	}
	c.speak(now, k)
}

// acknowledge takes in the ledger's answer to one report.
func (c *Core) acknowledge(now Instant, r sentReport, result *pb.ReportResult) {
	if r.slots != nil {
		c.slotsHeard(r, result)
		return
	}
	if f := result.GetFault(); f != nil {
		c.faults[f.GetCode()]++
		if r.unleased != nil {
			c.reportAnew(now, r, f)
			return
		}
		// To repeat what the ledger refuses would never end: a lease that it does not accept
		// reports of is over.
		if l := r.key.leaseOf(r.lease); l != nil {
			c.drop(r.key, l)
		}
		return
	}
	if r.unleased != nil {
		r.unleased.acked, r.unleased.ackedBack = r.report.taken, r.report.refunded
		return
	}
	l := r.key.leaseOf(r.lease)
	if l == nil {
		return
	}
	l.own().reported = r.report
	if r.report.final {
		if l.now() == r.report { // else something was refunded on it meanwhile
			c.drop(r.key, l)
		}
		return
	}
	if result.GetState() != pb.GrantState_GRANT_STATE_LIVE || result.GetRevoked() {
		// The ledger is ahead: the lease is over. What was taken is still reported.
		if !l.isSealed {
			c.end(now, r.key, l)
		}
	}
}

// reportAnew finds another way to report unleased use that the ledger refused: in smaller
// steps, or, if there is no such window, in the present one (a late charge goes to the window
// of its receipt). Only use of what policy no longer knows has nowhere to go.
func (c *Core) reportAnew(now Instant, r sentReport, f *pb.Fault) {
	u := r.unleased
	step := r.report.taken - u.acked
	switch {
	case f.GetCode() == "report_step" && step > 1:
		u.step = step / 2
	case f.GetCode() == "invalid" && f.GetField() == "window" && u.window != c.window(now, r.key):
		c.addUnleasedIn(now, r.key, c.window(now, r.key), max(0, u.taken-u.refunded-u.acked+u.ackedBack))
		u.acked, u.ackedBack = u.taken, u.refunded
	default:
		u.acked, u.ackedBack = u.taken, u.refunded
	}
}

// drop forgets a lease whose last word was said.
func (c *Core) drop(k *Key, l *Lease) {
	l.seal()
	l.gone = true
	k.past += l.leased()
	if l.emergency {
		k.extend.lose(l)
	}
	k.without(l)
	if len(k.closing) > 0 {
		k.closing = slices.DeleteFunc(k.closing, func(o *Lease) bool { return o == l })
	}
}

func wireKey(k quota.Key) *pb.Key { return &pb.Key{Tenant: k.Tenant, Dimension: k.Dimension} }
