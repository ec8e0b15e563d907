package ledger_test

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger"
)

func TestLowestIDDividesIdsByAge(t *testing.T) {
	t.Parallel()
	if got, want := ledger.LowestID(time.UnixMilli(0x0123456789ab)).String(), "01234567-89ab-0000-0000-000000000000"; got != want {
		t.Errorf("lowest id %s, want %s", got, want)
	}
	if got := ledger.LowestID(time.Time{}); !got.IsNil() {
		t.Errorf("lowest id of the zero time %s, want nil", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(0, 1<<47*1000).Draw(t, "at"))
		bound := ledger.LowestID(at)
		serial := rapid.Uint64().Draw(t, "serial")
		for _, c := range []struct {
			apart time.Duration
			below bool
		}{{-time.Millisecond, true}, {0, false}, {time.Millisecond, false}} {
			id := idAt(at.Add(c.apart), serial)
			if at.UnixMilli() > 0 && (bytes.Compare(id[:], bound[:]) < 0) != c.below {
				t.Fatalf("id %s, made %s from %s, bound %s: want below %t", id, c.apart, at, bound, c.below)
			}
		}
	})
}
