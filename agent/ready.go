package agent

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// recall begins with what an earlier start left in the state directory.
func (a *Agent) recall(now time.Time) error {
	dir, maxAge := a.cfg.StateDir, a.cfg.TermsMaxAge
	a.terms = &keptTerms{dir: dir, maxAge: maxAge, log: a.log}
	a.hot = &keptHot{dir: dir, maxAge: maxAge, log: a.log}
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	if kept := a.terms.load(now); kept != nil {
		if !a.core.Restore(a.now(), kept) || a.local.Apply(a.now(), kept) != nil {
			a.log.Warn("ignoring the terms on disk: this version does not understand them")
		}
	}
	a.core.Warm(a.now(), a.hot.load(now))
	return nil
}

// Ready reports nil once the agent knows its policy and has leases of the keys that were hot
// before this start, or an answer why not, and until it stops. Leases are waited for a few
// seconds at most. An outage does not change that: the agent goes on deciding as policy says,
// and to send its callers elsewhere would help nobody when every agent has lost contact.
func (a *Agent) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.core.Stopping() {
		return ErrStopped
	}
	if a.core.PolicyVersion() == 0 {
		return errors.New("no policy yet: the control plane has not been reached, or has none")
	}
	if n := a.core.Warming(a.now()); n > 0 {
		return fmt.Errorf("no leases yet of %d keys that were hot before this start", n)
	}
	return nil
}
