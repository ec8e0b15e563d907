package ledger

import (
	"slices"
	"time"
)

// Incarnation is one start of an agent, and the tokens that tell it from a copy of itself.
type Incarnation struct {
	ID            ID
	Name          string
	Region        string
	StartedAt     time.Time // first contact
	LastSeen      time.Time
	PolicyVersion int64 // the version the agent said it has
	Echoed        ID    // the token last echoed; nil before the first echo
	Issued        []ID  // every token issued in answer to it
}

// maxIssued caps the tokens kept for an agent that repeats one Sync without ever hearing the
// answer. An older answer that arrives after that many costs it its incarnation, no units.
const maxIssued = 64

// Hello is what a Sync says of its sender.
type Hello struct {
	Incarnation   ID
	Name          string
	Region        string
	PolicyVersion int64
	Token         ID // the one from the last Sync reply; nil on the first Sync
}

// Admit takes a Sync's token and issues fresh in answer (3.15). It accepts the token last
// echoed and every one issued in answer to it; the first echo of one voids the others. False
// means the sender is a copy: its reports count, its asks do not, and it needs a new
// incarnation.
func (b *Book) Admit(h Hello, fresh ID) bool {
	inc, ok := b.incarnations[h.Incarnation]
	if !ok {
		if !h.Token.IsNil() {
			return false
		}
		inc = &Incarnation{ID: h.Incarnation, Name: h.Name, Region: h.Region, StartedAt: b.loaded.Now}
		b.incarnations[h.Incarnation] = inc
	}
	switch {
	case h.Token == inc.Echoed:
		if slices.Contains(inc.Issued, fresh) {
			break
		}
		inc.Issued = append(slices.Clone(inc.Issued), fresh)
		if n := len(inc.Issued); n > maxIssued {
			inc.Issued = inc.Issued[n-maxIssued:]
		}
	case slices.Contains(inc.Issued, h.Token):
		inc.Echoed, inc.Issued = h.Token, []ID{fresh}
	default:
		return false
	}
	inc.PolicyVersion = h.PolicyVersion
	if b.loaded.Now.After(inc.LastSeen) {
		inc.LastSeen = b.loaded.Now
	}
	b.dirtyIncarnations[inc.ID] = true
	return true
}
