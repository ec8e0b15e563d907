package agent

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
		r, first := rs.claim(fmt.Sprint(i), quota.Key{}, 1, 1)
		if !first {
			t.Fatalf("id %d was known", i)
		}
		rs.settle(r, Decision{Allowed: true}, true)
	}
	rs.claim("last", quota.Key{}, 1, 1)
	if len(rs.order) != remembered || len(rs.byID) != remembered+1 {
		t.Errorf("%d and %d remembered, the cap is %d", len(rs.order), len(rs.byID), remembered)
	}
	if _, first := rs.claim("0", quota.Key{}, 1, 1); !first {
		t.Error("the oldest did not go first")
	}
}
