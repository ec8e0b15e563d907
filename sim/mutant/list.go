package mutant

// Mutant is one mistake: the edits that make it.
type Mutant struct {
	Name  string
	Edits []Edit
}

// Edit replaces a text that occurs once in a file of the module.
type Edit struct {
	File, From, To string
}

// List returns every mutant.
func List() []Mutant {
	return []Mutant{
		{"grace 0", []Edit{{"ledger/ask.go", "g.ClosesAt = g.ExpiresAt.Add(terms.Grace)", "g.ClosesAt = g.ExpiresAt"}}},
		{"deadlines from the reply's time", []Edit{{"agent/core/reply.go",
			"	l.until.Store(int64(a.firstSent + micros(d.GetTtlUs())))\n", "	l.until.Store(int64(now + micros(d.GetTtlUs())))\n"}}},
		{"wall clock for expiry", []Edit{{"agent/core/reply.go", "	l.until.Store(int64(a.firstSent + micros(d.GetTtlUs())))\n",
			"	l.until.Store(int64(c.cfg.Start + time.UnixMicro(d.GetExpiresAtUs()).Sub(c.cfg.Wall)))\n"}}},
		{"a lease is spent past its deadline", []Edit{
			{"agent/core/lease.go", "now >= l.more().start && now < l.deadline()", "now >= l.more().start"},
			{"agent/core/take.go", "if now < k.own.deadline() {", "if k.own.deadline() > 0 {"}}},
		{"a lease is spent before its window", []Edit{{"agent/core/lease.go", "now >= l.more().start && now < l.deadline()", "now < l.deadline()"}}},
		{"no ratchet", []Edit{{"ledger/book.go", "if a.Clock.After(b.loaded.Now) || (b.loaded.ClockSuspect && !a.Clock.IsZero()) {",
			"if b.loaded.ClockSuspect && !a.Clock.IsZero() {"}}},
		{"expiry while clocks disagree", []Edit{
			{"ledger/close.go", "if a.expired || b.loaded.ClockSuspect {", "if a.expired {"},
			{"ledger/book.go", "if a.Clock.After(b.loaded.Now) || (b.loaded.ClockSuspect && !a.Clock.IsZero()) {", "if a.Clock.After(b.loaded.Now) {"}}},
		{"ids of spends reused", []Edit{{"agent/core/spend.go", "s := &spend{id: c.newID(now),", "s := &spend{id: c.incarnation,"}}},
		{"hard given back at the close", []Edit{{"ledger/grant.go", "if g.Class == quota.BestEffort {", "if g.Class != quota.Bounded {"}}},
		{"hard given back on demand", []Edit{
			{"ledger/close.go", "if g.State != Closed || g.Class != quota.Bounded {", "if g.State != Closed {"},
			{"ledger/account.go", "if a.Class != quota.Bounded || a.Kind", "if a.Class == quota.BestEffort || a.Kind"}}},
		{"more given back than the budget", []Edit{{"ledger/account.go", "return min(held, room)", "return held"}}},
		{"a lease outlives its window", []Edit{{"ledger/ask.go", "!end.IsZero() && g.ExpiresAt.After(end) {", "end.IsZero() && g.ExpiresAt.After(end) {"}}},
		{"policy version not read again", []Edit{
			{"controlplane/decide.go", "if b.PolicyVersion() != p.snapshot.Version {", "if b.PolicyVersion() < 0 {"},
			{"ledger/book.go", "if t.PolicyVersion != b.loaded.PolicyVersion || t.PolicyVersion < a.PolicyVersion {", "if t.PolicyVersion < a.PolicyVersion {"}}},
		{"returns not cumulative", []Edit{{"agent/core/lease.go", "l.back += left", "l.back = left"}}},
		{"final without a seal", []Edit{{"agent/core/lease.go", "r.returned, r.final = l.back, l.isSealed", "r.returned, r.final = l.back, l.isSealed || l.renewed"}}},
		{"reports not merged by maximum", []Edit{{"ledger/report.go", "after.Taken = max(after.Taken, r.Taken)", "after.Taken = r.Taken"}}},
		{"a cancel of an unknown id is forgotten", []Edit{{"ledger/close.go", "return b.change(a, record)", "_ = record\n\t\treturn nil"}}},
		{"a denied id is decided anew", []Edit{{"ledger/ask.go", "if g, ok := b.grants[ask.ID]; ok {", "if g, ok := b.grants[ask.ID]; ok && g.Amount > 0 {"}}},
		{"exposure without a cap", []Edit{
			{"ledger/ask.go", "plain := min(free, room)", "plain := free"},
			{"controlplane/sizing.go", "amount := min(r.Want, r.Headroom, r.Exposure)", "amount := min(r.Want, r.Headroom)"},
			{"controlplane/sizing.go", "amount = min(amount, l.Units-r.Holds)", "amount = min(amount, l.Units)"}}},
		{"copies are not told", []Edit{{"ledger/incarnation.go", "	default:\n		return false\n	}", "	}"}}},
		{"growth is kept quiet", []Edit{{"ledger/book.go", "		a.Generation++\n", ""}}},
		{"committed is forgotten", []Edit{{"ledger/book.go", "		a.commit()\n", ""}}},
		{"a stale spend passes", []Edit{{"ledger/spend.go", "case !s.NotAfter.IsZero() && b.nowAt(a.Account)", "case s.NotAfter.IsZero() && b.nowAt(a.Account)"}}},
		{"a refused spend is not taken back", []Edit{{"agent/core/spend.go", "		return\n	}\n	c.takeBack(s.id, s.key)\n", "		return\n	}\n"}}},
		{"settled leaves out use without a lease", []Edit{{"ledger/account.go", "return t.Leased + t.Spent + t.Unleased + t.Extended }", "return t.Leased + t.Spent + t.Extended }"}}},
		{"starts count from the ask", []Edit{{"agent/core/reply.go", "l.rest.start, l.begun = now+wait+wait/maxDrift, false", "l.rest.start, l.begun = a.firstSent+wait, false"}}},
		{"a window that is over decides", []Edit{{"ledger/next.go", "return w.Contains(now) || now.Before(w.Start)", "return !now.Before(w.End) || w.Contains(now) || now.Before(w.Start)"}, {"controlplane/plan.go", "	if x.window != next {", "	if false {"}}},
		{"the next window at any time", []Edit{{"ledger/next.go", "now.Before(w.Start) && !now.Before(w.Start.Add(-lead))", "now.Before(w.Start)"}}},
		{"a pot for each agent", []Edit{{"ledger/emergency.go", ", terms.Pot-a.Emergency)", ")"}}},
		{"two allowances for an agent", []Edit{{"ledger/page.go", "if g.Kind == KindEmergency && g.State == Live {", "if g.Kind == KindEmergency && g.State == Denied {"}}},
		{"a trickle without delay", []Edit{{"ledger/ask.go", "			g.Delay, g.Drip = a.trickle(amount)\n", ""}}},
		{"a trickle that is not waited for", []Edit{{"agent/core/reply.go", "drip > 0 || d.GetDelayUs() > 0 {", "drip < 0 {"}}},
		{"what a close leaves unconfirmed fills the bucket", []Edit{{"ledger/rate.go", "	if was.State == Live {\n		n -= after.Back - was.Back",
			"	if was.State == Live && after.State == Closed {\n		n -= after.Amount - after.use() - was.Back\n	} else if was.State == Live {\n		n -= after.Back - was.Back"}}},
		{"a change of rate fills the bucket", []Edit{{"ledger/rate.go", "	case was.Kind != quota.RateLimit:\n		a.Bucket = Bucket{}", "	case true:\n		a.Bucket = Bucket{At: a.Bucket.At}"}}},
		{"a rate leased beyond its budget", []Edit{
			{"ledger/rate.go", "return max(0, min(level, a.Exposure()))", "return max(0, level)"},
			{"controlplane/sizing.go", "amount := min(r.Want, r.Headroom, r.Exposure)", "amount := min(r.Want, r.Headroom)"},
			{"controlplane/sizing.go", "amount = min(amount, l.Units-r.Holds)", "amount = min(amount, l.Units)"}}},
		{"nothing left outlives growth", []Edit{{"agent/core/denial.go", "if d == nil || d.reason == quota.UnknownTenant ||", "if d == nil || d.drained || d.reason == quota.UnknownTenant ||"}}},
		{"a group partly charged by the ledger", []Edit{{"ledger/group.go", "case !fit && reasons[i] == quota.Allowed:", "case !fit && reasons[i] == quota.Cancelled:"}}},
		{"a group partly charged by the agent", []Edit{{"agent/core/group.go", "	if !o.Allowed {\n		c.release(now, g)\n	}", "	if o.Unavailable {\n		c.release(now, g)\n	}"}}},
		{"a late refund is lost", []Edit{{"agent/core/refund.go", "	l.rest.late += units\n", ""}}},
		{"a copy refunds for its original", []Edit{{"agent/core/refund.go", "if l.life != c.life {", "if l.life > c.life {"}}},
		{"slots freed by a fall of use", []Edit{{"ledger/slots.go", "		after.Seq, after.InUse = r.Seq, r.InUse\n",
			"		after.Back += max(0, min(after.InUse-r.InUse, after.Amount-after.Back))\n		after.Seq, after.InUse = r.Seq, r.InUse\n"}}},
		{"slots freed by their close", []Edit{{"ledger/slots.go", "		g.InUse = 0\n	}\n}\n\n// ended", "		g.InUse, g.Back = 0, g.Amount\n	}\n}\n\n// ended"}}},
		{"a renewal revives a closed lease", []Edit{
			{"ledger/slots.go", "	if g.State == Live {\n		b.see", "	if g.State == Live || g.State == Closed {\n		b.see"},
			{"ledger/slots.go", "	case g.State != Live:\n		return 0", "	case g.State != Live && g.State != Closed:\n		return 0"}}},
		{"slots end at their close", []Edit{
			{"ledger/ask.go", "g.ClosesAt.Add(terms.MaxHold)", "g.ClosesAt"},
			{"ledger/slots.go", "later(g.EndsAt, g.ClosesAt.Add(terms.MaxHold))", "later(g.EndsAt, g.ClosesAt)"}}},
		{"work begins on an ended lease", []Edit{{"agent/core/slots.go", "return !l.retired && now < l.deadline }", "return !l.retired }"}, {"agent/core/slots.go", "now >= l.deadline || c.stopping) {", "c.stopping) {"},
			{"agent/core/groupspend.go", "if now >= h.lease.deadline {", "if h.lease.amount < 0 && now >= h.lease.deadline {"}}},
		{"slots given back while work runs on them", []Edit{{"agent/core/slots.go", "	l.retired = true\n	l.back = l.amount - l.inUse", "	l.retired = true\n	l.back = l.amount"}}},
		{"slots held too long", []Edit{{"agent/core/groupspend.go", "if now >= h.lease.deadline {", "if h.lease.amount < 0 && now >= h.lease.deadline {"}}},
		{"a credit counts twice", []Edit{{"ledger/credit.go", "		a.Credit += x.Units\n", "		a.Credit += 2 * x.Units\n"}}},
		{"more released than asked for", []Edit{{"ledger/credit.go", "part := min(left, g.Tally().Held)", "part := g.Tally().Held"}}},
		{"a statement is not amended", []Edit{{"ledger/statement.go", "if was == is && !first && !final {", "if !first && !final {"}}},
		{"a statement is final at once", []Edit{{"ledger/statement.go", "return !open || ", "return open || !open || "}}},
		{"held units are forgotten with age", []Edit{{"ledger/fold.go", "t.Outstanding == 0 && t.Held == 0 && t.Uncertain == 0", "t.Outstanding == 0"}}},
	}
}
