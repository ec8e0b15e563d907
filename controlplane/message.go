package controlplane

import (
	"time"

	"github.com/gofrs/uuid/v5"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Caps on what one message may hold. They bound memory and the length of a transaction.
const (
	MaxItems     = 4096 // of each list
	maxNameBytes = 256
)

// Instants are microseconds that a calendar can hold: the years 1 to 9999.
const (
	firstInstant = -62_135_596_800_000_000
	lastInstant  = 253_402_300_799_999_999
)

func idOf(field string, b []byte) (ledger.ID, error) {
	id, err := uuid.FromBytes(b)
	if err != nil || id.IsNil() {
		return ledger.ID{}, invalid(field, "a UUID of 16 bytes")
	}
	return id, nil
}

func keyOf(k *pb.Key) (quota.Key, error) {
	key := quota.Key{Tenant: k.GetTenant(), Dimension: k.GetDimension()}
	return key, key.Validate()
}

func windowOf(w *pb.Window) (quota.Window, error) {
	start, end := w.GetStartUs(), w.GetEndUs()
	if start == 0 && end == 0 {
		return quota.Window{}, nil
	}
	if start < firstInstant || end > lastInstant || end <= start || end == 0 {
		return quota.Window{}, invalid("window", "a window of the key's calendar")
	}
	return quota.NewWindow(time.UnixMicro(start), time.UnixMicro(end)), nil
}

// helloOf reads who sends. A token is only ever echoed by a Sync.
func helloOf(h *pb.Hello) (ledger.Hello, error) {
	incarnation, err := idOf("hello.incarnation", h.GetIncarnation())
	if err != nil {
		return ledger.Hello{}, err
	}
	hello := ledger.Hello{Incarnation: incarnation, Name: h.GetName(), Region: h.GetRegion(), PolicyVersion: h.GetPolicyVersion()}
	if len(h.GetToken()) > 0 {
		if hello.Token, err = idOf("hello.token", h.GetToken()); err != nil {
			return ledger.Hello{}, err
		}
	}
	for _, f := range []struct{ field, name string }{{"hello.name", hello.Name}, {"hello.region", hello.Region}} {
		if f.name == "" {
			continue
		}
		if len(f.name) > maxNameBytes || quota.ValidateTenant(f.name) != nil {
			return ledger.Hello{}, invalid(f.field, "at most %d bytes of UTF-8 without control characters", maxNameBytes)
		}
	}
	return hello, nil
}

// listed is how many items a list of a message has.
type listed struct {
	field string
	items int
}

func capped(lists ...listed) error {
	for _, l := range lists {
		if l.items > MaxItems {
			return invalid(l.field, "at most %d", MaxItems)
		}
	}
	return nil
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func keyMessage(k quota.Key) *pb.Key { return &pb.Key{Tenant: k.Tenant, Dimension: k.Dimension} }

func windowMessage(w quota.Window) *pb.Window {
	return &pb.Window{StartUs: micros(w.Start), EndUs: micros(w.End)}
}

func stateMessage(s ledger.State) pb.GrantState {
	switch s {
	case ledger.Live:
		return pb.GrantState_GRANT_STATE_LIVE
	case ledger.Closed:
		return pb.GrantState_GRANT_STATE_CLOSED
	case ledger.Final:
		return pb.GrantState_GRANT_STATE_FINAL
	case ledger.Denied:
		return pb.GrantState_GRANT_STATE_DENIED
	case ledger.Withdrawn:
		return pb.GrantState_GRANT_STATE_CANCELLED
	}
	return pb.GrantState_GRANT_STATE_UNSPECIFIED
}

// upToMicros rounds up: who waits that long has waited long enough.
func upToMicros(d time.Duration) int64 {
	if d%time.Microsecond > 0 {
		d += time.Microsecond
	}
	return d.Microseconds()
}

// decisionMessage tells a record as it was decided and as it stands now; its window is left out.
func decisionMessage(g *ledger.Grant, now time.Time) *pb.Decision {
	d := &pb.Decision{
		GrantId: g.ID.Bytes(), Amount: int64(g.Amount), Reason: string(g.Reason), TtlUs: g.TTL.Microseconds(),
		IssuedAtUs: micros(g.IssuedAt), ExpiresAtUs: micros(g.ExpiresAt), PolicyVersion: g.PolicyVersion,
		Generation: g.Generation, State: stateMessage(g.State), Revoked: !g.RevokedAt.IsZero(),
		Region: g.Region,
		Seq:    g.Seq, Emergency: g.Kind == ledger.KindEmergency,
		DelayUs: g.Delay.Microseconds(), DripUs: g.Drip.Microseconds(),
	}
	if g.StartsAt.After(now) {
		d.StartsInUs = g.StartsAt.Sub(now).Microseconds()
	}
	if g.State == ledger.Live {
		// The account's clock may run ahead of this reading; a lease never has more than its ttl.
		d.RemainingUs = min(max(0, g.ExpiresAt.Sub(now)), g.TTL).Microseconds()
	}
	return d
}
