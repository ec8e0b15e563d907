package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// jobs is an uplink whose policy has three dimensions and an operation on two of them.
type jobs struct{ *fakeUplink }

func (j jobs) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	reply, err := j.fakeUplink.Sync(ctx, req)
	if c := reply.GetCatalogue(); c != nil {
		for _, name := range []string{"api_calls", "payments"} {
			d := &pb.Dimension{Name: name, Kind: "period", Class: "best_effort", Limit: 1000, Period: &pb.Period{Every: "day"},
				TtlUs: 10_000_000, LowWatermarkPpm: 200_000, Outage: &pb.Outage{Mode: "closed", AfterUs: 10_000_000}, Cold: &pb.Cold{WaitUs: 10_000, Then: "deny"}}
			if name == "payments" {
				d.Class = "exact"
			}
			c.Dimensions = append(c.Dimensions, d)
		}
		c.Operations = []*pb.Operation{
			{Name: "start_export", Takes: []*pb.Take{{Dimension: "report_export", Cost: 2}, {Dimension: "api_calls", Cost: 1}}},
			{Name: "pay", Takes: []*pb.Take{{Dimension: "api_calls", Cost: 1}, {Dimension: "payments", Cost: 3}}},
		}
	}
	return reply, err
}

func TestR1_10SeveralDimensionsAreTakenTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		up.limit = 60
		a, stop := start(t, jobs{up})
		d, err := a.TakeOperation(t.Context(), "acme", "start_export", 2) // before the first contact
		if err != nil || !d.Allowed || d.Dimension == "" {
			t.Fatal(d, err)
		}
		for range 100 {
			if d, err = a.TakeOperation(t.Context(), "acme", "start_export", 1); err != nil || !d.Allowed {
				break
			}
		}
		if err != nil || d.Allowed || d.Reason != quota.Exhausted || d.Dimension == "" {
			t.Fatalf("the limit of the fake is spent: %+v, %v", d, err)
		}
		stop()
		if got := up.confirmed(); got > 60 || got%3 != 0 {
			t.Errorf("%d units confirmed: an export takes 2 and 1, all or none", got)
		}
	})
}

func TestAPaymentTakesItsLeaseAndItsSpend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		a, stop := start(t, jobs{up})
		for range 3 {
			if d, err := a.TakeOperation(t.Context(), "acme", "pay", 1); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		stop()
		if got := up.confirmed(); got != 12 {
			t.Errorf("%d units confirmed, want 3 x (1 + 3)", got)
		}
	})
}

func TestBadTakesNameTheirField(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, stop := start(t, jobs{newFakeUplink()})
		defer stop()
		if _, err := a.Take(t.Context(), "acme", "api_calls", 1); err != nil {
			t.Fatal(err)
		}
		many := make([]core.DimensionCost, MaxTakes+1)
		for name, c := range map[string]struct {
			field string
			call  func() error
		}{
			"none": {"takes", func() error { _, err := a.TakeAll(t.Context(), "acme", nil); return err }},
			"many": {"takes", func() error { _, err := a.TakeAll(t.Context(), "acme", many); return err }},
			"cost": {"cost", func() error {
				_, err := a.TakeAll(t.Context(), "acme", []core.DimensionCost{{Dimension: "api_calls"}})
				return err
			}},
			"dimension": {"dimension", func() error {
				_, err := a.TakeAll(t.Context(), "acme", []core.DimensionCost{{Dimension: "api_call", Cost: 1}})
				return err
			}},
			"tenant": {"tenant", func() error {
				_, err := a.TakeAll(t.Context(), "", []core.DimensionCost{{Dimension: "api_calls", Cost: 1}})
				return err
			}},
			"operation":    {"operation", func() error { _, err := a.TakeOperation(t.Context(), "acme", "start", 1); return err }},
			"no operation": {"operation", func() error { _, err := a.TakeOperation(t.Context(), "acme", "", 1); return err }},
			"times":        {"times", func() error { _, err := a.TakeOperation(t.Context(), "acme", "start_export", 0); return err }},
			"times too many": {"times", func() error {
				_, err := a.TakeOperation(t.Context(), "acme", "start_export", MaxCost)
				return err
			}},
			"estimate": {"estimate", func() error { _, err := a.Reserve(t.Context(), "acme", "api_calls", 0, false); return err }},
			"no maximum": {"maximum", func() error {
				_, err := a.Reserve(t.Context(), "acme", "report_export", 5, false)
				return err
			}},
			"id": {"id", func() error { return a.Settle("7", 1) }},
		} {
			var f *quota.FieldError
			if err := c.call(); !errors.As(err, &f) || f.Field != c.field {
				t.Errorf("%s: %v, want the field %s named", name, err, c.field)
			}
		}
	})
}

func TestUnknownCostIsReservedAndSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		a, stop := start(t, jobs{up})
		r, err := a.Reserve(t.Context(), "acme", "report_export", 50, true)
		if err != nil || !r.Allowed || r.ID == "" {
			t.Fatal(r, err)
		}
		if err := a.Settle(r.ID, 20); err != nil {
			t.Fatal(err)
		}
		paid, err := a.Reserve(t.Context(), "acme", "payments", 9, true)
		if err != nil || !paid.Allowed {
			t.Fatal(paid, err)
		}
		if err := a.Settle(paid.ID, 4); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if d, err := a.Reserve(t.Context(), "acme", "payments", 5000, true); err != nil || d.Allowed || d.ID != "" {
			t.Fatalf("more than there is: %+v, %v", d, err)
		}
		stop()
		if got := up.confirmed(); got != 24 {
			t.Errorf("%d units confirmed, want 20 and 4", got)
		}
	})
}

func BenchmarkTakeAll(b *testing.B) {
	up := newFakeUplink()
	up.limit = 1 << 52
	a, err := New(Config{Name: "a", Region: "eu"}, hugeLease{jobs{up}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	takes := []core.DimensionCost{{Dimension: "report_export", Cost: 2}, {Dimension: "api_calls", Cost: 1}}
	for {
		if d, err := a.TakeAll(ctx, "acme", takes); err == nil && d.Allowed {
			break
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if d, err := a.TakeAll(ctx, "acme", takes); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
	cancel()
	<-done
}
