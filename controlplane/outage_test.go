package controlplane

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/memory"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestO4StoreDownIsAnOutageNotADenial(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	w.store.OnCommit(func() memory.Outcome { return memory.Broken })
	reply, err := w.cp.Desk().Sync(t.Context(), &pb.SyncRequest{Hello: a.hello(), Asks: []*pb.Ask{a.ask("small", 1)}})
	if reply != nil || !errors.Is(err, ErrUnavailable) {
		t.Errorf("sync: %v, %v, want unavailable and no decision", reply, err)
	}
	spent, err := w.cp.Desk().Spend(t.Context(), &pb.SpendRequest{Hello: a.hello(), Items: []*pb.SpendItem{{SpendId: w.id().Bytes(), Key: acme("payments"), Cost: 1}}})
	if spent != nil || !errors.Is(err, ErrUnavailable) {
		t.Errorf("spend: %v, %v, want unavailable and no decision", spent, err)
	}
	w.store.OnCommit(nil)
	if d := a.lease("small", 1); d.Amount != 1 {
		t.Errorf("after the outage: %v", d)
	}
}

func TestWhileClocksDisagreeReportsCountAndAsksWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	d := a.lease("small", 40)
	w.store.SetClockSuspect(true)
	w.ledger.move(24 * time.Hour)
	_, err := w.cp.Desk().Sync(t.Context(), &pb.SyncRequest{Hello: a.hello(),
		Reports: []*pb.Report{usedUp(d, acme("small"))}, Asks: []*pb.Ask{a.ask("small", 1)}})
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, ledger.ErrClock) {
		t.Errorf("sync: %v, want unavailable for its clock", err)
	}
	if got := w.metric("clock_suspect"); got != 1 {
		t.Errorf("clock alarm %v, want 1", got)
	}
	if err := w.cp.Ready(); !errors.Is(err, ledger.ErrClock) {
		t.Errorf("ready: %v", err)
	}
	found, err := w.store.Grants(t.Context(), ledger.GrantQuery{})
	if err != nil || len(found) != 1 || found[0].Taken != 40 || found[0].State != ledger.Final {
		t.Errorf("grants %+v, %v, want the report merged and nothing granted", found, err)
	}
}

func TestMalformedMessagesAreRefusedWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	hello := func(change func(*pb.Hello)) *pb.Hello {
		h := a.hello()
		change(h)
		return h
	}
	for field, m := range map[string]*pb.SyncRequest{
		"hello.incarnation": {Hello: hello(func(h *pb.Hello) { h.Incarnation = []byte{1} })},
		"hello.token":       {Hello: hello(func(h *pb.Hello) { h.Token = []byte("short") })},
		"hello.name":        {Hello: hello(func(h *pb.Hello) { h.Name = strings.Repeat("x", 257) })},
		"hello.region":      {Hello: hello(func(h *pb.Hello) { h.Region = "a\nb" })},
		"reports":           {Hello: a.hello(), Reports: make([]*pb.Report, MaxItems+1)},
		"cancels":           {Hello: a.hello(), Cancels: make([]*pb.Cancel, MaxItems+1)},
		"asks":              {Hello: a.hello(), Asks: make([]*pb.Ask, MaxItems+1)},
		"keys":              {Hello: a.hello(), Keys: make([]*pb.Key, MaxItems+1)},
	} {
		_, err := w.cp.Desk().Sync(t.Context(), m)
		var wrong *quota.FieldError
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	reply := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{{GrantId: []byte("abc"), Key: acme("small"), Want: 1, Need: 1}, a.ask("small", 1)}})
	if reply.Decisions[0].Fault.GetField() != "grant_id" || reply.Decisions[1].Amount != 1 {
		t.Errorf("one bad ask beside a good one: %v", reply.Decisions)
	}
}

func FuzzSync(f *testing.F) {
	seed, err := proto.Marshal(&pb.SyncRequest{Hello: &pb.Hello{Incarnation: make([]byte, 16)},
		Reports: []*pb.Report{{Taken: -1, Key: acme("small"), Window: windowMessage(day(noon))}}, Asks: []*pb.Ask{{Want: 1, Need: 1, Key: acme("small")}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &pb.SyncRequest{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		w := newWorld(t, examplePolicy)
		reply, err := w.cp.Desk().Sync(t.Context(), m)
		var wrong *quota.FieldError
		if err != nil && !errors.As(err, &wrong) {
			t.Fatalf("sync: %v", err)
		}
		if err == nil && !reply.NewIncarnation && (len(reply.Decisions) != len(m.Asks) || len(reply.Results) != len(m.Reports)) {
			t.Fatalf("reply %v to %v", reply, m)
		}
		w.verified()
	})
}
