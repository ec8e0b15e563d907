package ledger

// page is an account in a book, with its grants at hand and what decisions need to know of
// them. The sums follow the grants (see Book.replace), so that no decision goes through all.
type page struct {
	*Account
	locked   bool      // not so: of this account there are only grants, loaded by their ids
	grants   []*entry  // in the order loaded or made
	interest *interest // in its key; nil: not looked up yet
	atHand   Units     // the part of H that may move and whose grants are in the book
	cleared  int       // no grant before this one has any of it
	expired  bool      // due leases were closed in this book
	dirty    bool
}

// entry is a grant in a book.
type entry struct {
	*Grant
	of      *page
	fresh   bool // made in this book
	changed bool
	folded  bool
}

// holder is an agent that has something of an account.
type holder struct {
	of    *page
	agent ID
}

// holding is what it has.
type holding struct {
	unspent    Units // of its live leases
	allowances int   // for an outage, live
}

// page finds an account in the book, also one that is not locked.
func (b *Book) page(id AccountID) (*page, bool) {
	if b.latest != nil && b.latest.ID == id {
		return b.latest, true
	}
	p, ok := b.pages[id]
	if ok {
		b.latest = p
	}
	return p, ok
}

// locked finds an account that the book may change.
func (b *Book) locked(id AccountID) (*page, bool) {
	p, ok := b.page(id)
	return p, ok && p.locked
}

// present is a copy of a page as it is now.
func (b *Book) present(p *page) *page {
	now, account := *p, *p.Account
	b.refill(&account)
	now.Account = &account
	return &now
}

// keep takes a grant into the book.
func (b *Book) keep(g *Grant) *entry {
	p, ok := b.page(g.Account)
	if !ok {
		p = &page{Account: &Account{ID: g.Account}}
		b.pages[g.Account] = p
	}
	if len(b.entries) == cap(b.entries) {
		b.entries = make([]entry, 0, max(64, len(p.grants)))
	}
	b.entries = append(b.entries, entry{Grant: g, of: p})
	e := &b.entries[len(b.entries)-1]
	b.grants[g.ID] = e
	p.grants = append(p.grants, e)
	b.sum(p, &Grant{}, g)
	return e
}

// sum moves what the page says of its grants by the change of one.
func (b *Book) sum(p *page, was, after *Grant) {
	if move := after.movableHeld() - was.movableHeld(); move != 0 {
		p.atHand += move
		if move > 0 {
			p.cleared = 0
		}
	}
	unspent := after.outstanding() - was.outstanding()
	allowances := after.allowances() - was.allowances()
	if unspent == 0 && allowances == 0 {
		return
	}
	who := holder{p, after.Agent}
	has := b.holdings[who]
	has.unspent += unspent
	has.allowances += allowances
	b.holdings[who] = has
}

// outstanding is the grant's part of O.
func (g *Grant) outstanding() Units {
	if g.State != Live {
		return 0
	}
	return g.Tally().Outstanding
}

// allowances is how many live allowances for an outage the grant is.
func (g *Grant) allowances() int {
	if g.Kind == KindEmergency && g.State == Live {
		return 1
	}
	return 0
}

// holds is what an agent has unspent in an account, older leases included.
func (b *Book) holds(a *page, agent ID) Units { return b.holdings[holder{a, agent}].unspent }

// hasAllowance reports whether the agent has one of this window already. Its live grants are
// at hand.
func (b *Book) hasAllowance(a *page, agent ID) bool {
	return b.holdings[holder{a, agent}].allowances > 0
}

// write notes that the account has to be written.
func (b *Book) write(p *page) {
	if !p.dirty {
		p.dirty = true
		b.dirtyPages = append(b.dirtyPages, p)
	}
}
