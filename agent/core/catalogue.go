package core

import (
	"fmt"
	"time"

	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Dimension is what policy says of a dimension, as an agent needs it.
type Dimension struct {
	Name     string
	Kind     quota.Kind
	Class    quota.Class
	Calendar quota.Calendar // of a period; else endless
	TTL      time.Duration
	Limit    int64         // the default; -1: unlimited
	MaxHold  time.Duration // of a concurrency limit: the longest that one run may take

	version  int64 // of the policy
	grace    time.Duration
	lowPPM   int64
	leaseMax int64 // 0: as demand needs
	outage   outage
	ColdWait time.Duration
	debt     int64 // units that may pass once per key before the first lease

	overridable bool // a request may bring a limit along

	plain *terms // of a key that the ledger did not tell of
}

// beat is how often an agent that uses the dimension should at least be in contact: once a
// ttl, and often enough that to have had none for `after` takes more than one lost message.
func (d *Dimension) beat() time.Duration {
	if d.outage.open || d.outage.extend {
		return min(d.TTL/2, d.outage.after/3)
	}
	return d.TTL / 2
}

// readCatalogue turns the control plane's catalogue into dimensions. A dimension that this
// agent does not understand fails the whole catalogue: half a policy is none.
func readCatalogue(c *pb.Catalogue) (map[string]*Dimension, error) {
	if _, err := local.Read(c); err != nil {
		return nil, err
	}
	dims := make(map[string]*Dimension, len(c.GetDimensions()))
	for _, d := range c.GetDimensions() {
		kind, err := quota.ParseKind(d.GetKind())
		if err != nil {
			return nil, fmt.Errorf("read dimension %q of policy %d: %w", d.GetName(), c.GetPolicyVersion(), err)
		}
		class, err := quota.ParseClass(d.GetClass())
		if err != nil {
			return nil, fmt.Errorf("read dimension %q of policy %d: %w", d.GetName(), c.GetPolicyVersion(), err)
		}
		var calendar quota.Calendar
		if p := d.GetPeriod(); kind == quota.Period {
			if calendar, err = quota.ParsePeriod(p.GetEvery(), p.GetTimezone(), int(p.GetAnchorDay()), p.GetAnchorTime()); err != nil {
				return nil, fmt.Errorf("read dimension %q of policy %d: %w", d.GetName(), c.GetPolicyVersion(), err)
			}
		}
		dim := &Dimension{
			Name: d.GetName(), Kind: kind, Class: class, Calendar: calendar,
			TTL: micros(d.GetTtlUs()), MaxHold: micros(d.GetMaxHoldUs()), grace: micros(d.GetGraceUs()), Limit: d.GetLimit(), version: c.GetPolicyVersion(),
			lowPPM: d.GetLowWatermarkPpm(), leaseMax: d.GetLeaseMax(),
			outage: readOutage(d.GetOutage()), ColdWait: micros(d.GetCold().GetWaitUs()),
		}
		if d.GetCold().GetThen() == "debt" && class != quota.Exact && class != quota.Hard {
			dim.debt = d.GetCold().GetUnits()
		}
		if class == quota.Exact {
			dim.outage.open, dim.outage.extend = false, false
		}
		dim.plain = plainTerms(dim)
		dims[dim.Name] = dim
	}
	return dims, nil
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
