package controlplane

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// whoWaits is what an operator sees, a line for each caller.
func (w *world) whoWaits(m *pb.ListWaitingRequest) (lines []string) {
	w.t.Helper()
	reply, err := w.cp.ListWaiting(w.t.Context(), m)
	if err != nil {
		w.t.Fatal(err)
	}
	now := micros(w.ledger.now())
	ahead := func(us int64) time.Duration { return time.Duration(us-now) * time.Microsecond }
	for _, x := range reply.GetWaiting() {
		line := fmt.Sprintf("%s %s %d, %d times", x.GetTenant(), x.GetOperation(), x.GetPlace(), x.GetTimes())
		for _, t := range x.GetTakes() {
			line += fmt.Sprintf(", %s %d", t.GetDimension(), t.GetCost())
		}
		lines = append(lines, line+fmt.Sprintf(", since %v, asks in %v, lost in %v, too old in %v",
			ahead(x.GetSinceUs()), ahead(x.GetAskAgainUs()), ahead(x.GetAskByUs()), ahead(x.GetExpiresAtUs())))
	}
	return lines
}

func TestR4_5OperatorsSeeWhoWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, linePolicy)
	a := w.agent()
	var ids []ledger.ID
	stand := func(tenant, operation string, times int64, retryIn time.Duration) {
		t.Helper()
		id := w.id()
		x := step(pb.DeferItem_STEP_JOIN, id, operation)
		x.Tenant, x.Times, x.Reason, x.RetryInUs = tenant, times, "exhausted", retryIn.Microseconds()
		if s := a.move(x)[0]; s.GetFault() != nil || s.GetGone() {
			t.Fatalf("%s has no place: %v", tenant, s)
		}
		ids = append(ids, id)
	}
	stand("globex", "start_export", 1, 10*time.Second)
	stand("acme", "start_export", 3, 10*time.Second)
	stand("acme", "call", 1, 4*time.Second)
	w.ledger.move(2 * time.Second)
	stand("acme", "start_export", 1, 10*time.Second)

	globex := "globex start_export 0, 1 times, exports 1, since -2s, asks in 8.1s, lost in 23.1s, too old in 47h59m58s"
	first := "acme start_export 0, 3 times, exports 3, since -2s, asks in 8.1s, lost in 23.1s, too old in 47h59m58s"
	second := "acme start_export 1, 1 times, exports 1, since 0s, asks in 10.12s, lost in 25.12s, too old in 48h0m0s"
	call := "acme call 0, 1 times, calls 2, since -2s, asks in 2.1s, lost in 17.1s, too old in 58s"
	for _, tt := range []struct {
		m    *pb.ListWaitingRequest
		want []string
	}{
		{&pb.ListWaitingRequest{}, []string{call, first, second, globex}},
		{&pb.ListWaitingRequest{Limit: 2}, []string{call, first}},
		{&pb.ListWaitingRequest{Tenant: "acme"}, []string{call, first, second}},
		{&pb.ListWaitingRequest{Operation: "start_export"}, []string{first, second, globex}},
		{&pb.ListWaitingRequest{Tenant: "globex", Operation: "call"}, nil},
	} {
		if got := w.whoWaits(tt.m); !slices.Equal(got, tt.want) {
			t.Errorf("%v:\n%q, want\n%q", tt.m, got, tt.want)
		}
	}

	// Looking keeps nobody in line: whoever does not ask loses the place all the same, and whoever
	// stands behind moves up.
	w.ledger.move(24 * time.Second)
	if got, want := w.whoWaits(&pb.ListWaitingRequest{}), []string{
		"acme start_export 0, 1 times, exports 1, since -24s, asks in -13.88s, lost in 1.12s, too old in 47h59m36s",
	}; !slices.Equal(got, want) {
		t.Errorf("after a while:\n%q, want\n%q", got, want)
	}
	if s := a.place(ids[3]); s.GetGone() || s.GetPlace() != 0 {
		t.Errorf("the last is told %v, want the first place", s)
	}
	// What an operation costs that policy does not have any more nobody knows.
	w.apply("unlisted_tenants: deny\ntenants: [{tenant: acme}]\ndimensions:\n  - {name: exports, kind: period, limit: 5, period: {every: day}, class: hard, overshoot: 100%, lease: {ttl: 30s}}\n")
	if err := w.cp.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.whoWaits(&pb.ListWaitingRequest{}); len(got) != 1 || !strings.HasPrefix(got[0], "acme start_export 0, 1 times, since ") {
		t.Errorf("without the operation: %q", got)
	}
}

func TestBadQuestionsAboutLinesNameTheField(t *testing.T) {
	t.Parallel()
	w := newWorld(t, linePolicy)
	for field, m := range map[string]*pb.ListWaitingRequest{
		"limit":     {Limit: -1},
		"tenant":    {Tenant: "a\nb"},
		"operation": {Operation: "Start Export"},
	} {
		_, err := w.cp.ListWaiting(t.Context(), m)
		var fault *quota.FieldError
		if !errors.As(err, &fault) || fault.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	w.cp.cfg.Lines = nil
	if _, err := w.cp.ListWaiting(t.Context(), &pb.ListWaitingRequest{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("where no lines are kept: %v", err)
	}
}
