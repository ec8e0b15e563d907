package core

import "time"

// Heartbeat bounds: an agent in use syncs at least once a ttl; half a ttl leaves room for
// one lost message.
const (
	minHeartbeat = 50 * time.Millisecond
	maxHeartbeat = 10 * time.Second
)

// heartbeat makes every key with something new to say, or with a denial to check, part of
// the next Sync.
func (c *Core) heartbeat(now Instant) {
	every := maxHeartbeat
	for _, k := range c.keys {
		every = min(every, k.dim.Load().beat())
		if k.denial.Load() != nil && now-k.learned >= k.dim.Load().TTL/2 {
			k.refresh = true
			c.mark(k)
		}
		if k.hasNews() {
			c.mark(k)
		}
	}
	every = max(every, minHeartbeat)
	c.syncAt, c.beat = now+c.Jitter(every), every/2
}

// silent puts off a heartbeat that has nothing to say: contact, and news of a key that is denied,
// once a ttl are enough, and another Sync may come before. Without a key the pace is the longest
// there is; where an outage mode counts the time without contact, every heartbeat is sent.
func (c *Core) silent(now Instant) bool {
	if len(c.dirty) > 0 || len(c.cancels) > 0 || c.Failing() || len(c.keys) == 0 || !c.contacted {
		return false
	}
	at := c.contact + 2*maxHeartbeat
	for _, k := range c.keys {
		d := k.dim.Load()
		if d.outage.open || d.outage.extend {
			return false
		}
		at = min(at, c.contact+d.TTL*7/8)
		if k.denial.Load() != nil {
			at = min(at, k.learned+d.TTL*7/8)
		}
	}
	if at <= now {
		return false
	}
	c.syncAt = at
	return true
}
