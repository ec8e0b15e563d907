//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// outcome is what a caller learnt of its take.
type outcome string

const (
	allowed     outcome = "allowed"
	denied      outcome = "denied"
	unavailable outcome = "unavailable" // the agent said that it cannot tell
	unknown     outcome = "unknown"     // it was sent, and no answer came
	unsent      outcome = "unsent"      // nobody was there
)

// take is one take that a caller made.
type take struct {
	sent, answered time.Duration // since the start of the round
	agent          string
	key            quota.Key
	cost           quota.Units
	outcome        outcome
	reason         quota.Reason
}

func (t take) String() string {
	return fmt.Sprintf("%8.3fs take %s from %s cost %d: %s %s after %s", t.answered.Seconds(), t.key, t.agent, t.cost, t.outcome, t.reason,
		(t.answered - t.sent).Round(10*time.Microsecond))
}

// history is all that happened, in the order in which it became known.
type history struct {
	began time.Time

	mu    sync.Mutex
	takes []take
	lines []any // takes and sentences about faults
}

func (h *history) now() time.Duration { return time.Since(h.began) }

func (h *history) took(t take) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.takes = append(h.takes, t)
	h.lines = append(h.lines, t)
}

func (h *history) say(format string, args ...any) {
	line := fmt.Sprintf("%8.3fs ", h.now().Seconds()) + fmt.Sprintf(format, args...)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

// all returns the takes so far.
func (h *history) all() []take {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.takes)
}

// last returns the end of the history, or all of it if n is negative.
func (h *history) last(n int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	if n >= 0 {
		lines = lines[max(0, len(lines)-n):]
	}
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}
