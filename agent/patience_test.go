package agent

import (
	"testing"
	"testing/synctest"
	"time"
)

// The cold rule bounds the wait for a lease; whom the ledger sends on to the exact lane waits
// for that, too.
func TestACallerSentToTheExactLaneGetsItsAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		a, stop := start(t, up)
		defer stop()
		time.Sleep(time.Second) // the catalogue is in
		up.mu.Lock()
		up.rtt, up.reason = 8*time.Millisecond, "exact_lane"
		up.granted = up.limit - 5 // no lease of 7 is left, and a refund comes before the spend
		up.mu.Unlock()
		go func() {
			time.Sleep(10 * time.Millisecond)
			up.mu.Lock()
			up.granted = 0
			up.mu.Unlock()
		}()
		began := time.Now()
		d, err := a.Take(t.Context(), "acme", "report_export", 7)
		if err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
		if took := time.Since(began); took != 16*time.Millisecond {
			t.Errorf("answered after %s, want two round trips of 8 ms; the cold rule gives 10 ms", took)
		}
	})
}
