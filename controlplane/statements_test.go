package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
