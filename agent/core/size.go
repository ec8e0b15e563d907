package core

import (
	"math"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// How much to ask for is a trade: a round trip costs, and so do units that lie idle, since
// nobody else can have them meanwhile. It is the one of the economic order quantity (Harris,
// How many parts to make at once, 1913): with a demand of D a second, K for an order and h for
// holding a unit for a second, an order of Q costs K*D/Q + h*Q/2 a second, least at
//
//	Q = sqrt(2 * D * K / h)
//
// Only the ratio K/h matters here, and a unit has no price of its own: it is a request, a
// byte, a cent. So what is idle is measured by the share that it is of the most that this
// agent may hold (L): a round trip costs as much as the whole of L lying idle for idlePerTrip.
// K/h is then L * idlePerTrip. With L = 250 and 5 units a second a lease is for 35, which
// last 7 s; with a hundredth of that demand it is for 3.5, and with a hundredfold one for L.
const idlePerTrip = 500 * time.Millisecond

// leastLease is what a lease should at least hold, as a multiple of the cost in need, where
// demand is not known or was long ago: it is not zero.
const leastLease = 10

// smallShare is the part of L that is too little to save on: bursts begin somewhere.
const smallShare = 16

// want is how much to ask for: what callers are waiting for now, and the order that demand
// justifies beside what is still in hand.
func (c *Core) want(now Instant, k *Key, need, inHand int64) int64 {
	amount := k.waiting()
	most := k.most()
	floor := leastLease * min(need, 1<<50)
	if k.demand.known() {
		// Agents of like demand that were started together do not stay together.
		amount += max(int64(c.Jitter(time.Duration(c.order(k, most))))-inHand, 0)
		floor = min(floor, most/smallShare)
	}
	amount = max(amount, floor)
	if k.dim().leaseMax > 0 {
		amount = min(amount, k.dim().leaseMax)
	}
	return max(amount, need)
}

// waiting is what callers wait for.
func (k *Key) waiting() int64 {
	var sum int64
	for _, w := range k.waiters {
		sum = min(sum+w.Cost, 1<<60)
	}
	return sum
}

// order is the economic order quantity: at least what is used while the next lease is fetched,
// at most what is used in half a ttl, since the rest would expire unused.
func (c *Core) order(k *Key, most int64) int64 {
	ideal := math.Sqrt(2 * k.demand.perSecond() * idlePerTrip.Seconds() * float64(most))
	q := k.demand.over(2 * c.rtt)
	if ideal > float64(q) {
		q = int64(min(math.Ceil(ideal), 1<<60))
	}
	return min(q, max(k.demand.over(k.dim().TTL/2), 1))
}

// most is what this agent may hold of the key, as far as it knows.
func (k *Key) most() int64 {
	limit := k.dim().Limit
	if v := k.view(); v != nil {
		if v.leaseCap > 0 {
			return v.leaseCap
		}
		limit = v.limit
	}
	if limit < 0 {
		return math.MaxInt64
	}
	return limit
}

// scarceLeases is how many leases of the size in question must be left in the pool for asking
// ahead. How many agents there are is not known here; what they take shows in the answers, and
// that nothing is left is told.
const scarceLeases = 16

// scarce reports that a quota nears its end: units are then fetched for callers in wait only,
// and are not taken where they may lie idle.
func (k *Key) scarce(now Instant, want int64) bool {
	v := k.view()
	if v == nil || v.limit < 0 || k.dim().Kind != quota.Period || v.windowEnd != 0 && v.windowEnd <= now {
		return false
	}
	return v.headroom/scarceLeases < min(want, max(v.leaseCap, 1))
}

// usual is the cost that a lease fetched ahead should at least cover.
func (k *Key) usual() int64 {
	usual := max(1, k.needHint)
	if v := k.view(); v != nil && v.leaseCap > 0 {
		usual = min(usual, v.leaseCap)
	}
	return usual
}
