package core

import (
	"strings"
	"testing"
	"time"
)

const exactPolicy = `
dimensions:
  - name: payouts
    kind: period
    limit: 1000000
    period: {every: day}
    class: exact
    lease: {ttl: 10s, grace: 1s}
`

func TestAnAgentThatOnlySpendsLearnsOfANewPolicyWithinATTL(t *testing.T) {
	t.Parallel()
	r := newReal(t, exactPolicy)
	r.deaf = true
	a := r.agent()
	r.until("the catalogue is there", func() bool { return a.PolicyVersion() > 0 })
	was := a.PolicyVersion()
	pays := func(d time.Duration) {
		for end := r.now + d; r.now < end; r.run(200 * time.Millisecond) {
			a.take("payouts", 1)
		}
	}
	pays(15 * time.Second)
	r.apply(exactPolicy + strings.Replace(exactPolicy[len("\ndimensions:\n"):], "payouts", "refunds", 1))
	pays(11 * time.Second)
	if a.PolicyVersion() == was {
		t.Error("a ttl later the agent, in contact five times a second, still goes by the old policy")
	}
}

// TestACreditIsFeltWithinATTLThoughHeartbeatsFallAnywhere has one key denied and another that
// makes the agent sync at a moment of its own, at which the denial is not yet worth a question.
func TestACreditIsFeltWithinATTLThoughHeartbeatsFallAnywhere(t *testing.T) {
	t.Parallel()
	for early := time.Duration(0); early < 5*time.Second; early += 100 * time.Millisecond {
		d := newDriver(t)
		d.limit = 1
		d.take(exports, 1)
		d.settle()
		d.take(exports, 1)
		d.settle()
		if got, _ := d.take(exports, 1); got == nil || !got.Denied {
			t.Fatalf("%+v", got)
		}
		d.limit, d.generation = 2, d.generation+1 // and the notice is lost
		granted := d.now
		d.advance(early)
		d.core.syncAt = d.now
		d.take(tenant(1), 1)
		d.settle()
		for d.now < granted+30*time.Second {
			if got, _ := d.take(exports, 1); got == nil || got.Allowed {
				break
			}
			d.advance(50 * time.Millisecond)
			d.settle()
		}
		if took := d.now - granted; took > 10*time.Second {
			t.Errorf("with a heartbeat after %s a credit was felt after %s, one ttl is 10 s", early, took)
		}
	}
}
