package explore

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/ledger/quota"
)

// busyWorld is one in which everything may happen.
func busyWorld() *World {
	w := &World{Name: "busy", Agents: 2, Class: quota.Bounded, Limit: 3, Overshoot: `"67%"`, CutTo: 1, TTL: 4, Grace: 1, Boundary: 5, Horizon: 12, Patience: 3, Notices: true,
		Budget: Budget{Takes: 5, Losses: 2, Repeats: 2, Lates: 2, Delays: 2, Crashes: 2, Cuts: 1, Unknowns: 1, Setbacks: 1}}
	w.number()
	return w
}

func start(t *testing.T, w *World) (*state, *replicas) {
	t.Helper()
	rs, err := newReplicas(w)
	if err != nil {
		t.Fatal(err)
	}
	s, err := begin(w, rs)
	if err != nil {
		t.Fatal(err)
	}
	return s, rs
}

// TestACopyLivesItsOwnLife walks at random: what a copy does changes nothing in its original, and
// the original, which was never copied from, then comes to the same by the same step.
func TestACopyLivesItsOwnLife(t *testing.T) {
	t.Parallel()
	w := busyWorld()
	did := map[act]bool{}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s, rs := start(t, w)
		for n := 0; ; n++ {
			steps := s.steps()
			if len(steps) == 0 || n > 300 {
				break
			}
			x := steps[rng.IntN(len(steps))]
			did[x.act] = true
			if ended, err := s.copy().store().Unstated(t.Context(), 1); err != nil || len(ended) > 0 && !s.due() {
				t.Fatalf("seed %d, step %d: the store has a window to close, and the state does not know: %v", seed, n, err)
			}
			before := s.fingerprint()
			c := s.copy()
			if c.fingerprint() != before {
				t.Fatalf("seed %d, step %d: a copy is not like its original", seed, n)
			}
			c.do(rs, x)
			if s.fingerprint() != before {
				t.Fatalf("seed %d, step %d: %s of a copy changed the original", seed, n, c.fault)
			}
			if s.do(rs, x); s.fingerprint() != c.fingerprint() {
				t.Fatalf("seed %d, step %d: act %d leads a copy elsewhere", seed, n, x.act)
			}
		}
	}
	for a := send; a <= setBack; a++ {
		if !did[a] {
			t.Errorf("act %d never happened", a)
		}
	}
}

// TestWorldsSeeWhatTheyAreFor walks at random through the worlds with notices and with leases for
// the next window: agents hear that others are in need, that nothing is left and that there is more, and hold
// leases before they begin.
func TestWorldsSeeWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, w := range Worlds() {
		if !slices.Contains([]string{"notices", "drained", "next window", "well ahead"}, w.Name) {
			continue
		}
		w.number()
		for seed := range uint64(400) {
			rng := rand.New(rand.NewPCG(seed, 2))
			s, rs := start(t, w)
			for steps := s.steps(); len(steps) > 0; steps = s.steps() {
				x := steps[rng.IntN(len(steps))]
				if x.act == take && rng.IntN(3) > 0 {
					continue // callers spread over the ticks
				}
				s.do(rs, x)
				s.note(seen)
			}
			if s.fault != "" {
				t.Fatalf("world %s, seed %d: %s", w.Name, seed, s.fault)
			}
		}
	}
	for _, what := range []string{"wanted", "grew", "drained", "granted ahead", "held ahead"} {
		if !seen[what] {
			t.Errorf("no world sees: %s", what)
		}
	}
}

// note adds what a state shows.
func (s *state) note(seen map[string]bool) {
	for _, a := range s.agents {
		for _, n := range a.inbox {
			switch {
			case n.notice.GetWanted():
				seen["wanted"] = true
			case n.notice.GetDrained():
				seen["drained"] = true
			case n.notice.GetGeneration() > 0:
				seen["grew"] = true
			}
		}
	}
	for _, a := range s.agents {
		a.core.Holdings(func(h core.Holding) {
			if h.Start > s.now(a) {
				seen["held ahead"] = true
			}
		})
	}
	for _, g := range s.books.grants {
		if !g.StartsAt.IsZero() && g.Amount > 0 {
			seen["granted ahead"] = true
		}
	}
}

// TestStatesThatCountAsOneGoOnAlike compares what can come of two states with the same
// fingerprint that were reached in different ways.
func TestStatesThatCountAsOneGoOnAlike(t *testing.T) {
	t.Parallel()
	w := busyWorld()
	w.orders = [][]int{{0, 1}} // whose steps come first goes by numbers, so those have to be the same
	w.Boundary, w.Horizon, w.Budget = 3, 5, Budget{Takes: 2, Losses: 1, Repeats: 1, Crashes: 1, Cuts: 1, Setbacks: 1}
	first, rs := start(t, w)
	type mark struct {
		sum  sum
		left Budget
	}
	markOf := func(s *state) mark { return mark{s.fingerprint(), s.left} }
	after := func(s *state) (sums []sum) {
		for _, x := range s.steps() {
			c := s.copy()
			c.do(rs, x)
			sums = append(sums, c.fingerprint())
		}
		slices.SortFunc(sums, func(x, y sum) int {
			if x == y {
				return 0
			}
			if x.smaller(y) == x {
				return -1
			}
			return 1
		})
		return sums
	}
	known, met := map[mark][]sum{markOf(first): after(first)}, 0
	swapped := map[mark]sum{}
	for layer := []*state{first}; len(layer) > 0 && met < 300; {
		s := layer[0]
		layer = layer[1:]
		for _, x := range s.steps() {
			c := s.copy()
			c.do(rs, x)
			as, other := markOf(c), c.printed([]int{1, 0})
			if was, ok := swapped[as]; ok && was != other {
				t.Fatal("two states are one as long as the agents keep their numbers, and two otherwise")
			}
			swapped[as] = other
			if was, ok := known[as]; !ok {
				known[as] = after(c)
				layer = append(layer, c)
			} else if met++; !slices.Equal(was, after(c)) {
				t.Fatalf("two states with one fingerprint go on differently, at tick %d", c.tick)
			}
		}
	}
	if met < 250 {
		t.Errorf("only %d states were met twice", met)
	}
}

// TestAMistakeIsTold explores a world without a promise: clocks stand still for longer than the grace
// covers. The way to where that shows is told, to its end.
func TestAMistakeIsTold(t *testing.T) {
	t.Parallel()
	w := &World{Name: "wrong", Agents: 2, Class: quota.Hard, Limit: 3, Overshoot: `"100%"`, CutTo: 1, TTL: 4, Grace: 1, Boundary: 100, Horizon: 2, Patience: 3,
		Slow: []int{2, 2}, Still: 2, Budget: Budget{Takes: 1, Crashes: 1}}
	f, err := Explore(t.Context(), w, 100_000, func(Found) {})
	if err != nil {
		t.Fatal(err)
	}
	told := strings.Join(f.Path, "\n")
	if f.Closed || !strings.Contains(f.Fault, "the ledger may have closed") {
		t.Fatalf("found %q, want a lease that is spent after its end\n%s", f.Fault, told)
	}
	for _, want := range []string{"a caller asks agent", "3 granted as", "time passes", f.Fault} {
		if !strings.Contains(told, want) {
			t.Errorf("the way lacks %q:\n%s", want, told)
		}
	}
}

// TestTheShorterWaysEndAlike explores small worlds in every order of steps, and as worlds are explored:
// what is at rest in the end is the same.
func TestTheShorterWaysEndAlike(t *testing.T) {
	t.Parallel()
	for _, b := range []Budget{
		{Takes: 1, Losses: 1, Repeats: 1, Cuts: 1},
		{Takes: 1, Crashes: 1, Cuts: 1},
		{Takes: 1, Repeats: 1, Crashes: 1},
		{Takes: 1, Lates: 1, Repeats: 1},
		{Takes: 1, Losses: 1, Unknowns: 1, Delays: 1},
	} {
		var ends [2]map[sum]bool
		var states [2]int
		for i, whole := range []bool{false, true} {
			w := &World{Name: "small", Agents: 2, Class: quota.Hard, Limit: 2, Overshoot: `"100%"`, CutTo: 1, TTL: 3, Grace: 1,
				Boundary: 2, Horizon: 4, Patience: 2, Budget: b, whole: whole}
			w.number()
			found := map[sum]bool{}
			x := &search{world: w, ended: func(s *state) { found[s.fingerprint()] = true }}
			f, err := x.run(t.Context(), 1_000_000, 1, func(Found) {})
			if err != nil || !f.Closed {
				t.Fatalf("%s: %v, %s", b, err, f.Fault)
			}
			ends[i], states[i] = found, f.States
		}
		t.Logf("%s: %d ends; %d states, and %d in every order", b, len(ends[1]), states[0], states[1])
		if !maps.Equal(ends[0], ends[1]) {
			t.Errorf("%s: %d different ends, and %d in every order", b, len(ends[0]), len(ends[1]))
		}
		if states[0] > states[1] {
			t.Errorf("%s: the shorter ways visit %d states, more than the %d there are", b, states[0], states[1])
		}
	}
}
