package agent

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestARepeatedTakeIsChargedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		a, stop := start(t, up)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if d, err := a.TakeOnce(t.Context(), "order-1", "acme", "report_export", 7); err != nil || !d.Allowed {
					t.Errorf("%+v, %v", d, err)
				}
			})
		}
		wg.Wait()
		first, _ := a.TakeOnce(t.Context(), "order-1", "acme", "report_export", 7)
		time.Sleep(time.Minute)
		later, err := a.TakeOnce(t.Context(), "order-1", "acme", "report_export", 7)
		if err != nil || first.Reset-later.Reset != time.Minute {
			t.Errorf("a minute later the window ends in %s, it was %s: %v", later.Reset, first.Reset, err)
		}
		_, err = a.TakeOnce(t.Context(), "order-1", "acme", "report_export", 8)
		var field *quota.FieldError
		if !errors.As(err, &field) || field.Field != "id" {
			t.Errorf("other terms under one id: %v", err)
		}
		if _, err := a.TakeOnce(t.Context(), "", "acme", "report_export", 1); !errors.As(err, &field) || field.Field != "id" {
			t.Errorf("no id: %v", err)
		}
		time.Sleep(rememberFor)
		if d, err := a.TakeOnce(t.Context(), "order-1", "acme", "report_export", 8); err != nil || !d.Allowed {
			t.Errorf("an id that was forgotten is a new one: %+v, %v", d, err)
		}
		stop()
		if got := up.confirmed(); got != 7+8 {
			t.Errorf("charged %d, want 7 once and 8 once", got)
		}
	})
}

func TestARepeatOfADenialIsDecidedAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		up.limit = 0
		a, stop := start(t, up)
		defer stop()
		if d, err := a.TakeOnce(t.Context(), "order-1", "acme", "report_export", 1); err != nil || d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		up.mu.Lock()
		up.limit, up.gen = 10, 2
		up.mu.Unlock()
		time.Sleep(10 * time.Second)
		if d, err := a.TakeOnce(t.Context(), "order-1", "acme", "report_export", 1); err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

func TestRememberedIDsAreCapped(t *testing.T) {
	t.Parallel()
	var rs repeats
	for i := range remembered + 500 {
		r, first := rs.claim(tenantID{"acme", fmt.Sprint(i)}, terms{"take", 1}, 1)
		if !first {
			t.Fatalf("id %d was known", i)
		}
		rs.settle(r, Reservation{Decision: Decision{Allowed: true}}, true)
	}
	rs.claim(tenantID{"acme", "last"}, terms{"take", 1}, 1)
	if len(rs.order) != remembered || len(rs.byID) != remembered+1 {
		t.Errorf("%d and %d remembered, the cap is %d", len(rs.order), len(rs.byID), remembered)
	}
	if _, first := rs.claim(tenantID{"acme", "0"}, terms{"take", 1}, 1); !first {
		t.Error("the oldest did not go first")
	}
}

func TestARepeatOfAnyKindIsChargedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		a, stop := start(t, jobs{up})
		takes := []core.DimensionCost{{Dimension: "report_export", Cost: 4}, {Dimension: "api_calls", Cost: 1}}
		var reserved [2]Reservation
		for i := range 2 {
			if d, err := a.TakeAllOnce(t.Context(), "all", "acme", takes); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			if d, err := a.TakeOperationOnce(t.Context(), "op", "acme", "start_export", 2); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			r, err := a.ReserveOnce(t.Context(), "reserve", "acme", "report_export", 8, true)
			if err != nil || !r.Allowed {
				t.Fatal(r, err)
			}
			reserved[i] = r
		}
		if reserved[0].ID != reserved[1].ID {
			t.Errorf("two reservations under one id: %s and %s", reserved[0].ID, reserved[1].ID)
		}
		var field *quota.FieldError
		if _, err := a.TakeAllOnce(t.Context(), "all", "acme", takes[:1]); !errors.As(err, &field) || field.Field != "id" {
			t.Errorf("other terms under one id: %v", err)
		}
		stop()
		if got := up.confirmed(); got != 5+6+8 {
			t.Errorf("charged %d, want 5, 6 and 8 once each", got)
		}
	})
}
