package ledger

import "errors"

// Report is what an agent says of one grant: cumulative counters, none ever falling, merged
// by maximum, so that reports may be lost, repeated and reordered (3.11).
type Report struct {
	ID       ID
	Account  AccountID
	Agent    ID
	Taken    Units
	Refunded Units
	Returned Units
	Final    bool // nothing will be taken from this grant any more; sticky
	Unleased bool // the id is a zero-amount grant that the agent names (3.13)

	Seq   int64 // slots: of this report; that with the highest counts (3.9)
	InUse Units // slots: in use at that moment
}

// Report merges a report and returns the grant as it then stands. A late report is always
// accepted (3.7); a report that breaks the protocol changes nothing.
func (b *Book) Report(r Report) (Grant, error) {
	if err := r.validate(); err != nil {
		return Grant{}, err
	}
	a, err := b.opened(r.Account)
	if err != nil {
		return Grant{}, err
	}
	g, known := b.grants[r.ID]
	if known && (g.Account != r.Account || g.Agent != r.Agent || g.Kind == KindSpend) {
		return Grant{}, refuse(CodeForeign, r.ID, "grant_id", "a grant of this agent and account")
	}
	if known && g.Amount > 0 && r.Returned > g.Amount {
		return Grant{}, refuse(CodeContradiction, r.ID, "returned", "at most the amount granted, %d", g.Amount)
	}
	var was Grant
	if known {
		was = *g.Grant
	} else if was, err = b.unknown(r, a.Account); err != nil {
		return Grant{}, err
	}
	if was.Kind == KindSlots {
		return b.reportSlots(a, was, r)
	}
	if r.Seq != 0 || r.InUse != 0 {
		return Grant{}, refuse(CodeContradiction, r.ID, "in_use", "0: this is no lease of slots")
	}
	after := was
	after.Taken = max(after.Taken, r.Taken)
	after.Refunded = max(after.Refunded, r.Refunded)
	if after.Amount > 0 {
		after.Back = max(after.Back, r.Returned)
	}
	if err := b.checkMerged(a.Account, was, after, r.Final); err != nil {
		return Grant{}, err
	}
	if r.Final && (after.State == Live || after.State == Closed) {
		after.State = Final
	}
	after.normalise()
	if known && after == was {
		return was, nil
	}
	if err := b.change(a, after); err != nil {
		return Grant{}, err
	}
	return *b.grants[r.ID].Grant, nil
}

func (r Report) validate() error {
	switch {
	case r.ID.IsNil():
		return refuse(CodeInvalid, r.ID, "grant_id", "a UUID")
	case r.Taken < 0:
		return refuse(CodeInvalid, r.ID, "taken", "0 or more")
	case r.Refunded < 0:
		return refuse(CodeInvalid, r.ID, "refunded", "0 or more")
	case r.Returned < 0:
		return refuse(CodeInvalid, r.ID, "returned", "0 or more")
	case r.Seq < 0:
		return refuse(CodeInvalid, r.ID, "seq", "0 or more")
	case r.InUse < 0:
		return refuse(CodeInvalid, r.ID, "in_use", "0 or more")
	case r.Refunded > r.Taken:
		return refuse(CodeContradiction, r.ID, "refunded", "at most what was taken, %d", r.Taken)
	}
	return nil
}

func (b *Book) checkMerged(a *Account, was, after Grant, final bool) error {
	if after.Refunded > after.Taken {
		return refuse(CodeContradiction, after.ID, "refunded", "at most what was taken, %d", after.Taken)
	}
	// What a final report refunds goes back to the pool by itself (see normalise), so only
	// what was neither taken nor returned is missing, whatever order reports arrive in.
	if final && after.Amount-after.Back > after.Taken {
		return refuse(CodeContradiction, after.ID, "final", "taken + returned of at least the amount, %d", after.Amount)
	}
	return b.checkStep(a, after, was.use())
}

// checkStep refuses a jump of use that no window could have held (3.13).
func (b *Book) checkStep(a *Account, after Grant, from Units) error {
	if a.Largest.Unlimited {
		return nil
	}
	if most := max(a.Largest.Units, after.Amount, 1); after.use()-from > most {
		return refuse(CodeStep, after.ID, "taken", "steps of at most %d, the largest limit of this window", most)
	}
	return nil
}

// unknown makes the record that use without a known grant is reported against: unleased use
// if the agent says so (3.13), a cancelled denial otherwise (3.12).
// The id of unleased use serves its whole window, so it is not too old before that ends.
func (b *Book) unknown(r Report, a *Account) (Grant, error) {
	g, err := b.withdrawn(r.ID, a, r.Agent)
	if !r.Unleased {
		return g, err
	}
	var refused *ProtocolError
	forgiven := errors.As(err, &refused) && refused.Code == CodeTooOld && a.ID.Window.Contains(b.nowAt(a))
	if err != nil && !forgiven {
		return Grant{}, err
	}
	return Grant{
		ID: r.ID, Account: a.ID, Kind: a.unleasedKind(), State: Final, Class: a.Class, Agent: r.Agent,
		Generation: a.Generation, PolicyVersion: a.PolicyVersion, IssuedAt: b.nowAt(a),
	}, nil
}
