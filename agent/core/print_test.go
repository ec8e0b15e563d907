package core

import (
	"fmt"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// written marks a field that Print writes.
const written = "written"

// printed says of every field whether Print writes it, or why it does not matter.
var printed = map[string]map[string]string{
	"Core": {
		"Table": "found by the keys in it, which are written", "cfg": "never changes", "rng": "reads what ids are made of",
		"gen": "makes ids: other bytes, the same behaviour", "incarnation": written, "token": written, "operations": "one for each version, which is written", "descriptors": "one for each version, which is written",
		"dims": "one for each version, which is written", "version": written, "life": written, "told": written, "keys": written, "wakes": "written with the keys", "shared": "what was said, which is written where it was said of",
		"dirty": written, "lazy": written, "lazyAt": written, "news": written, "leading": written, "debts": written, "cancels": written, "warming": written, "early": written, "earlyGroups": written,
		"syncing": written, "syncAt": written, "beat": written, "retryAt": written, "failures": written, "lostAt": written, "contact": written,
		"synced": written, "contacted": written, "rtt": written, "ledgerAt": written, "ledgerOn": written, "ledgerErr": written,
		"spends": written, "spending": written, "refunds": written, "refunded": written, "spendOut": written,
		"reserved": "the same ones by their ids", "reservedOrder": written, "permits": "the same ones by their ids", "permitHeap": written, "endedPermits": written,
		"stopping": written, "faults": aCount, "retired": aCount, "leased": aCount, "exact": aCount, "unleased": aCount, "extended": aCount, "lapsed": aCount,
	},
	"warming": {"keys": written, "until": written},
	"Key": {
		"name": "never changes", "own": written, "terms": written, "headroom": written, "front": written, "denial": written, "signs": written,
		"index": written, "wake": "a place among the moments, which are written", "dirty": written,
		"deferred": written, "refresh": written, "led": written, "leading": written, "rare": written, "lead": written, "leaseCap": written, "generation": written,
		"learned": written, "typical": written, "needHint": written, "demand": written, "lastUse": written, "lastTotal": written,
		"past": "counts in differences of totals only, which are written",
	},
	"rare": {
		"shared": "by those that have nothing in it", "extend": written, "slots": written, "spends": written, "busy": written,
		"ask": written, "next": written, "closing": written, "unleased": written, "waiters": written, "parked": written, "heard": written,
		"vain": written, "lane": written, "nextAsk": written, "full": written, "modest": written,
	},
	"Lease": {
		"bucket": written, "id": written, "window": written, "amount": written, "low": written, "until": written, "rest": written, "back": written,
		"acked":    "the same as in the rest, where there is one",
		"isSealed": written, "emergency": written, "cut": written, "renewed": written, "begun": written, "gone": written, "life": written,
	},
	"leaseRest": {"start": written, "from": written, "full": written, "late": written, "said": written, "reported": written},
	"ask":       {"id": written, "window": written, "want": written, "need": written, "waiting": written, "firstSent": written, "sent": written, "emergency": written},
	"unleased":  {"id": written, "window": written, "taken": written, "acked": written, "refunded": written, "ackedBack": written, "step": written},
	"denial": {"cost": written, "reason": written, "until": written, "retryAt": written, "window": written, "generation": written,
		"largest": written, "drained": written, "settles": written, "edge": written},
	"terms": {"dim": "one for each version, which is written", "told": "nothing else is written then", "limit": written, "version": toCallers, "reason": written,
		"window": written, "windowEnd": written, "length": written, "next": written, "nextEnd": toCallers, "nextLength": toCallers},
	"heard":     {"window": written, "generation": written},
	"lead":      {"window": written, "at": written},
	"lane":      {"on": written, "least": written, "above": written, "turns": aCount},
	"demand":    {"rate": written, "at": written, "total": written},
	"report":    {"taken": written, "refunded": written, "returned": written, "final": written},
	"spend":     {"id": written, "key": written, "cost": written, "waiter": written, "group": written, "settles": written},
	"extension": {"leases": written, "asks": written, "asked": written, "nextAt": written, "paced": written},
	"slotSet": {"leases": written, "unleased": written, "started": "counts in a difference to what demand was last told, which is written",
		"spare": written, "since": written, "serving": written},
	"slotLease": {"id": written, "amount": written, "back": written, "inUse": written, "deadline": written, "renewAt": written, "retired": written,
		"closed": written, "seq": written, "known": written, "step": written},
	"slotUse": {"inUse": written, "back": written},
	"hold":    {"key": written, "lease": written, "slots": written},
	"permit": {"id": written, "takes": written, "holds": written, "hold": written, "until": written, "said": toCallers,
		"index": "follows from the line in which it stands", "began": toCallers, "ended": written, "told": "who hears does not change what the core does"},
	"permitID": {"tenant": written, "id": written},
	"reservation": {"id": written, "key": written, "estimate": written, "maximum": written, "at": written, "window": written, "lease": written, "spend": written,
		"settled": written, "actual": written},
	"spent":    {"id": written, "window": written},
	"windowID": {"start": written, "end": written},
	"Group": {"Tenant": written, "Takes": written, "Keys": written, "Operation": written, "Times": written, "Permit": written, "Hold": written, "Wait": written,
		"Done": "who hears does not change what the core does", "parts": written, "outage": written, "waiter": written, "exact": written, "again": written,
		"over": written, "Ended": "who hears does not change what the core does", "merged": written, "turn": "of a call that has ended", "leaving": written, "permit": written},
	"part": {"key": written, "cost": written, "lease": written, "taken": written, "lane": written, "spend": written, "free": written, "holds": written, "spent": written},
	"Taken": {"Allowed": "a part that was taken has its lease, its slots or its freedom, which are written", "Denied": toCallers, "Low": written, "Reason": written,
		"Remaining": written, "Limit": written, "Largest": toCallers, "RetryIn": toCallers, "Reset": toCallers, "Window": toCallers, "Version": toCallers,
		"lease": "the part's, which is written", "ownOf": "of no part", "serial": "of no part"},
	"outage": {"open": written, "extend": written, "after": written, "span": written, "rate": written, "budget": written},
	"syncInFlight": {"request": "in the network's hands; what the core reads of it is written", "sent": written, "reports": written, "renewals": written,
		"asks": written, "keys": written},
	"sentReport": {"key": written, "lease": written, "unleased": written, "slots": written, "report": written},
	"sentSlots":  {"key": written, "lease": written, "said": written, "seq": written, "sent": written, "final": written},
	"Waiter": {"Key": "the printer's to write: it knows who waits", "Cost": "the printer's", "Done": "the printer's", "key": "where it waits is where it is written",
		"spend": "written with the spends", "group": "written in its place", "exact": "the printer's, by Exact", "again": "the printer's, by Again",
		"over": "one that is over waits nowhere"},
	"wakes": {"at": "written with the keys that they are of", "keys": "whose they are"},
}

const (
	aCount    = "a count to be shown"
	toCallers = "told to callers only"
)

// words is a Printer that keeps everything as it comes.
type words []string

func (w *words) Number(n int64)      { *w = append(*w, fmt.Sprint(n)) }
func (w *words) Word(s string)       { *w = append(*w, s) }
func (w *words) At(at Instant)       { *w = append(*w, at.String()) }
func (w *words) ID(b []byte)         { *w = append(*w, fmt.Sprintf("%x", b)) }
func (w *words) Token(b []byte)      { *w = append(*w, fmt.Sprintf("%x", b)) }
func (w *words) Caller(c *Waiter)    { *w = append(*w, fmt.Sprintf("%s %d", c.Key, c.Cost)) }
func (w *words) Cancel(c *pb.Cancel) { *w = append(*w, fmt.Sprintf("%x", c.GetGrantId())) }

func printOf(c *Core) string {
	var w words
	c.Print(&w)
	return fmt.Sprint(w)
}

// fullCore has something of everything.
func fullCore(t *testing.T) (*Core, map[string]any) {
	d := newDriver(t)
	d.sync()
	d.take(exports, 1)
	d.settle()
	d.take(exports, 90)
	d.settle()
	k, c := d.key(exports), d.core
	c.addUnleased(d.now, k, 1)
	s := &spend{id: c.newID(d.now), key: k, cost: 1}
	c.spends = append(c.spends, s)
	k.denial.Store(&denial{cost: 1, reason: quota.Exhausted, until: d.now + time.Second})
	if k.ask == nil {
		k.ask = &ask{id: c.newID(d.now), want: 1, need: 1}
	}
	c.mark(k)
	if c.syncing == nil && d.build() == nil {
		t.Fatal("no Sync in flight")
	}
	waits, cancel := []*Waiter{{Key: exports, Cost: 1}}, []*pb.Cancel{{GrantId: s.id.Bytes()}}
	k.waiters, k.parked, c.early = waits, waits, waits
	k.closing, c.spending, c.cancels, c.refunds = k.held(), c.spends, cancel, cancel
	c.lazy, c.news, c.leading = []*Key{k}, []*Key{k}, []*Key{k}
	c.warming = warming{keys: []quota.Key{exports}, until: d.now + time.Second}
	if len(k.held()) == 0 || len(k.unleased) == 0 || len(c.syncing.reports) == 0 || k.view() == nil {
		t.Fatal("the core lacks something of what is to be looked at")
	}
	parts := map[string]any{
		"Core": c, "Key": k, "Lease": k.held()[0], "ask": k.ask, "unleased": k.unleased[0], "denial": k.denial.Load(), "terms": k.terms.Load(), "rare": k.rare, "leaseRest": k.held()[0].own(),
		"warming": &c.warming, "heard": &k.heard, "lead": &k.lead, "lane": &k.lane, "windowID": &k.unleased[0].window,
		"demand": &k.demand, "report": &k.held()[0].own().reported, "spend": s, "syncInFlight": c.syncing,
		"Waiter": &Waiter{}, "wakes": &c.wakes,
	}
	fillSlots(c, k, parts)
	fillCallers(c, k, s, parts)
	parts["sentReport"] = &c.syncing.reports[0]
	return c, parts
}

// fillSlots adds slots and an allowance to a core's key, and what was said of them.
func fillSlots(c *Core, k *Key, parts map[string]any) {
	l := &slotLease{id: c.newID(c.contact), amount: 3}
	k.slots = &slotSet{leases: []*slotLease{l}, unleased: &slotLease{id: c.newID(c.contact)}}
	k.extend = &extension{leases: k.held(), asks: []*ask{k.ask}, asked: []int64{1}}
	x := sentSlots{key: k, lease: l, seq: 1}
	c.syncing.reports = append(c.syncing.reports, sentReport{key: k, slots: &x})
	c.syncing.renewals = []sentSlots{x}
	parts["slotSet"], parts["slotLease"], parts["slotUse"], parts["extension"], parts["sentSlots"] = k.slots, l, &l.known, k.extend, &c.syncing.renewals[0]
}

// fillCallers adds what callers hold and wait for.
func fillCallers(c *Core, k *Key, s *spend, parts map[string]any) {
	takes := []KeyCost{{exports, 1}}
	holds := []hold{{key: k, lease: k.slots.leases[0], slots: 1}}
	g := &Group{Tenant: exports.Tenant, Takes: []DimensionCost{{exports.Dimension, 1}}, Keys: takes, merged: takes, outage: &outage{},
		parts: []part{{key: k, cost: 1, lease: k.held()[0], spend: s, holds: holds}}}
	g.waiter = &Waiter{Key: exports, Cost: 1, key: k, group: g}
	c.earlyGroups, k.waiters = []*Group{g}, []*Waiter{g.waiter}
	r := &reservation{id: c.newID(c.contact), key: k, estimate: 1, lease: k.held()[0], spend: &spent{id: s.id}}
	c.reserved[r.id], c.reservedOrder = r, []*reservation{r}
	p := &permit{id: permitID{exports.Tenant, "mine"}, takes: takes, holds: holds, until: c.contact + time.Second, ended: c.contact}
	c.permitHeap, c.endedPermits = permitHeap{p}, []*permit{p}
	parts["Group"], parts["part"], parts["Taken"], parts["outage"], parts["hold"] = g, &g.parts[0], &g.parts[0].taken, g.outage, &holds[0]
	parts["reservation"], parts["spent"], parts["permit"], parts["permitID"] = r, r.spend, p, &p.id
}

// TestPrintLeavesNothingOut knows every field by name, and sees that a change of a plain one that
// Print is said to write changes what it writes.
func TestPrintLeavesNothingOut(t *testing.T) {
	t.Parallel()
	_, parts := fullCore(t)
	for name := range printed {
		if parts[name] == nil {
			t.Errorf("%s: no such thing is looked at", name)
		}
	}
	for name, part := range parts {
		typ := reflect.TypeOf(part).Elem()
		for i := range typ.NumField() {
			if field := typ.Field(i).Name; printed[name][field] == "" {
				t.Errorf("%s.%s: Print neither writes it, nor is there a reason why it does not matter", name, field)
			}
		}
		if len(printed[name]) != typ.NumField() {
			t.Errorf("%s: %d fields are known, it has %d", name, len(printed[name]), typ.NumField())
		}
		for field, how := range printed[name] {
			if how == written {
				changeOne(t, name, field)
			}
		}
	}
}

// changeOne changes one plain field of a core and compares the prints.
func changeOne(t *testing.T, name, field string) {
	t.Helper()
	c, parts := fullCore(t)
	before := printOf(c)
	v := reflect.ValueOf(parts[name]).Elem().FieldByName(field)
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1_000_000)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.SetLen(0)
	case reflect.Array:
		v.Index(0).SetUint(v.Index(0).Uint() ^ 1)
	default:
		return // its own fields are looked at
	}
	if name == "Key" && field == "index" {
		return // a place in the list that is written
	}
	if printOf(c) == before {
		t.Errorf("%s.%s: Print does not write it", name, field)
	}
}
