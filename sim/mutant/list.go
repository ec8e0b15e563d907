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
			"deadline: a.firstSent + micros(d.GetTtlUs()),", "deadline: now + micros(d.GetTtlUs()),"}}},
		{"wall clock for expiry", []Edit{{"agent/core/reply.go", "deadline: a.firstSent + micros(d.GetTtlUs()),",
			"deadline: c.cfg.Start + time.UnixMicro(d.GetExpiresAtUs()).Sub(c.cfg.Wall),"}}},
		{"a lease is spent past its deadline", []Edit{{"agent/core/lease.go", "now >= l.start && now < l.deadline", "now >= l.start"}}},
		{"a lease is spent before its window", []Edit{{"agent/core/lease.go", "now >= l.start && now < l.deadline", "now < l.deadline"}}},
		{"no ratchet", []Edit{{"ledger/book.go", "if a.Clock.After(b.loaded.Now) || (b.loaded.ClockSuspect && !a.Clock.IsZero()) {",
			"if b.loaded.ClockSuspect && !a.Clock.IsZero() {"}}},
		{"expiry while clocks disagree", []Edit{
			{"ledger/close.go", "if b.expired[id] || b.loaded.ClockSuspect {", "if b.expired[id] {"},
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
		{"a stale spend passes", []Edit{{"ledger/spend.go", "case !s.NotAfter.IsZero() && b.nowAt(a)", "case s.NotAfter.IsZero() && b.nowAt(a)"}}},
		{"a refused spend is not taken back", []Edit{{"agent/core/spend.go", "		return\n	}\n	c.takeBack(s.id, s.key)\n", "		return\n	}\n"}}},
		{"settled leaves out use without a lease", []Edit{{"ledger/account.go", "return t.Leased + t.Spent + t.Unleased + t.Extended }", "return t.Leased + t.Spent + t.Extended }"}}},
	}
}
