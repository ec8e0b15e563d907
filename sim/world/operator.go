package world

import (
	"context"
	"errors"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// operate is an operator at a replica: revokes leases, adds to a limit, frees what is held. Half
// of the time in the window before: its statement is amended.
func (w *World) operate(a Action, r *replica) {
	if r.cp == nil {
		return
	}
	w.fire(a.Kind)
	ctx := context.Background()
	key := &pb.Key{Tenant: a.Key.Tenant, Dimension: a.Key.Dimension}
	if a.Kind == Revoke {
		_, err := r.cp.RevokeLeases(ctx, &pb.RevokeLeasesRequest{Key: key, Who: "operator", Why: "simulation"})
		w.expectOutage(err, "revoke")
		return
	}
	id, err := w.ids.NewV7AtTime(w.database.now())
	if err != nil {
		panic(err) // only if randomness fails, and ours cannot
	}
	var window *pb.WindowStart
	if a.Mask == 1 {
		window = w.before(a.Key)
	}
	for range 2 { // an operator who heard nothing repeats it
		if a.Kind == Credit {
			_, err = r.cp.AdjustUsage(ctx, &pb.AdjustUsageRequest{Id: id.Bytes(), Key: key, Window: window, Credit: a.Cost, Who: "operator", Why: "simulation"})
		} else {
			_, err = r.cp.ReleaseHeld(ctx, &pb.ReleaseHeldRequest{Id: id.Bytes(), Key: key, Window: window, Units: a.Cost, Who: "operator", Why: "simulation"})
		}
		var bad *quota.FieldError
		if errors.As(err, &bad) && bad.Field == "window" {
			return // nothing was used in that one
		}
		if errors.Is(err, policy.ErrUnknownDimension) || errors.Is(err, policy.ErrUnknownTenant) {
			return
		}
		if !errors.Is(err, ledger.ErrClock) {
			w.expectOutage(err, a.Kind.String())
		}
	}
}

// before is the start of the window before the present one.
func (w *World) before(key quota.Key) *pb.WindowStart {
	length := time.Minute
	if key.Dimension == "brief" {
		length = time.Second
	}
	return &pb.WindowStart{AtUs: w.database.now().Truncate(length).Add(-length).UnixMicro()}
}
