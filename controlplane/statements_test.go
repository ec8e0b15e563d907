package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const billedPolicy = examplePolicy + `
  - name: shanghai
    unit: pages
    kind: period
    limit: 100
    period: {every: day, timezone: Asia/Shanghai}
    class: exact
  - name: payouts
    kind: period
    limit: 1000
    period: {every: month, timezone: Europe/Berlin, anchor: {day: 31, time: "02:30"}}
    class: exact
`

func (w *world) sweep() {
	w.t.Helper()
	if _, err := w.cp.Sweep(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (a *agent) spendUnits(dimension string, cost int64) {
	a.t.Helper()
	reply := a.spend(&pb.SpendItem{SpendId: a.id().Bytes(), Key: acme(dimension), Cost: cost})
	if d := reply.Decisions[0]; d.Amount != cost {
		a.t.Fatalf("spend of %d on %s: %v", cost, dimension, d)
	}
}

func (w *world) statements(m *pb.ListStatementsRequest) []*pb.Statement {
	w.t.Helper()
	var all []*pb.Statement
	for {
		reply, err := w.cp.ListStatements(w.t.Context(), m)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, reply.Statements...)
		if m.After = reply.Next; reply.Next == nil {
			return all
		}
	}
}

// starts are the windows of statements in the zone of their dimension.
func starts(list []*pb.Statement) []string {
	var all []string
	for _, s := range list {
		zone, err := time.LoadLocation(s.Timezone)
		if err != nil {
			zone = time.UTC
		}
		all = append(all, time.UnixMicro(s.Window.StartUs).In(zone).Format(time.RFC3339))
	}
	return all
}

func local(date string) *pb.WindowStart {
	at, err := time.Parse("2006-01-02T15:04", date)
	if err != nil {
		panic(err)
	}
	return &pb.WindowStart{AtUs: at.UnixMicro(), Local: true}
}

// TestR2_16TheSweepClosesAmendsAndEndsStatements is a day of a hard key: 30 spent, 40 in the
// lease of an agent that dies. A raise and a credit are in force in between.
func TestR2_16TheSweepClosesAmendsAndEndsStatements(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a, lost := w.agent(), w.agent()
	a.spendUnits("small", 30)
	w.apply(strings.Replace(examplePolicy, "limit: 100", "limit: 200", 1))
	w.ledger.move(time.Hour)
	a.sync(&pb.SyncRequest{Keys: []*pb.Key{acme("small")}})
	w.ledger.move(time.Hour)
	w.adjust("small", 50)
	d := lost.lease("small", 40)
	w.sweep()
	if list := w.statements(&pb.ListStatementsRequest{}); len(list) != 0 {
		t.Errorf("statements before the window has ended: %v", list)
	}
	w.ledger.move(12 * time.Hour)
	w.sweep()
	list := w.statements(&pb.ListStatementsRequest{})
	if len(list) != 1 {
		t.Fatalf("statements %v, want one", list)
	}
	s := list[0]
	if s.Billable != 30 || s.Held != 40 || s.Limit != 250 || s.Credit != 50 || s.Final || s.Revision != 1 || s.Unit != "requests" || s.Note != "window closed" {
		t.Errorf("statement %v", s)
	}
	limits := ""
	for _, l := range s.Limits {
		limits += fmt.Sprintf("%d at %s; ", l.Limit, time.UnixMicro(l.AtUs).UTC().Format("15:04"))
	}
	if limits != "100 at 12:00; 200 at 13:00; 250 at 14:00; " {
		t.Errorf("limits in force: %s", limits)
	}
	if got := w.metric("statements_written_total"); got != 1 {
		t.Errorf("%v statements counted, want 1", got)
	}

	lost.sync(&pb.SyncRequest{Reports: []*pb.Report{{GrantId: d.GrantId, Key: acme("small"), Window: d.Window, Taken: 25}}})
	w.ledger.move(72 * time.Hour)
	w.sweep()
	w.sweep()
	first := local("2026-11-30T00:00") // the Sync of the late report opened the next day too
	all := w.statements(&pb.ListStatementsRequest{Revisions: true, To: first})
	if len(all) != 3 || all[1].Billable != 55 || all[1].Held != 15 || all[1].Final || all[2].Billable != 55 || all[2].Held != 15 || !all[2].Final {
		t.Errorf("revisions %v", all)
	}
	if latest := w.statements(&pb.ListStatementsRequest{FinalOnly: true, To: first}); len(latest) != 1 || latest[0].Revision != 3 {
		t.Errorf("final ones: %v", latest)
	}
	w.verified()
}

// CASES C9: at 00:30 in Shanghai use counts on the local day, and is found and shown there.
func TestC9AStatementIsOfTheTenantsDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, billedPolicy)
	w.ledger.move(4*time.Hour + 30*time.Minute) // 00:30 of the 30th
	a := w.agent()
	a.spendUnits("shanghai", 5)
	a.spendUnits("payments", 1) // the 29th in UTC
	w.ledger.move(24 * time.Hour)
	w.sweep()
	list := w.statements(&pb.ListStatementsRequest{From: local("2026-11-30T00:00"), To: local("2026-12-01T00:00")})
	if got := starts(list); !slices.Equal(got, []string{"2026-11-30T00:00:00+08:00"}) || list[0].Billable != 5 || list[0].Unit != "pages" {
		t.Errorf("the 30th: %v", list)
	}
	list = w.statements(&pb.ListStatementsRequest{From: local("2026-11-29T00:00"), To: local("2026-11-30T00:00")})
	if got := starts(list); !slices.Equal(got, []string{"2026-11-29T00:00:00Z"}) {
		t.Errorf("the 29th: %v", got)
	}
	// An instant is one everywhere: the Shanghai day begins before it.
	list = w.statements(&pb.ListStatementsRequest{From: &pb.WindowStart{AtUs: noon.UnixMicro()}})
	if got := starts(list); !slices.Equal(got, []string{"2026-11-30T00:00:00+08:00"}) {
		t.Errorf("from noon UTC: %v", got)
	}
}

// CASES C7: a billing anchor of 31 falls on the last day of a short month and does not drift.
func TestC7StatementsOfRealMonths(t *testing.T) {
	t.Parallel()
	w := newWorld(t, billedPolicy)
	a := w.agent()
	for _, at := range []string{"2027-01-31T12:00", "2027-02-28T12:00", "2027-03-31T12:00", "2027-04-30T12:00"} {
		when, err := time.Parse("2006-01-02T15:04", at)
		if err != nil {
			t.Fatal(err)
		}
		w.ledger.move(when.Sub(w.ledger.now()))
		a.spendUnits("payouts", int64(when.Month()))
		w.sweep()
	}
	list := w.statements(&pb.ListStatementsRequest{Dimension: "payouts", From: local("2027-01-01T00:00"), To: local("2027-04-01T00:00"), Limit: 2})
	want := []string{"2027-01-31T02:30:00+01:00", "2027-02-28T02:30:00+01:00", "2027-03-31T02:30:00+02:00"}
	if got := starts(list); !slices.Equal(got, want) || list[0].Billable != 1 || list[2].Billable != 3 {
		t.Errorf("months %v, want %v", got, want)
	}
}

func TestStatementsOfManyWindowsComePageByPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, billedPolicy)
	a := w.agent()
	for range 5 {
		a.spendUnits("shanghai", 1)
		a.spendUnits("payments", 1)
		w.ledger.move(24 * time.Hour)
		w.sweep()
	}
	var sizes []int
	m := &pb.ListStatementsRequest{Limit: 4, From: local("2026-11-30T00:00")}
	for {
		reply, err := w.cp.ListStatements(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(reply.Statements))
		if m.After = reply.Next; m.After == nil {
			break
		}
	}
	// Pages are of windows as the ledger has them: from the 29th on, of which the first goes.
	if fmt.Sprint(sizes) != "[3 4 1]" {
		t.Errorf("pages of %v", sizes)
	}
	for _, bad := range []*pb.ListStatementsRequest{
		{Limit: -1}, {Limit: adminPage + 1}, {From: &pb.WindowStart{AtUs: 1 << 62}}, {After: &pb.StatementPage{}},
	} {
		if _, err := w.cp.ListStatements(t.Context(), bad); err == nil {
			t.Errorf("%v is answered", bad)
		}
	}
}

func TestThreeSweepersWriteEachStatementOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, billedPolicy)
	a := w.agent()
	a.spendUnits("shanghai", 1)
	a.spendUnits("payments", 1)
	w.ledger.move(48 * time.Hour)
	written := make(chan int)
	for range 3 {
		go func() {
			n, err := w.cp.Desk().CloseWindows(t.Context())
			if err != nil {
				t.Error(err)
			}
			written <- n
		}()
	}
	if n := <-written + <-written + <-written; n != 2 {
		t.Errorf("%d statements written, want 2", n)
	}
	if all := w.statements(&pb.ListStatementsRequest{Revisions: true}); len(all) != 2 {
		t.Errorf("%d revisions, want 2", len(all))
	}
}

func TestUsageOverAShareIsListedFullestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, billedPolicy)
	a := w.agent()
	a.spendUnits("payments", 8) // of 10
	a.spendUnits("shanghai", 95)
	a.spendUnits("payouts", 801) // of 1000
	a.spendUnits("report_export", 40_000)
	a.lease("small", 90)
	over := func(share int64, limit int32) string {
		reply, err := w.cp.ListUsage(t.Context(), &pb.ListUsageRequest{Over: &share, Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, u := range reply.Usage {
			names = append(names, u.Key.Dimension)
		}
		return strings.Join(names, " ")
	}
	for _, c := range []struct {
		share int64
		limit int32
		want  string
	}{
		{80_000_000, 0, "shanghai small payouts"}, // 80 % of 10 and of 50,000 is not over 80 %
		{79_999_999, 0, "shanghai small payouts payments report_export"},
		{0, 2, "shanghai small"},
		{100_000_000, 0, ""},
	} {
		if got := over(c.share, c.limit); got != c.want {
			t.Errorf("over %d: %q, want %q", c.share, got, c.want)
		}
	}
	bad := int64(100_000_001)
	if _, err := w.cp.ListUsage(t.Context(), &pb.ListUsageRequest{Over: &bad}); err == nil {
		t.Error("more than 100 % is answered")
	}
}

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
