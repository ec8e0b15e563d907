package world

import (
	"fmt"
	"strings"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// What happens in plain words, for people who read a history.

func shortID(id uuid.UUID) string { return id.String()[24:] }

func shortBytes(id []byte) string { return shortID(uuid.FromBytesOrNil(id)) }

const nothing = "nothing"

func list(words []string) string {
	if len(words) == 0 {
		return nothing
	}
	return strings.Join(words, "; ")
}

func requestWords(r *pb.SyncRequest) string {
	var words []string
	for _, x := range r.GetReports() {
		word := fmt.Sprintf("%s of %s: taken %d, returned %d", shortBytes(x.GetGrantId()), keyOf(x.GetKey()), x.GetTaken(), x.GetReturned())
		if x.GetRefunded() > 0 {
			word += fmt.Sprintf(", refunded %d", x.GetRefunded())
		}
		if x.GetSeq() > 0 {
			word += fmt.Sprintf(", in use %d", x.GetInUse())
		}
		if x.GetFinal() {
			word += ", final"
		}
		if x.GetUnleased() {
			word += ", without a lease"
		}
		words = append(words, word)
	}
	for _, x := range r.GetCancels() {
		words = append(words, "withdraw "+shortBytes(x.GetGrantId()))
	}
	for _, x := range r.GetAsks() {
		words = append(words, fmt.Sprintf("ask %s for %d of %s, at least %d", shortBytes(x.GetGrantId()), x.GetWant(), keyOf(x.GetKey()), x.GetNeed()))
	}
	for _, x := range r.GetRenewals() {
		words = append(words, fmt.Sprintf("renew %s of %s: in use %d, returned %d", shortBytes(x.GetGrantId()), keyOf(x.GetKey()), x.GetInUse(), x.GetReturned()))
	}
	for _, x := range r.GetKeys() {
		words = append(words, fmt.Sprintf("how is %s", keyOf(x)))
	}
	return "in a Sync: " + list(words)
}

func syncWords(r *pb.SyncReply) string {
	switch {
	case r == nil:
		return "no answer to its Sync"
	case r.GetNewIncarnation():
		return "that it is a copy"
	}
	var words []string
	for _, x := range r.GetResults() {
		if f := x.GetFault(); f != nil {
			words = append(words, fmt.Sprintf("report on %s refused: %s", shortBytes(x.GetGrantId()), f.GetCode()))
		}
	}
	if c := r.GetCatalogue(); c != nil {
		words = append(words, fmt.Sprintf("policy version %d", c.GetPolicyVersion()))
	}
	return "the answer to its Sync: " + list(append(words, decisionWords(r.GetDecisions())...))
}

func decisionWords(list []*pb.Decision) (words []string) {
	for _, d := range list {
		word := fmt.Sprintf("%s granted %d", shortBytes(d.GetGrantId()), d.GetAmount())
		if f := d.GetFault(); f != nil {
			word = fmt.Sprintf("%s refused: %s", shortBytes(d.GetGrantId()), f.GetCode())
		} else if d.GetAmount() == 0 {
			word = fmt.Sprintf("%s denied: %s", shortBytes(d.GetGrantId()), d.GetReason())
		}
		words = append(words, word)
	}
	return words
}

func spendWords(r *pb.SpendRequest) string {
	var words []string
	for _, x := range r.GetItems() {
		words = append(words, fmt.Sprintf("%s: %d of %s", shortBytes(x.GetSpendId()), x.GetCost(), keyOf(x.GetKey())))
	}
	for _, x := range r.GetRefunds() {
		words = append(words, "take back "+shortBytes(x.GetGrantId()))
	}
	return "in a Spend: " + list(words)
}

func spendReplyWords(r *pb.SpendReply) string {
	if r == nil {
		return "no answer to its Spend"
	}
	return "the answer to its Spend: " + list(decisionWords(r.GetDecisions()))
}

func outcomeWords(key quota.Key, cost int64, o core.Outcome) string {
	what := fmt.Sprintf("a caller of %d of %s: ", cost, key)
	if cost == 0 {
		what = fmt.Sprintf("a peek at %s: ", key)
	}
	switch {
	case o.Bad != nil:
		return what + "no such thing"
	case o.Unavailable:
		return what + "unavailable"
	case o.Allowed && o.Reason != "":
		return what + "allowed, " + string(o.Reason)
	case o.Allowed:
		return what + "allowed"
	}
	return what + "denied, " + string(o.Reason)
}

func grantWords(g ledger.Grant) string {
	what := map[ledger.GrantKind]string{ledger.KindLease: "lease", ledger.KindSpend: "spend", ledger.KindUnleased: "use without a lease", ledger.KindEmergency: "allowance", ledger.KindSlots: "slots", ledger.KindCredit: "credit", ledger.KindRelease: "release"}[g.Kind]
	s := fmt.Sprintf("%s %s of %s is %s: amount %d, taken %d, returned %d", what, shortID(g.ID), g.Account.Key, g.State, g.Amount, g.Taken, g.Back)
	if g.Kind == ledger.KindSlots {
		s += fmt.Sprintf(", in use %d", g.InUse)
	}
	if g.Uncertain > 0 {
		s += fmt.Sprintf(", uncertain %d", g.Uncertain)
	}
	if g.Reason != "" {
		s += ", " + string(g.Reason)
	}
	if g.Refunded > 0 {
		s += ", refunded"
	}
	if !g.RevokedAt.IsZero() {
		s += ", revoked"
	}
	return s
}

func severalWords(g *core.Group, o core.Outcome) string {
	what := "a caller of several keys: "
	switch {
	case o.Bad != nil:
		return what + "no such thing"
	case o.Unavailable:
		return what + "unavailable, " + o.Key.Dimension
	case o.Allowed:
		var words []string
		g.EachPart(func(p core.Part) {
			by := "by a spend"
			switch {
			case len(p.Slots) > 0:
				by = "on " + shortID(p.Slots[0].Lease)
			case p.Free:
				by = "without a lease"
			case !p.Lease.IsNil():
				by = "of " + shortID(p.Lease)
			}
			words = append(words, fmt.Sprintf("%d of %s %s", p.Cost, p.Key, by))
		})
		return what + "allowed, " + strings.Join(words, ", ")
	}
	return what + "denied, " + string(o.Reason) + " by " + o.Key.Dimension
}
