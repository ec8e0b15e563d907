package controlplane

import (
	"context"
	"fmt"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// CloseWindows writes the statements that time makes due: the first of each window that has
// ended, and the final one of those that waited long enough. It says how many. Any number of
// replicas may do it: the account's lock decides who writes.
func (d *Desk) CloseWindows(ctx context.Context) (int, error) {
	total := 0
	for range maxRounds {
		due, err := d.billing.Unstated(ctx, smallTx)
		if err != nil {
			return total, outage("list windows to close", err)
		}
		if len(due) == 0 {
			return total, nil
		}
		wrote, err := d.closeWindows(ctx, due)
		total += wrote
		if err != nil {
			return total, err
		}
		if wrote == 0 {
			return total, nil // another replica was faster, or the clocks disagree
		}
	}
	return total, nil
}

func (d *Desk) closeWindows(ctx context.Context, accounts []ledger.AccountID) (int, error) {
	wrote := 0
	err := d.store.Update(ctx, ledger.Scope{Accounts: accounts}, func(b *ledger.Book) error {
		wrote = 0
		for _, id := range accounts {
			did, err := b.CloseWindow(id)
			if err != nil {
				return fmt.Errorf("close window %s: %w", id, err)
			}
			if did {
				wrote++
			}
		}
		return nil
	})
	if err != nil {
		return 0, commitError("close windows", err)
	}
	d.metrics.statements.Add(float64(wrote))
	return wrote, nil
}

// ListStatements lists one page of statements.
func (c *ControlPlane) ListStatements(ctx context.Context, m *pb.ListStatementsRequest) (*pb.ListStatementsReply, error) {
	limit, err := limitOf(m.GetLimit(), adminPage)
	if err != nil {
		return nil, err
	}
	if limit > adminPage {
		return nil, invalid("limit", "1 to %d, or 0 for %d", adminPage, adminPage)
	}
	q := ledger.StatementQuery{Tenant: m.GetTenant(), Dimension: m.GetDimension(), FinalOnly: m.GetFinalOnly(),
		Revisions: m.GetRevisions(), Limit: limit}
	if m.GetAfter() != nil {
		if q.After, err = pageOf(m.GetAfter()); err != nil {
			return nil, err
		}
	}
	from, err := startOf("from", m.GetFrom())
	if err != nil {
		return nil, err
	}
	to, err := startOf("to", m.GetTo())
	if err != nil {
		return nil, err
	}
	// Local clocks differ from UTC by less than a day: the query takes in what might be meant.
	q.From, q.To = from.earliest(), to.latest()
	found, err := c.cfg.Billing.Statements(ctx, q)
	if err != nil {
		return nil, outage("list statements", err)
	}
	limits, err := c.limitsInForce(ctx, found)
	if err != nil {
		return nil, err
	}
	reply := &pb.ListStatementsReply{}
	s := c.policies.snapshot()
	windows := 0
	for i := range found {
		id := found[i].Account
		if i == 0 || id != found[i-1].Account {
			windows++
		}
		calendar, unit := calendarOf(s, id.Key.Dimension)
		if !from.reached(calendar, id.Window.Start) || !to.before(calendar, id.Window.Start) {
			continue
		}
		reply.Statements = append(reply.Statements, statementMessage(&found[i], limits[id], calendar, unit))
	}
	if windows == limit {
		last := found[len(found)-1].Account
		reply.Next = &pb.StatementPage{Key: keyMessage(last.Key), Window: windowMessage(last.Window)}
	}
	return reply, nil
}

func pageOf(p *pb.StatementPage) (id ledger.AccountID, err error) {
	if id.Key, err = keyOf(p.GetKey()); err != nil {
		return id, err
	}
	id.Window, err = windowOf(p.GetWindow())
	return id, err
}

// limitsInForce reads the limit histories of the accounts of a page.
func (c *ControlPlane) limitsInForce(ctx context.Context, page []ledger.Statement) (map[ledger.AccountID][]ledger.LimitChange, error) {
	var ids []ledger.AccountID
	for i := range page {
		if i == 0 || page[i].Account != page[i-1].Account {
			ids = append(ids, page[i].Account)
		}
	}
	limits := map[ledger.AccountID][]ledger.LimitChange{}
	if len(ids) == 0 {
		return limits, nil
	}
	changes, err := c.cfg.Billing.LimitHistory(ctx, ids)
	if err != nil {
		return nil, outage("list limits", err)
	}
	for _, l := range changes {
		limits[l.Account] = append(limits[l.Account], l)
	}
	return limits, nil
}

// calendarOf is a dimension's calendar and unit under the policy in use; UTC if it is gone.
func calendarOf(s *policy.Snapshot, dimension string) (quota.Calendar, string) {
	if s == nil {
		return quota.Calendar{}, ""
	}
	dim, ok := s.Dimension(dimension)
	if !ok {
		return quota.Calendar{}, ""
	}
	return dim.Period, dim.Unit
}

// statementMessage tells a revision with the limits that were in force until it was written.
func statementMessage(s *ledger.Statement, later []ledger.LimitChange, calendar quota.Calendar, unit string) *pb.Statement {
	m := &pb.Statement{
		Key: keyMessage(s.Account.Key), Window: windowMessage(s.Account.Window), Unit: unit, Timezone: calendar.Timezone(),
		Limit: limitNumber(s.Limit), Credit: int64(s.Credit), Billable: int64(s.Billable), Held: int64(s.Held),
		Uncertain: int64(s.Uncertain), Outstanding: int64(s.Outstanding), Emergency: int64(s.Emergency),
		Overshoot: int64(s.Overshoot), OverLimit: int64(s.OverLimit), Revision: s.Revision, Final: s.Final(),
		AtUs: micros(s.At), ClosedAtUs: micros(s.ClosedAt), FinalAtUs: micros(s.FinalAt), Note: s.Note,
		Limits: []*pb.LimitChange{{AtUs: micros(s.OpenedAt), Limit: limitNumber(s.Opening), Note: "opening"}},
	}
	for _, l := range later {
		if !l.At.After(s.At) {
			m.Limits = append(m.Limits, &pb.LimitChange{AtUs: micros(l.At), Limit: limitNumber(l.Limit), PolicyVersion: l.PolicyVersion, Note: l.Note})
		}
	}
	return m
}

// windowStart is the start of a window as an operator names it: an instant, or what the clock
// of the dimension's zone shows then. The zero value names none.
type windowStart struct {
	at    time.Time // of a local one, as if that clock were in UTC
	local bool
}

func startOf(field string, m *pb.WindowStart) (windowStart, error) {
	if m == nil {
		return windowStart{}, nil
	}
	if m.GetAtUs() < firstInstant || m.GetAtUs() > lastInstant {
		return windowStart{}, invalid(field, "a time of the years 1 to 9999")
	}
	return windowStart{quota.At(time.UnixMicro(m.GetAtUs())), m.GetLocal()}, nil
}

const farthestZone = 24 * time.Hour

func (w windowStart) earliest() time.Time { return w.shifted(-farthestZone) }
func (w windowStart) latest() time.Time   { return w.shifted(farthestZone) }

func (w windowStart) shifted(by time.Duration) time.Time {
	if !w.local {
		return w.at
	}
	return w.at.Add(by)
}

// shown is t as it compares with the start: an instant, or what the local clock shows.
func (w windowStart) shown(calendar quota.Calendar, t time.Time) time.Time {
	if !w.local {
		return t
	}
	l := calendar.Local(t)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), l.Nanosecond(), time.UTC)
}

func (w windowStart) reached(calendar quota.Calendar, t time.Time) bool {
	return w.at.IsZero() || !w.shown(calendar, t).Before(w.at)
}

func (w windowStart) before(calendar quota.Calendar, t time.Time) bool {
	return w.at.IsZero() || w.shown(calendar, t).Before(w.at)
}

// instant is the start in a zone. What the clock shows twice is the first of the two, as for
// windows themselves; what it skips is taken by the offset after the gap.
func (w windowStart) instant(calendar quota.Calendar) time.Time {
	if !w.local {
		return w.at
	}
	var at time.Time
	for _, by := range []time.Duration{-farthestZone, farthestZone} {
		_, offset := calendar.Local(w.at.Add(by)).Zone()
		at = w.at.Add(-time.Duration(offset) * time.Second)
		if w.shown(calendar, at).Equal(w.at) {
			break
		}
	}
	return at
}
