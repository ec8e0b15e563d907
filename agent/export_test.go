package agent

import "github.com/quotalease/quotalease/agent/core"

// SetNow gives an agent a test's clock.
func (c *Config) SetNow(now func() core.Instant) { c.now = now }
