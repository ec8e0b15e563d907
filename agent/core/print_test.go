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
		"gen": "makes ids: other bytes, the same behaviour", "incarnation": written, "token": written, "dims": "one for each version, which is written",
		"version": written, "keys": written, "wakes": "written with the keys", "dirty": written, "debts": written, "cancels": written, "early": written,
		"syncing": written, "syncAt": written, "retryAt": written, "failures": written, "lostAt": written, "contact": written, "contacted": written,
		"rtt": written, "ledgerAt": written, "ledgerOn": written, "ledgerErr": written, "spends": written, "spending": written, "refunds": written,
		"refunded": written, "spendOut": written, "stopping": written, "faults": "a count to be shown", "retired": "a count to be shown",
		"exact": "a count to be shown", "unleased": "a count to be shown",
	},
	"Key": {
		"ID": "never changes", "dim": "one for each version, which is written", "leases": written, "denial": written, "view": written, "lowSent": written,
		"index": written, "dirty": written, "spends": written, "ask": written, "closing": written, "unleased": written, "waiters": written,
		"parked": written, "heard": written, "refresh": written, "exactUntil": written, "nextAsk": written, "needHint": written, "demand": written,
		"lastUse": written, "lastTotal": written, "past": "counts in differences of totals only, which are written",
	},
	"Lease": {
		"bucket": written, "id": written, "window": written, "amount": written, "low": written, "deadline": written, "back": written,
		"isSealed": written, "cut": written, "renewed": written, "reported": written,
	},
	"ask":      {"id": written, "want": written, "need": written, "firstSent": written, "sent": written},
	"unleased": {"id": written, "window": written, "taken": written, "acked": written, "step": written},
	"denial": {"cost": written, "reason": written, "until": written, "retryAt": written, "generation": written,
		"largest": written},
	"view": {"limit": written, "headroom": "told to callers only", "leaseCap": written, "generation": written, "policyVersion": "told to callers only",
		"window": written, "windowEnd": written, "length": "told to callers only"},
	"demand":       {"perSecond": written, "at": written, "total": written, "known": written},
	"report":       {"taken": written, "returned": written, "final": written},
	"spend":        {"id": written, "key": written, "cost": written, "waiter": written},
	"syncInFlight": {"request": "in the network's hands; what the core reads of it is written", "sent": written, "reports": written, "asks": written, "keys": written},
	"sentReport":   {"key": written, "lease": written, "unleased": written, "report": written},
	"Waiter": {"Key": "the printer's to write: it knows who waits", "Cost": "the printer's", "Done": "the printer's", "key": "where it waits is where it is written",
		"spend": "written with the spends", "exact": "the printer's, by Exact", "again": "the printer's, by Again", "over": "one that is over waits nowhere"},
	"wake": {"key": "the one it is written with", "at": written, "index": "follows from the moments"},
}

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
	if len(k.held()) == 0 || len(k.unleased) == 0 || len(c.syncing.reports) == 0 || k.view.Load() == nil {
		t.Fatal("the core lacks something of what is to be looked at")
	}
	return c, map[string]any{
		"Core": c, "Key": k, "Lease": k.held()[0], "ask": k.ask, "unleased": k.unleased[0], "denial": k.denial.Load(), "view": k.view.Load(),
		"demand": &k.demand, "report": &k.held()[0].reported, "spend": s, "syncInFlight": c.syncing, "sentReport": &c.syncing.reports[0],
		"Waiter": &Waiter{}, "wake": c.wakes.of[k],
	}
}

// TestPrintLeavesNothingOut knows every field by name, and sees that a change of a plain one that
// Print is said to write changes what it writes.
func TestPrintLeavesNothingOut(t *testing.T) {
	t.Parallel()
	_, parts := fullCore(t)
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
	if name == "Key" && field == "index" || name == "spend" && field == "key" {
		return // a place in the list that is written
	}
	if printOf(c) == before {
		t.Errorf("%s.%s: Print does not write it", name, field)
	}
}
