package controlplane

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func (w *world) newCredit(dimension string, units int64) *pb.AdjustUsageRequest {
	return &pb.AdjustUsageRequest{Id: w.id().Bytes(), Key: acme(dimension), Credit: units, Who: "mina", Why: "outage"}
}

func (w *world) adjust(dimension string, units int64) *pb.AdjustUsageReply {
	w.t.Helper()
	reply, err := w.cp.AdjustUsage(w.t.Context(), w.newCredit(dimension, units))
	if err != nil {
		w.t.Fatal(err)
	}
	return reply
}

func TestR2_15ACreditIsHeardWithinASecond(t *testing.T) {
	t.Parallel()
	running(t, examplePolicy, func(w *world) {
		a := w.agent()
		d := a.lease("small", 100)
		denied := a.lease("small", 1)
		if d.Amount != 100 || denied.Amount != 0 {
			w.t.Fatalf("granted %v, then %v", d, denied)
		}
		e, stop := w.listen(a.inc)
		defer stop()
		e.take()
		reply := w.adjust("small", 50)
		if u := reply.Usage; u.Limit != 150 || u.Credit != 50 || u.Headroom != 50 || reply.Repeated || reply.Revision != 0 {
			w.t.Errorf("credited: %v", reply)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		grew := slices.ContainsFunc(e.take(), func(n *pb.Notice) bool {
			return n.Key.GetDimension() == "small" && n.Generation > denied.Generation
		})
		key := a.sync(&pb.SyncRequest{Keys: []*pb.Key{acme("small")}}).Keys[0]
		if !grew || key.Limit != 150 {
			w.t.Errorf("heard of the credit: %t, then %v", grew, key)
		}
		a.spendUnits("small", 50) // the budget is the policy's: a lease waits for one to come back
		w.verified()
	})
}

// D1: a command whose answer was lost is repeated under its id.
func TestD1ACreditIsAddedOnceUnderItsID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	m := w.newCredit("small", 50) // nothing was used yet: the window is opened for it
	for i := range 2 {
		reply, err := w.cp.AdjustUsage(t.Context(), m)
		if err != nil || reply.Repeated != (i == 1) || reply.Usage.Limit != 150 {
			t.Errorf("time %d: %v, %v", i+1, reply, err)
		}
	}
	m.Credit = 51
	if _, err := w.cp.AdjustUsage(t.Context(), m); err == nil || !strings.Contains(err.Error(), "id: a new one") {
		t.Errorf("another credit under the id: %v", err)
	}
	list, err := w.cp.ListLeases(t.Context(), &pb.ListLeasesRequest{AllStates: true})
	if err != nil || len(list.Leases) != 1 || list.Leases[0].Kind != "credit" || list.Leases[0].Amount != 50 {
		t.Errorf("records: %v, %v", list, err)
	}
	w.verified()
}

func TestAnAdjustmentNamesItsWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, billedPolicy)
	a := w.agent()
	a.spendUnits("shanghai", 80)
	w.ledger.move(24 * time.Hour)
	w.sweep()
	credit := func(window *pb.WindowStart) (*pb.AdjustUsageReply, error) {
		m := w.newCredit("shanghai", 5)
		m.Window = window
		return w.cp.AdjustUsage(t.Context(), m)
	}
	for name, c := range map[string]struct {
		window   *pb.WindowStart
		start    string
		revision int64
	}{
		"the current one":    {nil, "2026-11-30T00:00:00+08:00", 0},
		"by its local date":  {local("2026-11-30T00:00"), "2026-11-30T00:00:00+08:00", 0},
		"the next one":       {local("2026-12-01T00:00"), "2026-12-01T00:00:00+08:00", 0},
		"one that is over":   {local("2026-11-29T00:00"), "2026-11-29T00:00:00+08:00", 2},
		"by its instant too": {&pb.WindowStart{AtUs: noon.Add(4 * time.Hour).UnixMicro()}, "2026-11-30T00:00:00+08:00", 0},
	} {
		reply, err := credit(c.window)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := starts([]*pb.Statement{{Window: reply.Usage.Window, Timezone: reply.Timezone}}); got[0] != c.start || reply.Revision != c.revision {
			t.Errorf("%s: %s, revision %d, want %s and %d", name, got[0], reply.Revision, c.start, c.revision)
		}
	}
	for name, c := range map[string]struct {
		window *pb.WindowStart
		says   string
	}{
		"no start":              {local("2026-11-30T01:00"), "window: the start of a window in which acme/shanghai used something, of the current or of the next one; near: 2026-11-30T00:00:00+08:00"},
		"nothing was used then": {local("2026-11-20T00:00"), "window: the start of a window in which acme/shanghai used something"},
		"too far ahead":         {local("2026-12-02T00:00"), "window: the start of a window"},
	} {
		if _, err := credit(c.window); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if n := w.accountCount(); n != 3 {
		t.Errorf("%d accounts, want 3: what is refused makes none", n)
	}
}

func TestBadAdjustmentsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	w.agent().spendUnits("small", 5)
	before := w.account("small")
	for name, c := range map[string]struct {
		change func(*pb.AdjustUsageRequest)
		says   string
	}{
		"nobody":            {func(m *pb.AdjustUsageRequest) { m.Who = "" }, "who: 1 to 256 bytes"},
		"no reason":         {func(m *pb.AdjustUsageRequest) { m.Why = " " }, "why: 1 to 1024 bytes"},
		"no id":             {func(m *pb.AdjustUsageRequest) { m.Id = nil }, "id: a UUID of 16 bytes"},
		"an id of no time":  {func(m *pb.AdjustUsageRequest) { m.Id = slices.Repeat([]byte{0x44}, 16) }, "id: a UUID of version 7"},
		"no tenant":         {func(m *pb.AdjustUsageRequest) { m.Key.Tenant = "" }, "tenant: 1 to 256 bytes"},
		"unknown dimension": {func(m *pb.AdjustUsageRequest) { m.Key.Dimension = "none" }, "dimension"},
		"no credit":         {func(m *pb.AdjustUsageRequest) { m.Credit = 0 }, "credit: 1 or more"},
		"too much":          {func(m *pb.AdjustUsageRequest) { m.Credit = 1<<63 - 1 }, "credit: at most 9223372036854775707"},
	} {
		m := w.newCredit("small", 5)
		c.change(m)
		if _, err := w.cp.AdjustUsage(t.Context(), m); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	m := &pb.ReleaseHeldRequest{Id: w.id().Bytes(), Key: acme("small"), Who: "mina", Why: "x"}
	if _, err := w.cp.ReleaseHeld(t.Context(), m); err == nil || !strings.Contains(err.Error(), "units: 1 or more") {
		t.Errorf("a release of nothing: %v", err)
	}
	if got := w.account("small"); got != before || w.accountCount() != 1 {
		t.Errorf("the account was %+v and is %+v", before, got)
	}
}

func TestHeldUnitsAreReleasedOnceAndTheBoundSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	lost := w.agent()
	lost.lease("small", 40)
	w.ledger.move(time.Hour)
	w.sweep()
	m := &pb.ReleaseHeldRequest{Id: w.id().Bytes(), Key: acme("small"), Units: int64(quota.MaxUnits), Who: "mina", Why: "reinstalled"}
	for i := range 2 {
		reply, err := w.cp.ReleaseHeld(t.Context(), m)
		if err != nil || reply.Released != 40 || reply.Repeated != (i == 1) || reply.Usage.Held != 0 || reply.Usage.Uncertain != 40 ||
			reply.Usage.Released != 40 || reply.Usage.Headroom != 100 || reply.Usage.Bound != 140 {
			t.Errorf("time %d: %v, %v", i+1, reply, err)
		}
	}
	bound, err := w.cp.GetBound(t.Context(), &pb.GetBoundRequest{Dimension: "small", Tenant: "acme"})
	if err != nil || !slices.Equal(bound.Bounds[0].Beyond, []string{"plus 40 units that an operator released of what was held"}) {
		t.Errorf("bound %v, %v", bound, err)
	}
	events, err := w.store.Events(t.Context(), 0, 0)
	if err != nil || !slices.ContainsFunc(events, func(e ledger.Event) bool {
		return e.Kind == ledger.EventReleased && e.Units == 40 && e.Note == "mina: reinstalled"
	}) {
		t.Errorf("journal %v, %v", events, err)
	}
	w.verified()
}

// Whoever mistypes a name is told which, and what it may have been meant for.
func TestAnAdjustmentOfWhatPolicyDoesNotKnowNamesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, billedPolicy+"unlisted_tenants: deny\ntenants:\n  - {tenant: acme}\n")
	for key, says := range map[string]string{
		"acme/shangai":   `dimension "shangai" is not defined; near: shanghai`,
		"acmee/shanghai": `tenant "acmee" is not listed`,
	} {
		tenant, dimension, _ := strings.Cut(key, "/")
		m := w.newCredit(dimension, 5)
		m.Key.Tenant = tenant
		if _, err := w.cp.AdjustUsage(t.Context(), m); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("credit of %s: %v, want %q", key, err, says)
		}
	}
	if _, err := w.cp.GetBound(t.Context(), &pb.GetBoundRequest{Dimension: "shangai"}); err == nil || !strings.Contains(err.Error(), `dimension "shangai" is not defined; near: shanghai`) {
		t.Errorf("bound: %v", err)
	}
	if n := w.accountCount(); n != 0 {
		t.Errorf("%d accounts, want none", n)
	}
}
