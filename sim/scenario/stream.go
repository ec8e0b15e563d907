package scenario

import (
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// stream is one demand in a run. What it draws does not depend on how calls are answered, so
// every method meets the same demand.
type stream struct {
	*run
	*Demand
	index   int
	account *account
	meter   *demandMeter
	rng     *rand.Rand
	up      []*agent  // that take calls now
	weights []float64 // of up, summed; nil: even
	rate    float64   // a second, of all of up
	costSum []float64
	next    int // of Calls
}

func newStream(r *run, i int) *stream {
	d := &r.Demand[i]
	s := &stream{run: r, Demand: d, index: i, account: r.meter.account(d.Key), meter: r.meter.demands[i],
		rng: rand.New(rand.NewPCG(r.Seed, 100+uint64(i)))}
	sum := 0.0
	for _, c := range d.Costs {
		sum += c.Share
		s.costSum = append(s.costSum, sum)
	}
	s.choose()
	switch d.Shape {
	case Poisson:
		r.queue.Push(s.From+s.gap(), event{stream: s})
	case Recorded:
		if len(s.Calls) > 0 {
			r.queue.Push(s.Calls[0].At, event{stream: s})
		}
	case Constant, Bursts:
		for rank, place := range d.Agents {
			first := s.From + time.Duration(s.rng.Float64()*float64(s.every(rank)))
			r.queue.Push(first, event{stream: s, agent: r.agents[place]})
		}
	}
	return s
}

// weight is the share of an agent by its rank, not yet divided by the sum.
func (s *stream) weight(rank int) float64 {
	if s.Zipf == 0 {
		return 1
	}
	return math.Pow(float64(rank+1), -s.Zipf)
}

// every is the time between two calls, or bursts, of one agent.
func (s *stream) every(rank int) time.Duration {
	if s.Shape == Bursts {
		return s.Every
	}
	rate := s.Rate
	if !s.Each {
		sum := 0.0
		for i := range s.Demand.Agents {
			sum += s.weight(i)
		}
		rate *= s.weight(rank) / sum
	}
	return max(time.Duration(float64(time.Second)/rate), time.Microsecond)
}

// choose takes note of which agents take calls: those of one that is down go to others.
func (s *stream) choose() {
	s.up, s.weights = s.up[:0], nil
	sum := 0.0
	for rank, place := range s.Demand.Agents {
		if a := s.agents[place]; a.up {
			s.up = append(s.up, a)
			sum += s.weight(rank)
			if s.Zipf > 0 {
				s.weights = append(s.weights, sum)
			}
		}
	}
	s.rate = s.Rate
	if s.Each {
		s.rate *= float64(len(s.up))
	}
}

func (s *stream) gap() time.Duration {
	return time.Duration(s.rng.ExpFloat64() / max(s.rate, 1e-9) * float64(time.Second))
}

// arrive is the moment of a call. The next one is planned first.
func (s *stream) arrive(at *agent) {
	cost, which := s.cost()
	again := s.To
	switch s.Shape {
	case Poisson:
		again = s.now + s.gap()
	case Recorded:
		cost, which = s.Calls[s.next].Cost, 0
		if s.next++; s.next < len(s.Calls) {
			again = max(s.now, s.Calls[s.next].At)
		}
	case Constant, Bursts:
		again = s.now + s.every(s.rank(at))
	}
	if again < s.To {
		s.queue.Move(again)
	} else {
		s.queue.Pop()
	}
	if s.now < s.From {
		return
	}
	if at == nil || !at.up {
		if at = s.pick(at != nil); at == nil {
			return
		}
	}
	calls := 1
	if s.Shape == Bursts {
		calls = s.Burst
	}
	for range calls {
		s.first(at, cost, which)
	}
}

// rank finds an agent among the demand's; places rise.
func (s *stream) rank(a *agent) int { return sort.SearchInts(s.Demand.Agents, a.place) }

// pick chooses the agent of a call. An agent that has not joined yet has no calls that others
// would get.
func (s *stream) pick(instead bool) *agent {
	switch {
	case len(s.up) == 0 || instead:
		return nil
	case s.weights == nil:
		return s.up[s.rng.IntN(len(s.up))]
	}
	u := s.rng.Float64() * s.weights[len(s.weights)-1]
	return s.up[sort.SearchFloat64s(s.weights, u)]
}

func (s *stream) cost() (cost int64, which int) {
	if len(s.Costs) == 1 {
		return s.Costs[0].Cost, 0
	}
	u := s.rng.Float64() * s.costSum[len(s.costSum)-1]
	which = min(sort.SearchFloat64s(s.costSum, u), len(s.Costs)-1)
	return s.Costs[which].Cost, which
}
