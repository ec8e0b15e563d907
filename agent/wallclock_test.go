package agent

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// skewedUplink is a control plane whose clock is an hour ahead of this machine's.
type skewedUplink struct{ *fakeUplink }

func (s skewedUplink) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	reply, err := s.fakeUplink.Sync(ctx, req)
	if err == nil {
		reply.LedgerNowUs += time.Hour.Microseconds()
	}
	return reply, err
}

func TestAWallClockThatIsOffIsWarnedOfAndNotUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		a, stop := start(t, skewedUplink{newFakeUplink()}, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		for range 3 {
			if d, err := a.Take(t.Context(), "acme", "report_export", 1); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			time.Sleep(10 * time.Second)
		}
		a.mu.Lock()
		offset := time.Until(a.core.LedgerTime(a.now()))
		a.mu.Unlock()
		stop()
		if offset < time.Hour-time.Second || offset > time.Hour+time.Second {
			t.Errorf("the estimate is %s from the wall clock, want an hour", offset)
		}
		if n := strings.Count(log.String(), "wall clock is off"); n != 1 {
			t.Errorf("warned %d times:\n%s", n, log.String())
		}
	})
}
