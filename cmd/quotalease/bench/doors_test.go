package bench

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/cmd/quotalease/stage"
)

func TestALateCallLastsFromWhenItWasDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keep := func(do func(func(time.Duration))) { do(time.Sleep) }
		// A call a millisecond, each of which holds up the only caller for ten.
		o := &opened{workers: 1, per: 2, pace: 1000, do: func(context.Context, int) error { time.Sleep(10 * ms); return nil }}
		got, err := meter{now: time.Now}.takePaced(t.Context(), o, 100*ms, keep)
		// The last is due after 99 ms and done after 1,000; the 50th after 49 and 500.
		if want := (Sample{PerSecond: 200, P50ms: 500 - 49, P99ms: 990 - 98}); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
		refused := errors.New("refused")
		o.do = func(context.Context, int) error { return refused }
		if _, err := (meter{now: time.Now}).takePaced(t.Context(), o, 10*ms, keep); !errors.Is(err, refused) {
			t.Errorf("%v, want that the call was refused", err)
		}
	})
}

func TestCallsWaitForTheirTime(t *testing.T) {
	t.Parallel()
	before := time.Now()
	keepTime(func(pause func(time.Duration)) {
		for time.Since(before) < ms {
			pause(ms - time.Since(before))
		}
	})
	if took := time.Since(before); took < ms {
		t.Errorf("paused for %s", took)
	}
}

// The stub answers what doors are asked with, and what it says counts as a yes.
func TestTheStubSaysYes(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	over := make(chan error, 1)
	go func() { over <- ServeStub(ctx, in) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	list, err := dial(strings.TrimSpace(strings.TrimPrefix(line, stage.Listening+"grpc=")), 3)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{tenants: 5}
	for name, of := range map[string]func() (calling, calling){"rate limit service": w.rateLimit, "take": w.take} {
		first, then := of()
		for _, c := range []*calling{&first, &then} {
			for i := range c.messages {
				if err := list.ask(t.Context(), i%3, c, i); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if c.allowed(nil) || c.allowed([]byte{0x08, 2}) {
				t.Errorf("%s: what is not a yes counts as one", name)
			}
		}
	}
	// It knows nothing of takes by the dozen, and that is an error.
	if _, many := w.takeMany(); list.ask(t.Context(), 0, &many, 0) == nil || allAllowed(nil) {
		t.Error("no answer counts as a yes")
	}
	if err := list.close(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
