package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func TestR4_5WaitingCallersAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, up *lossy, agents []*agent.Agent) {
		useUp(t, agents[0])
		var wg sync.WaitGroup
		var mu sync.Mutex // guards served
		served := map[string]time.Time{}
		wait := func(name string, a *agent.Agent, place int64) {
			d := begin(t, a)
			if d.Allowed || d.Ticket == nil || d.Ticket.Place != place && place >= 0 {
				t.Fatalf("%s: %+v, %+v, want place %d", name, d, d.Ticket, place)
			}
			wg.Go(func() {
				caller(t, agents, d)
				mu.Lock()
				defer mu.Unlock()
				served[name] = time.Now()
			})
		}
		for i := range 8 {
			wait(fmt.Sprint("early ", i), agents[i%2], int64(i))
		}
		time.Sleep(time.Until(nextMinute().Add(5 * time.Millisecond)))
		for i := range 4 { // the minute's units are free, and others wait for them
			wait(fmt.Sprint("late ", i), agents[i%2], -1)
		}
		wg.Wait()
		minute := func(name string) int {
			return int(served[name].Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) / time.Minute)
		}
		if len(served) != 12 {
			t.Fatalf("%d were served, want all 12: %v", len(served), served)
		}
		perMinute := map[int]int{}
		for name := range served {
			perMinute[minute(name)]++
		}
		for i := range 8 {
			if want := 1 + i/5; minute(fmt.Sprint("early ", i)) != want {
				t.Errorf("early %d was served at %s, want minute %d", i, served[fmt.Sprint("early ", i)], want)
			}
		}
		for i := range 4 {
			if minute(fmt.Sprint("late ", i)) < 2 {
				t.Errorf("late %d was served at %s, before others", i, served[fmt.Sprint("late ", i)])
			}
		}
		for m, n := range perMinute {
			if n > 5 {
				t.Errorf("%d were served in minute %d", n, m)
			}
		}
	})
}

func TestR4_5NewcomersGoBehindWhomTheAgentKnowsToWait(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, up *lossy, agents []*agent.Agent) {
		useUp(t, agents[0])
		first := begin(t, agents[0])
		first = until(t, agents[0], first, nextMinute())
		time.Sleep(time.Until(nextMinute().Add(time.Millisecond)))
		// A fresh minute: five are free, and the other agent has heard of the line.
		joined := up.steps(pb.DeferItem_STEP_JOIN)
		d := begin(t, agents[1])
		if !d.Allowed || up.steps(pb.DeferItem_STEP_JOIN) != joined+1 {
			t.Errorf("a newcomer was answered %+v, want it to go by way of the line, where there is room for two", d)
		}
		if d, err := again(t, agents[1], first.Ticket); err != nil || !d.Allowed {
			t.Errorf("the first: %+v, %v", d, err)
		}
		time.Sleep(2 * time.Second) // the line is empty, and both have heard
		joined = up.steps(pb.DeferItem_STEP_JOIN)
		if d := begin(t, agents[0]); !d.Allowed || up.steps(pb.DeferItem_STEP_JOIN) != joined {
			t.Errorf("nobody waits any more: %+v, and it went by way of the line", d)
		}
	})
}

func TestR4_5ACallerThatVanishedHoldsUpNobodyForLong(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, _ *lossy, agents []*agent.Agent) {
		useUp(t, agents[0])
		var tickets []agent.Decision
		for range 6 {
			tickets = append(tickets, begin(t, agents[0]))
		}
		var wg sync.WaitGroup
		wg.Go(func() { until(t, agents[0], tickets[0], nextMinute()) }) // then it never comes back
		began := time.Now().Truncate(time.Minute)
		var last time.Time
		for i, d := range tickets[1:] {
			wg.Go(func() {
				caller(t, agents, d)
				if i == 4 {
					last = time.Now()
				}
			})
		}
		wg.Wait()
		if took := last.Sub(began); took < time.Minute+15*time.Second || took > time.Minute+30*time.Second {
			t.Errorf("the sixth was served after %s, want once the head's patience was over", took)
		}
		if _, err := again(t, agents[0], tickets[0].Ticket); !errors.As(err, new(*agent.UnknownIDError)) {
			t.Errorf("the head came back: %v, want that it has lost its place", err)
		}
	})
}

func TestR4_5WhoLeavesMakesRoomForThoseBehind(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, up *lossy, agents []*agent.Agent) {
		useUp(t, agents[0])
		first, second, third := begin(t, agents[0]), begin(t, agents[0]), begin(t, agents[1])
		leave := func(a *agent.Agent, d agent.Decision) error {
			return a.LeaveTurn(t.Context(), d.Ticket.ID, "acme", "start_export")
		}
		for range 2 { // at the other agent, and twice
			if err := leave(agents[1], first); err != nil {
				t.Fatal(err)
			}
		}
		if err := agents[0].LeaveTurn(t.Context(), second.Ticket.ID, "globex", "start_export"); err != nil {
			t.Errorf("another tenant's line, where the ticket is not: %v", err)
		}
		for i, d := range []agent.Decision{second, third} {
			if got, err := again(t, agents[0], d.Ticket); err != nil || got.Ticket == nil || got.Ticket.Place != int64(i) {
				t.Errorf("who was behind is told %+v, %v, want place %d", got.Ticket, err, i)
			}
		}
		if _, err := again(t, agents[0], first.Ticket); !errors.As(err, new(*agent.UnknownIDError)) {
			t.Errorf("who left came back: %v", err)
		}
		up.cut(true)
		if err := leave(agents[0], second); !errors.As(err, new(*agent.UnavailableError)) {
			t.Errorf("in an outage: %v", err)
		}
		up.cut(false)
		third = until(t, agents[1], third, nextMinute())
		if err := leave(agents[0], second); err != nil {
			t.Error(err)
		}
		time.Sleep(third.RetryIn)
		if d, err := again(t, agents[1], third.Ticket); err != nil || !d.Allowed {
			t.Errorf("the last of the line, when there is room: %+v, %v", d, err)
		}
		// It was served, and leaving takes nothing of that back.
		if err := leave(agents[1], third); err != nil {
			t.Error(err)
		}
		if d, err := again(t, agents[1], third.Ticket); err != nil || !d.Allowed {
			t.Errorf("a repeat of what was served: %+v, %v", d, err)
		}
	})
}

func TestBadDeparturesNameTheField(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, up *lossy, agents []*agent.Agent) {
		useUp(t, agents[0])
		ticket := begin(t, agents[0]).Ticket.ID
		sent := up.steps(pb.DeferItem_STEP_LEAVE)
		for field, x := range map[string][3]string{
			"ticket":    {"7", "acme", "start_export"},
			"tenant":    {ticket, "", "start_export"},
			"operation": {ticket, "acme", "Start export"},
		} {
			var bad *quota.FieldError
			if err := agents[0].LeaveTurn(t.Context(), x[0], x[1], x[2]); !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		if n := up.steps(pb.DeferItem_STEP_LEAVE) - sent; n != 0 {
			t.Errorf("%d steps were sent", n)
		}
	})
}

func TestR4_5AnOutageGivesNoTicketAndTakesNoPlace(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, up *lossy, agents []*agent.Agent) {
		useUp(t, agents[0])
		first, second := begin(t, agents[0]), begin(t, agents[0])
		up.cut(true)
		var away *agent.UnavailableError
		if _, err := agents[0].TakeOperation(t.Context(), "acme", "start_export", 1); !errors.As(err, &away) {
			t.Errorf("a newcomer in an outage: %v", err)
		}
		if _, err := again(t, agents[0], second.Ticket); !errors.As(err, &away) {
			t.Errorf("who waits, in an outage: %v", err)
		}
		up.cut(false)
		time.Sleep(2 * time.Second)
		for i, d := range []agent.Decision{first, second} {
			got, err := again(t, agents[1], d.Ticket)
			if err != nil || got.Allowed || got.Ticket == nil || got.Ticket.Place != int64(i) || got.Ticket.ID != d.Ticket.ID {
				t.Errorf("ticket %d after it: %+v, %v", i, got.Ticket, err)
			}
		}
		if d := begin(t, agents[1]); d.Ticket == nil || d.Ticket.Place != 2 {
			t.Errorf("the next: %+v, want place 2: the newcomer of the outage left nothing behind", d.Ticket)
		}
	})
}

func TestR4_5LostRepliesMakeNoSecondTicketAndChargeNothingTwice(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, up *lossy, agents []*agent.Agent) {
		useUp(t, agents[0])
		up.loseReplies(2)
		first := begin(t, agents[0])
		if first.Ticket == nil || first.Ticket.Place != 0 || up.steps(pb.DeferItem_STEP_JOIN) != 3 {
			t.Errorf("joined three times by one id: %+v", first.Ticket)
		}
		if second := begin(t, agents[0]); second.Ticket == nil || second.Ticket.Place != 1 {
			t.Errorf("the next: %+v, want place 1", second.Ticket)
		}
		first = until(t, agents[0], first, nextMinute())
		time.Sleep(first.RetryIn)
		served, err := again(t, agents[0], first.Ticket)
		if err != nil || !served.Allowed {
			t.Fatal(served, err)
		}
		up.loseReplies(2) // of leaving
		time.Sleep(time.Second)
		if n := up.steps(pb.DeferItem_STEP_LEAVE); n != 3 {
			t.Errorf("it left %d times, want until that was heard of", n)
		}
		repeat, err := again(t, agents[0], first.Ticket)
		if err != nil || !repeat.Allowed || repeat.Remaining != served.Remaining {
			t.Errorf("a repeat, because the answer was lost: %+v, %v; want %+v again", repeat, err, served)
		}
		if _, err := again(t, agents[1], first.Ticket); !errors.As(err, new(*agent.UnknownIDError)) {
			t.Errorf("the ticket of who was served, at another agent: %v", err)
		}
	})
}

func TestR4_5AgeAndLengthOfALineAreLimited(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, _ *lossy, agents []*agent.Agent) {
		useUp(t, agents[0])
		var first agent.Decision
		for i := range 13 {
			d := begin(t, agents[i%2])
			if i == 0 {
				first = d
			}
			if full := i == 12; (d.Ticket == nil) != full || (d.Reason == quota.LineFull) != full || d.Allowed {
				t.Errorf("caller %d: %+v, %+v", i, d, d.Ticket)
			}
		}
		if e := first.Ticket.Expires; e != 10*time.Minute {
			t.Errorf("a ticket is good for %s, want ten minutes", e)
		}
		time.Sleep(10*time.Minute + time.Second)
		if _, err := again(t, agents[0], first.Ticket); !errors.As(err, new(*agent.UnknownIDError)) {
			t.Errorf("an old ticket: %v", err)
		}
		var field *quota.FieldError
		for name, ask := range map[string]func() (agent.Decision, error){
			"ticket": func() (agent.Decision, error) {
				return agents[0].TakeInTurn(t.Context(), "7", "acme", "start_export", 1)
			},
			"tenant": func() (agent.Decision, error) {
				return agents[0].TakeInTurn(t.Context(), first.Ticket.ID, "", "start_export", 1)
			},
			"times": func() (agent.Decision, error) {
				d := begin(t, agents[0])
				for d.Ticket == nil {
					d = begin(t, agents[0])
				}
				return agents[0].TakeInTurn(t.Context(), d.Ticket.ID, "acme", "start_export", 2)
			},
		} {
			if _, err := ask(); !errors.As(err, &field) || field.Field != name {
				t.Errorf("bad %s: %v", name, err)
			}
		}
	})
}

func TestR4_5WhoeverIsBehindOthersIsToldSo(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, _ *lossy, agents []*agent.Agent) {
		useUp(t, agents[0])
		var wg sync.WaitGroup
		for range 5 {
			d := begin(t, agents[0])
			wg.Go(func() { until(t, agents[0], d, nextMinute()) })
		}
		wg.Wait()
		time.Sleep(time.Until(nextMinute().Add(time.Millisecond)))
		d := begin(t, agents[1]) // five are free, for the five before it
		if d.Allowed || d.Reason != quota.Waiting || d.Dimension != "exports" || d.Limit != quota.LimitOf(5) || d.Ticket == nil || d.Ticket.Place != 5 {
			t.Errorf("told %+v, %+v; want that others wait, and place 5", d, d.Ticket)
		}
	})
}

func TestAGracefulStopTakesServedTicketsOutOfTheLine(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, up *lossy, agents []*agent.Agent) {
		began := time.Now()
		cfg := agent.Config{Name: "brief", Region: "eu"}
		cfg.SetNow(func() time.Duration { return time.Hour + time.Since(began) })
		a, err := agent.New(cfg, up)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- a.Run(ctx) }()
		useUp(t, agents[0])
		first := until(t, agents[0], begin(t, agents[0]), nextMinute())
		time.Sleep(first.RetryIn)
		up.loseReplies(1) // of asking for the place
		if d, err := again(t, a, first.Ticket); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		stop()
		if err := <-over; err != nil {
			t.Fatal(err)
		}
		if n := up.steps(pb.DeferItem_STEP_LEAVE); n != 1 {
			t.Errorf("the ticket left %d times before the agent was gone, want once", n)
		}
	})
}
