package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// The most that passes 10 a second of each algorithm, when as many ask as can and choose the worst
// moment. It is measured by asking every millisecond, from each millisecond of a second on, of a
// limit that nobody used before.

// worst is the most that passes within a span, its end not included.
func worst(passed []time.Duration, span time.Duration) int {
	most, first := 0, 0
	for i, at := range passed {
		for at-passed[first] >= span {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// flood asks every millisecond from begin on and returns when what passed did so.
func flood(c core, begin, end time.Duration) (passed []time.Duration) {
	for now := begin; now < end; now += ms {
		for {
			a := c.take(now, 1, forever)
			if !a.Allowed {
				break
			}
			passed = append(passed, now+a.Delay)
		}
	}
	return passed
}

// work asks for slots every millisecond; each is held for 50 ms.
func work(begin, end time.Duration) (passed []time.Duration) {
	s := &slots{limit: 10}
	held := map[time.Duration][]*place{}
	for now := begin; now < end; now += ms {
		for _, p := range held[now] {
			s.leave(now, p)
		}
		for {
			p := &place{cost: 1}
			if s.enter(now, p, 0); p.state != running {
				break
			}
			held[now+50*ms] = append(held[now+50*ms], p)
			passed = append(passed, now)
		}
	}
	return passed
}

func TestTheDocumentSaysWhatEachAlgorithmLetsThrough(t *testing.T) {
	t.Parallel()
	rows := []string{"| algorithm | at one moment | in any second | in any 10 s |", "|---|---|---|---|"}
	for _, a := range Algorithms {
		var most [3]int
		for begin := time.Second; begin < 2*time.Second; begin += 37 * ms {
			begin := min(begin, 1999*ms)
			var passed []time.Duration
			if a == Concurrency {
				passed = work(begin, begin+12*time.Second)
			} else {
				passed = flood(newCore(0, aLimit(a, 10, time.Second)), begin, begin+12*time.Second)
			}
			for i, span := range []time.Duration{1, time.Second, 10 * time.Second} {
				most[i] = max(most[i], worst(passed, span))
			}
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %d | %d | %d |", a, most[0], most[1], most[2]))
	}
	holdTo(t, strings.Join(rows, "\n"))
}

// holdTo wants DOORS.md to say something.
func holdTo(t *testing.T, text string) {
	t.Helper()
	doors, err := os.ReadFile(filepath.Join("..", "DOORS.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doors), text) {
		t.Errorf("agent/DOORS.md does not say:\n%s", text)
	}
}

// mistakes counts how often the counter decides otherwise than the log would, each under its own
// decisions, key by key.
type mistakes struct{ requests, denied, passed, refused int }

func (m *mistakes) String() string {
	return fmt.Sprintf("| %d | %.1f %% | %.2f %% | %.2f %% |", m.requests, m.share(m.denied), m.share(m.passed), m.share(m.refused))
}

func (m *mistakes) share(n int) float64 { return 100 * float64(n) / float64(max(m.requests, 1)) }

type request struct {
	key string
	at  time.Duration
}

func compare(requests []request, units quota.Units, per time.Duration) *mistakes {
	type pair struct{ log, counter core }
	keys := map[string]*pair{}
	m := &mistakes{}
	for _, r := range requests {
		p := keys[r.key]
		if p == nil {
			p = &pair{newCore(0, aLimit(SlidingLog, units, per)), newCore(0, aLimit(SlidingCounter, units, per))}
			keys[r.key] = p
		}
		exact, estimate := p.log.take(r.at, 1, 0).Allowed, p.counter.take(r.at, 1, 0).Allowed
		m.requests++
		switch {
		case !exact && estimate:
			m.denied++
			m.passed++
		case !exact:
			m.denied++
		case !estimate:
			m.refused++
		}
	}
	return m
}
