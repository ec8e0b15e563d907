package controlplane

import (
	"cmp"
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// request is one Sync or Spend on its way through a transaction. An item that cannot be read
// carries its fault and touches nothing.
type request struct {
	isSync bool
	hello  ledger.Hello
	token  ledger.ID // issued in answer to a Sync

	reports  []report
	renewals []renewal
	cancels  []ask // of an ask that is withdrawn, only id and key
	asks     []ask
	spends   []ask
	refunds  []ask   // of a spend, only id and key
	keys     []named // every distinct key named, in order

	// Room for what most requests are: one report, one ask, of one key.
	oneReport [1]report
	oneAsk    [1]ask
	oneKey    [1]named

	// The answer, set when the transaction has ended.
	sync  *pb.SyncReply
	spend *pb.SpendReply
	err   error
}

type report struct {
	ledger.Report
	at    *place // where its account stands, as the attempt knows; nil if it is at fault
	raw   []byte
	fault *pb.Fault
}

type ask struct {
	id        ledger.ID
	key       quota.Key
	want      quota.Units // or a spend's cost
	need      quota.Units
	waiting   quota.Units
	window    quota.Window // of an ask: which it is for; empty: the current one
	emergency bool         // of an ask: an allowance for an outage
	group     int32        // of a spend: those of one number above 0 are spent all or none
	notAfter  time.Time
	raw       []byte
	fault     *pb.Fault
	at        *place // where the window that it asks for stands, as the attempt knows; nil if it is at fault
}

type named struct {
	key   quota.Key
	fault *pb.Fault
	at    *place // as the attempt knows
}

// size is how much work the request is, in items.
func (r *request) size() int {
	return 1 + len(r.reports) + len(r.cancels) + len(r.renewals) + len(r.asks) + len(r.spends) + len(r.refunds) + len(r.keys)
}

// readSync checks every field of a Sync. The error is about the message as a whole; what is
// wrong with one item stays with the item.
func readSync(m *pb.SyncRequest, token ledger.ID) (*request, error) {
	hello, err := helloOf(m.GetHello())
	if err != nil {
		return nil, err
	}
	if err := capped(listed{"reports", len(m.GetReports())}, listed{"cancels", len(m.GetCancels())},
		listed{"renewals", len(m.GetRenewals())}, listed{"asks", len(m.GetAsks())}, listed{"keys", len(m.GetKeys())}); err != nil {
		return nil, err
	}
	r := &request{isSync: true, hello: hello, token: token}
	r.reports = slices.Grow(r.oneReport[:0], len(m.GetReports()))
	r.asks, r.keys = slices.Grow(r.oneAsk[:0], len(m.GetAsks())), r.oneKey[:0]
	var seen keySet
	for _, k := range m.GetKeys() {
		r.name(k, &seen)
	}
	for _, x := range m.GetReports() {
		r.reports = append(r.reports, readReport(x, hello.Incarnation))
		r.name(x.GetKey(), &seen)
	}
	for _, x := range m.GetCancels() {
		r.cancels = append(r.cancels, readAsk(x.GetGrantId(), x.GetKey()))
	}
	for _, x := range m.GetRenewals() {
		r.renewals = append(r.renewals, readRenewal(x, hello.Incarnation))
		r.name(x.GetKey(), &seen)
	}
	for _, x := range m.GetAsks() {
		a := readAsk(x.GetGrantId(), x.GetKey())
		a.want, a.need = quota.Units(x.GetWant()), quota.Units(x.GetNeed())
		a.emergency, a.waiting = x.GetEmergency(), quota.Units(x.GetWaiting())
		var err error
		if a.window, err = windowOf(x.GetWindow()); err != nil && a.fault == nil {
			a.fault = faultOf(err)
		}
		r.asks = append(r.asks, a)
		r.name(x.GetKey(), &seen)
	}
	return r, nil
}

// readSpend checks every field of a Spend.
func readSpend(m *pb.SpendRequest) (*request, error) {
	hello, err := helloOf(m.GetHello())
	if err != nil {
		return nil, err
	}
	if err := capped(listed{"items", len(m.GetItems())}, listed{"refunds", len(m.GetRefunds())}); err != nil {
		return nil, err
	}
	r := &request{hello: hello}
	r.spends, r.keys = slices.Grow(r.oneAsk[:0], len(m.GetItems())), r.oneKey[:0]
	var seen keySet
	for _, x := range m.GetItems() {
		a := readAsk(x.GetSpendId(), x.GetKey())
		a.want = quota.Units(x.GetCost())
		if at := x.GetNotAfterUs(); at < 0 || at > lastInstant {
			a.fault = fault(ledger.CodeInvalid, "not_after_us", "an instant, or 0 for none")
		} else if at > 0 {
			a.notAfter = quota.At(time.UnixMicro(at))
		}
		if a.group = x.GetGroup(); a.group < 0 {
			a.fault = fault(ledger.CodeInvalid, "group", "0 for none, or a number above it")
		}
		r.spends = append(r.spends, a)
		r.name(x.GetKey(), &seen)
	}
	for _, x := range m.GetRefunds() {
		r.refunds = append(r.refunds, readAsk(x.GetGrantId(), x.GetKey()))
	}
	return r, nil
}

func readReport(x *pb.Report, agent ledger.ID) report {
	r := report{raw: x.GetGrantId(), Report: ledger.Report{
		Agent: agent, Taken: quota.Units(x.GetTaken()), Refunded: quota.Units(x.GetRefunded()),
		Returned: quota.Units(x.GetReturned()), Final: x.GetFinal(), Unleased: x.GetUnleased(),
		Seq: x.GetSeq(), InUse: quota.Units(x.GetInUse()),
	}}
	var idErr, keyErr, windowErr error
	r.ID, idErr = idOf("grant_id", x.GetGrantId())
	r.Account.Key, keyErr = keyOf(x.GetKey())
	r.Account.Window, windowErr = windowOf(x.GetWindow())
	if err := cmp.Or(idErr, keyErr, windowErr); err != nil {
		r.fault = faultOf(err)
	}
	return r
}

func readAsk(raw []byte, key *pb.Key) ask {
	a := ask{raw: raw}
	var idErr, keyErr error
	a.id, idErr = idOf("grant_id", raw)
	a.key, keyErr = keyOf(key)
	if err := cmp.Or(idErr, keyErr); err != nil {
		a.fault = faultOf(err)
	}
	return a
}

// fewKeys are compared one by one, more are hashed.
const fewKeys = 8

// keySet is the keys that a request names.
type keySet map[quota.Key]bool

// has reports whether a key is among those that r names so far.
func (s *keySet) has(r *request, key quota.Key) bool {
	if len(r.keys) < fewKeys {
		return slices.ContainsFunc(r.keys, func(n named) bool { return n.key == key })
	}
	if *s == nil {
		*s = keySet{}
		for _, n := range r.keys {
			(*s)[n.key] = true
		}
	}
	return (*s)[key]
}

// name adds a key whose state the answer tells.
func (r *request) name(k *pb.Key, seen *keySet) {
	key, err := keyOf(k)
	if seen.has(r, key) {
		return
	}
	if *seen != nil {
		(*seen)[key] = true
	}
	n := named{key: key}
	if err != nil {
		n.fault = faultOf(err)
	}
	r.keys = append(r.keys, n)
}

// refuse ends the request with an error of its own.
func (r *request) refuse(err error) { r.sync, r.spend, r.err = nil, nil, err }
