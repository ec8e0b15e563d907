package controlplane

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func q4Deal() *pb.CommandOverride {
	return &pb.CommandOverride{Key: acme("report_export"), Limit: "80000", Owner: "sales-ops", Reason: "Q4 deal",
		Expires: "2999-01-31", Who: "mina"}
}

func TestOverrideHoldsAtOnceAndUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	added, err := w.cp.AddOverride(t.Context(), &pb.AddOverrideRequest{Override: q4Deal()})
	if err != nil || !added.Changed || added.Version != 2 || len(added.Changes) != 1 ||
		!strings.HasPrefix(added.Changes[0], "overrides.report_export.acme: added (limit 80000, ") {
		t.Fatalf("added %v, %v", added, err)
	}
	got, err := w.cp.ExplainPolicy(t.Context(), &pb.ExplainPolicyRequest{Key: acme("report_export")})
	if err != nil || got.Rule != "override" || got.Limit != 80_000 || got.PolicyVersion != 2 {
		t.Errorf("explained %v, %v", got, err)
	}
	stored, err := w.cp.GetPolicy(t.Context(), &pb.GetPolicyRequest{})
	if err != nil || len(stored.Overrides) != 1 || stored.Version.Source != "override" || stored.Version.Who != "mina" || stored.Version.Why != "Q4 deal" {
		t.Fatalf("stored %v, %v", stored, err)
	}
	want := q4Deal()
	want.AtUs = stored.Overrides[0].AtUs
	if !proto.Equal(stored.Overrides[0], want) || want.AtUs == 0 {
		t.Errorf("stored override %v, want %v", stored.Overrides[0], want)
	}
	// Files come and go; the override is no difference of theirs.
	for _, dry := range []bool{true, false} {
		applied, err := w.cp.ApplyPolicy(t.Context(), applyRequest(strings.Replace(examplePolicy, "50000", "60000", 1), dry))
		if err != nil || len(applied.Changes) != 1 || !strings.Contains(applied.Changes[0], "50000 -> 60000") {
			t.Errorf("dry run %t: %v, %v", dry, applied, err)
		}
	}
	if got, err = w.cp.ExplainPolicy(t.Context(), &pb.ExplainPolicyRequest{Key: acme("report_export")}); err != nil || got.Limit != 80_000 {
		t.Errorf("under new files: %v, %v", got, err)
	}
	removed, err := w.cp.RemoveOverride(t.Context(), &pb.RemoveOverrideRequest{Key: acme("report_export"), Who: "jo", Why: "the deal is off"})
	if err != nil || !removed.Changed || removed.Version != 4 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if got, err = w.cp.ExplainPolicy(t.Context(), &pb.ExplainPolicyRequest{Key: acme("report_export")}); err != nil || got.Limit != 60_000 || got.Rule != "default" {
		t.Errorf("after the removal: %v, %v", got, err)
	}
	back, err := w.cp.RollbackPolicy(t.Context(), &pb.RollbackPolicyRequest{To: 2, Who: "jo", Why: "it is on again"})
	if err != nil || !back.Changed || len(back.Changes) != 2 {
		t.Errorf("rolled back %v, %v", back, err)
	}
}

func TestBadOverridesChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	var field *quota.FieldError
	var faults policy.Faults
	add := func(edit func(*pb.CommandOverride)) error {
		o := q4Deal()
		edit(o)
		_, err := w.cp.AddOverride(t.Context(), &pb.AddOverrideRequest{Override: o})
		return err
	}
	for name, edit := range map[string]func(*pb.CommandOverride){
		"tenant": func(o *pb.CommandOverride) { o.Key.Tenant = "" }, "dimension": func(o *pb.CommandOverride) { o.Key = &pb.Key{Tenant: "acme"} },
		"who": func(o *pb.CommandOverride) { o.Who = "" }, "reason": func(o *pb.CommandOverride) { o.Reason = " " },
	} {
		if err := add(edit); !errors.As(err, &field) || field.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, edit := range map[string]func(*pb.CommandOverride){
		"dimension": func(o *pb.CommandOverride) { o.Key.Dimension = "report_exports" }, "limit": func(o *pb.CommandOverride) { o.Limit = "lots" },
		"owner": func(o *pb.CommandOverride) { o.Owner = "" }, "expires": func(o *pb.CommandOverride) { o.Expires = "2020-01-01" },
		"burst": func(o *pb.CommandOverride) { o.Burst = "5" },
	} {
		if err := add(edit); !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := w.cp.RemoveOverride(t.Context(), &pb.RemoveOverrideRequest{Key: acme("report_export"), Who: "jo", Why: "typo"})
	if !errors.Is(err, policy.ErrNoOverride) || errors.Is(err, ErrUnavailable) {
		t.Errorf("remove what is not there: %v", err)
	}
	if _, err := w.cp.RemoveOverride(t.Context(), &pb.RemoveOverrideRequest{Key: acme("report_export"), Who: "jo"}); !errors.As(err, &field) || field.Field != "why" {
		t.Errorf("remove without a reason: %v", err)
	}
	if w.cp.policyVersion() != 1 {
		t.Errorf("version %d is in use", w.cp.policyVersion())
	}
}
