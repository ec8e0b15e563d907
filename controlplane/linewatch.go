package controlplane

import (
	"context"
	"time"

	"github.com/quotalease/quotalease/ledger"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const (
	linePage   = 1000
	lineNotice = 200              // lines in one notice
	lineRetell = 10 * time.Second // agents are told again of every line in which somebody waits
	lineSweeps = 64               // lines of which lapsed tickets are dropped in one look
)

// look reads which lines there are, tells agents what changed, and drops tickets that nobody asks
// about where nobody else does either. It is for one caller at a time.
func (l *lines) look(ctx context.Context) error {
	if l.store == nil {
		return nil
	}
	states, err := l.all(ctx)
	if err != nil {
		return err
	}
	now := l.now()
	l.measure(states, now)
	waiting := make(map[ledger.LineID]int, len(states))
	again := now.Sub(l.toldAt) >= lineRetell || now.Before(l.toldAt)
	var changed, standing []*pb.LineNews
	for _, s := range states {
		waiting[s.ID] = s.Tickets
		news := &pb.LineNews{Tenant: s.ID.Tenant, Operation: s.ID.Operation, Tickets: int64(s.Tickets)}
		standing = append(standing, news)
		if _, known := l.told[s.ID]; again || !known {
			changed = append(changed, news)
		}
	}
	for id := range l.told {
		if waiting[id] == 0 {
			changed = append(changed, &pb.LineNews{Tenant: id.Tenant, Operation: id.Operation})
		}
	}
	l.told = waiting
	if again {
		l.toldAt = now
	}
	l.hub.tellLines(noticesOf(changed), noticesOf(standing))
	return l.sweep(ctx, states, now)
}

func (l *lines) all(ctx context.Context) (all []ledger.LineState, err error) {
	var after ledger.LineID
	for {
		page, err := l.store.Lines(ctx, after, linePage)
		if err != nil {
			return nil, outage("list lines", err)
		}
		all = append(all, page...)
		if len(page) < linePage {
			return all, nil
		}
		after = page[len(page)-1].ID
	}
}

// sweep drops what has lapsed. Whoever asks for a place drops it too; this is for lines that
// nobody asks at.
func (l *lines) sweep(ctx context.Context, states []ledger.LineState, now time.Time) error {
	swept := 0
	for _, s := range states {
		if swept == lineSweeps || now.Before(s.LapsesAt) {
			continue
		}
		swept++
		if err := l.store.UpdateLine(ctx, s.ID, func(*ledger.Line) error { return nil }); err != nil {
			return outage("drop lapsed tickets", err)
		}
	}
	return nil
}

// measure shows the lines of each operation together: no label names a tenant.
func (l *lines) measure(states []ledger.LineState, now time.Time) {
	tickets, oldest := map[string]int{}, map[string]time.Duration{}
	for _, s := range states {
		tickets[s.ID.Operation] += s.Tickets
		oldest[s.ID.Operation] = max(oldest[s.ID.Operation], now.Sub(s.Oldest))
	}
	l.metrics.lineTickets.Reset()
	l.metrics.lineOldest.Reset()
	for operation, n := range tickets {
		l.metrics.lineTickets.WithLabelValues(operation).Set(float64(n))
		l.metrics.lineOldest.WithLabelValues(operation).Set(seconds(oldest[operation]))
	}
}

func noticesOf(news []*pb.LineNews) []*pb.Notice {
	var notices []*pb.Notice
	for len(news) > 0 {
		n := min(len(news), lineNotice)
		notices = append(notices, &pb.Notice{Lines: news[:n]})
		news = news[n:]
	}
	return notices
}

// tellLines offers all agents what changed, and keeps what an agent that comes later has to know.
func (h *hub) tellLines(changed, standing []*pb.Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = standing
	for s := range h.subs {
		for _, n := range changed {
			h.offer(s.notices, n)
		}
	}
}

// greeting is what an agent is told first: it was not listening for a while.
func (h *hub) greeting() []*pb.Notice {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*pb.Notice{{PolicyVersion: h.policy()}}, h.lines...)
}
