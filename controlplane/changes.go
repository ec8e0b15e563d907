package controlplane

import (
	"log/slog"
	"sync"
	"time"
)

// sayAgain is how often a trouble that goes on is logged anew.
const sayAgain = time.Minute

// changes logs what loops meet: a trouble when it begins, when it becomes another one and once
// a minute while it lasts, and its end; not at every turn of a loop.
type changes struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	told map[string]trouble // by what could not be done
}

type trouble struct {
	text  string
	at    time.Time
	since int // turns that met it and were not logged
}

// note takes what came of one turn of a loop.
func (c *changes) note(doing string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, known := c.told[doing]
	if err == nil {
		if known {
			delete(c.told, doing)
			c.log.Info("done again: " + doing)
		}
		return
	}
	now := c.now()
	if known && last.text == err.Error() && now.Sub(last.at) < sayAgain {
		last.since++
		c.told[doing] = last
		return
	}
	if c.told == nil {
		c.told = map[string]trouble{}
	}
	c.told[doing] = trouble{text: err.Error(), at: now}
	c.log.Warn("not done: "+doing, "err", err, "unlogged", last.since)
}
