package core

import (
	"slices"
	"time"
)

// Heartbeat bounds: an agent in use syncs at least once a ttl; half a ttl leaves room for
// one lost message.
const (
	minHeartbeat = 50 * time.Millisecond
	maxHeartbeat = 10 * time.Second
)

// heartbeat makes every key with a denial to check part of the next Sync, and every key with something
// new to say part of it or, if they are many, of those that follow at once. The next heartbeat comes
// before a denial that was not checked is a ttl old. While what the last one found is not all said it checks
// denials alone.
func (c *Core) heartbeat(now Instant) {
	every, checks, behind := maxHeartbeat, never, len(c.news) > 0
	for k := range c.each {
		every = min(every, k.dim().beat())
		switch {
		case k.denial.Load() == nil:
		case now-k.learned >= k.dim().TTL/2:
			k.refresh = true
			if behind {
				c.mark(k)
			}
		default:
			checks = min(checks, k.checkBy())
		}
		if !behind && (k.refresh || k.hasNews()) {
			c.news = append(c.news, k)
		}
	}
	if !behind && len(c.news) > mostNews { // what is checked does not wait
		c.news = slices.DeleteFunc(c.news, func(k *Key) bool {
			if k.refresh {
				c.mark(k)
			}
			return k.refresh
		})
	}
	every = max(every, minHeartbeat)
	c.syncAt, c.beat = min(now+c.Jitter(every), checks), every/2
}

// checkBy is when a denial that a key remembers is to be checked at the latest.
func (k *Key) checkBy() Instant { return k.learned + k.dim().TTL*7/8 }

// silent puts off a heartbeat that has nothing to say: a Sync, and news of a key that is denied,
// once a ttl are enough, and another Sync may come before. What the exact lane says is no Sync:
// it brings no policy. Without a key the pace is the longest there is; where an outage mode
// counts the time without contact, every heartbeat is sent.
func (c *Core) silent(now Instant) bool {
	if c.hasToSay() || len(c.keys) == 0 || !c.contacted {
		return false
	}
	at := c.synced + 2*maxHeartbeat
	for k := range c.each {
		d := k.dim()
		if d.outage.open || d.outage.extend {
			return false
		}
		at = min(at, c.synced+d.TTL*7/8)
		if k.denial.Load() != nil {
			at = min(at, k.checkBy())
		}
	}
	if at <= now {
		return false
	}
	c.syncAt = at
	return true
}
