package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// AdjustUsage adds a credit to the limit of one window, once under its id. Who did it and why is
// in the journal, in the window's limit history and, if it is over, in its statement.
func (c *ControlPlane) AdjustUsage(ctx context.Context, m *pb.AdjustUsageRequest) (*pb.AdjustUsageReply, error) {
	x, zone, err := c.adjustment(ctx, m.GetId(), m.GetKey(), m.GetWindow(), m.GetWho(), m.GetWhy())
	if err != nil {
		return nil, err
	}
	if m.GetCredit() < 1 {
		return nil, invalid("credit", "1 or more")
	}
	x.Units = quota.Units(m.GetCredit())
	got, err := c.desk.adjust(ctx, ledger.Scope{}, x, (*ledger.Book).Credit)
	if err != nil {
		return nil, fmt.Errorf("credit %s: %w", x.Account, err)
	}
	return &pb.AdjustUsageReply{Repeated: got.Repeated, Usage: usageMessage(got.Account, c.desk.Now()), Revision: got.Account.Revision, Timezone: zone}, nil
}

// ReleaseHeld moves held units of one window to uncertain, once under its id.
func (c *ControlPlane) ReleaseHeld(ctx context.Context, m *pb.ReleaseHeldRequest) (*pb.ReleaseHeldReply, error) {
	x, zone, err := c.adjustment(ctx, m.GetId(), m.GetKey(), m.GetWindow(), m.GetWho(), m.GetWhy())
	if err != nil {
		return nil, err
	}
	if m.GetUnits() < 1 {
		return nil, invalid("units", "1 or more")
	}
	x.Units = quota.Units(m.GetUnits())
	got, err := c.desk.adjust(ctx, ledger.Scope{Held: true}, x, (*ledger.Book).ReleaseHeld)
	if err != nil {
		return nil, fmt.Errorf("release held units of %s: %w", x.Account, err)
	}
	return &pb.ReleaseHeldReply{Repeated: got.Repeated, Released: int64(got.Grant.Amount), Usage: usageMessage(got.Account, c.desk.Now()),
		Revision: got.Account.Revision, Timezone: zone}, nil
}

// adjustment reads what both adjustments have in common, and finds their window.
func (c *ControlPlane) adjustment(ctx context.Context, rawID []byte, rawKey *pb.Key, window *pb.WindowStart, who, why string) (ledger.Adjustment, string, error) {
	x := ledger.Adjustment{Who: who, Why: why}
	if err := checkNote("who", who, maxWho); err != nil {
		return x, "", err
	}
	if err := checkNote("why", why, maxWhy); err != nil {
		return x, "", err
	}
	var err error
	if x.ID, err = idOf("id", rawID); err != nil {
		return x, "", err
	}
	key, err := keyOf(rawKey)
	if err != nil {
		return x, "", err
	}
	start, err := startOf("window", window)
	if err != nil {
		return x, "", err
	}
	s, err := c.policyInUse(ctx)
	if err != nil {
		return x, "", err
	}
	x.Account, err = c.findWindow(ctx, s, key, start)
	calendar, _ := calendarOf(s, key.Dimension)
	return x, calendar.Timezone(), err
}

// findWindow finds the account that an operator means: the current window's unless a start is
// given, which may be any window that the ledger has, the current or the next one.
func (c *ControlPlane) findWindow(ctx context.Context, s *policy.Snapshot, key quota.Key, start windowStart) (ledger.AccountID, error) {
	now := c.desk.Now()
	dim, known := s.Dimension(key.Dimension)
	if start.at.IsZero() {
		if !known {
			return ledger.AccountID{}, s.Undefined(key.Dimension)
		}
		return ledger.AccountID{Key: key, Window: dim.Period.WindowAt(now)}, nil
	}
	calendar, _ := calendarOf(s, key.Dimension)
	at := start.instant(calendar)
	found, err := c.cfg.Reader.Accounts(ctx, ledger.AccountQuery{Tenant: key.Tenant, Dimension: key.Dimension, At: at})
	if err != nil {
		return ledger.AccountID{}, outage("find the window", err)
	}
	for _, a := range found {
		if a.Kind != 0 && a.ID.Window.Start.Equal(at) {
			return a.ID, nil
		}
	}
	if !known {
		return ledger.AccountID{}, s.Undefined(key.Dimension)
	}
	current := dim.Period.WindowAt(now)
	for _, w := range []quota.Window{current, dim.Period.Next(current)} {
		if !w.Endless() && w.Start.Equal(at) {
			return ledger.AccountID{Key: key, Window: w}, nil
		}
	}
	return ledger.AccountID{}, invalid("window", "the start of a window in which %s used something, of the current or of the next one%s", key, nearWindow(dim, at))
}

// nearWindow names the window that contains a moment that is no window's start.
func nearWindow(dim *policy.Dimension, at time.Time) string {
	w := dim.Period.WindowAt(at)
	if w.Endless() || w.Start.Equal(at) {
		return ""
	}
	return "; near: " + dim.Period.Local(w.Start).Format(time.RFC3339)
}

// adjust carries out an operator's decision. An account that nothing was decided in yet gets
// the terms of the policy in force first.
func (d *Desk) adjust(ctx context.Context, scope ledger.Scope, x ledger.Adjustment,
	rule func(*ledger.Book, ledger.Adjustment) (ledger.Answer, error),
) (ledger.Answer, error) {
	scope.Accounts, scope.Grants = []ledger.AccountID{x.Account}, []ledger.ID{x.ID}
	for range maxAttempts {
		var got ledger.Answer
		err := d.store.Update(ctx, scope, func(b *ledger.Book) (err error) {
			if a, _ := b.Account(x.Account); a.Kind == 0 {
				if err := d.openFor(b, x.Account); err != nil {
					return err
				}
			}
			got, err = rule(b, x)
			return err
		})
		var protocol *ledger.ProtocolError
		switch {
		case err == nil:
			d.kick()
			return got, nil
		case errors.Is(err, ledger.ErrStalePolicy):
			if err := d.policies.refresh(ctx); err != nil {
				return ledger.Answer{}, outage("reload the policy", err)
			}
		case errors.As(err, &protocol) && protocol.Code == ledger.CodeTerms:
			return ledger.Answer{}, invalid("id", "a new one: this one was used for something else")
		case errors.As(err, &protocol):
			return ledger.Answer{}, invalid(protocol.Field, "%s", protocol.Allowed)
		case errors.Is(err, policy.ErrUnknownTenant), errors.Is(err, policy.ErrUnknownDimension):
			return ledger.Answer{}, err
		default:
			return ledger.Answer{}, commitError("commit", err)
		}
	}
	return ledger.Answer{}, fmt.Errorf("%w: no agreement on the policy after %d attempts", ErrUnavailable, maxAttempts)
}

// openFor gives an account the terms of the policy in use.
func (d *Desk) openFor(b *ledger.Book, id ledger.AccountID) error {
	s, now := d.policies.snapshot(), d.Now()
	if _, _, err := s.Resolve(id.Key, now); err != nil {
		return err
	}
	dim, _ := s.Dimension(id.Key.Dimension)
	_, err := b.Open(id, resolveIn(s, dim, id, now).terms)
	return err
}
