package core

import (
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// A 60 s lease held at the downgrade: at most what is left of it, for at most 60 s, whatever the
// agent hears, and not a second if it hears of the revocation.
func TestR2_8ADowngradeEndsWhatIsHeldWithinATTL(t *testing.T) {
	t.Parallel()
	const enterprise = `
tenants:
  - {tenant: acme, plan: enterprise}
dimensions:
  - name: report_export
    kind: period
    limit: 10000
    period: {every: day}
    class: hard
    overshoot: 10%
    lease: {ttl: 60s, grace: 1s}
    plans: {enterprise: {limit: 10000}, basic: {limit: 50}}
`
	basic := strings.Replace(enterprise, "plan: enterprise", "plan: basic", 1)
	for name, c := range map[string]struct {
		deaf, down bool
		most       time.Duration
	}{
		"the revocation arrives": {false, false, time.Second},
		"it is lost":             {true, false, time.Minute},
		"nothing arrives":        {false, true, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReal(t, enterprise)
			a := r.agent()
			for range 400 {
				if o := a.take("report_export", 1); !o.Allowed {
					t.Fatalf("on the enterprise plan: %+v", o)
				}
				r.run(5 * time.Millisecond)
			}
			left := a.Table.Find(quota.Key{Tenant: "acme", Dimension: "report_export"}).left(a.clock())
			if left < 20 {
				t.Fatalf("%d units are held, too few to see anything", left)
			}
			r.deaf, r.down = c.deaf, c.down
			r.apply(basic)
			used, last, cut := int64(0), time.Duration(0), r.now
			for r.now < cut+2*time.Minute {
				if o := a.take("report_export", 1); o.Allowed {
					used, last = used+1, r.now-cut
				} else if !c.down && (o.Reason != quota.Exhausted || o.Limit != 50) {
					t.Fatalf("%s after the downgrade: %+v", r.now-cut, o)
				}
				r.run(4 * time.Second)
			}
			if used > left || last > c.most {
				t.Errorf("%d of %d held units were used, the last after %s; want %s at most", used, left, last, c.most)
			}
			if c.down && last < 40*time.Second {
				t.Errorf("units in hand lasted only %s: the test shows nothing", last)
			}
			r.balanced()
		})
	}
}
