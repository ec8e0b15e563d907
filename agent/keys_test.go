package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/ledger/quota/descriptor"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// ruled is an uplink whose policy has a descriptor that brings limits along.
type ruled struct{ *fakeUplink }

func (r ruled) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	reply, err := r.fakeUplink.Sync(ctx, req)
	if c := reply.GetCatalogue(); c != nil {
		c.Descriptors = []*pb.Descriptor{{Domain: "web", Match: []*pb.DescriptorEntry{{Key: "org"}}, Tenant: []int32{0}, Dimension: "report_export", Overrides: true}}
	}
	return reply, err
}

func takeOf(tenant, dimension string, cost int64) KeyTake {
	return KeyTake{KeyCost: core.KeyCost{Key: quota.Key{Tenant: tenant, Dimension: dimension}, Cost: cost}}
}

func keyCosts(dimension string, costs ...int64) (takes []KeyTake) {
	for i, n := range costs {
		takes = append(takes, takeOf(fmt.Sprintf("t%d", i), dimension, n))
	}
	return takes
}

func TestKeysOfSeveralTenantsAreTakenTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		a, stop := start(t, up)
		for range 2 { // by the core, and then from leases in hand
			if _, d, err := a.TakeKeys(t.Context(), keyCosts("report_export", 3, 4)); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		// A lease has 100 units here.
		at, d, err := a.TakeKeys(t.Context(), keyCosts("report_export", 3, 1001))
		if err != nil || d.Allowed || at != 1 {
			t.Errorf("%d: %+v, %v", at, d, err)
		}
		stop()
		if got := up.confirmed(); got != 14 {
			t.Errorf("the ledger counted %d, want 14", got)
		}
	})
}

func TestTakeKeysRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, stop := start(t, newFakeUplink())
		defer stop()
		for field, takes := range map[string][]KeyTake{
			"takes": make([]KeyTake, MaxKeyTakes+1), "cost": keyCosts("report_export", 1, 0), "tenant": {takeOf("", "report_export", 1)},
			"dimension":      keyCosts("report_export@5/MINUTE", 1), // no rule accepts it
			"local":          {{KeyCost: takeOf("acme", "report_export", 1).KeyCost, Local: true}},
			"caller.address": {{KeyCost: takeOf("acme", "clients", 1).KeyCost, Local: true, Caller: local.Caller{Address: "here"}}},
		} {
			var bad *quota.FieldError
			if _, _, err := a.TakeKeys(t.Context(), takes); !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
	})
}

func TestWhatShadowWouldDenyIsCountedApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		up.limit = 2
		a, stop := start(t, up)
		denied := 0
		for range 6 {
			d, err := a.TakeShadow(t.Context(), takeOf("acme", "report_export", 1))
			if err != nil || !d.Shadow {
				t.Fatal(d, err)
			}
			if !d.Allowed {
				denied++
			}
		}
		up.cut(true)
		time.Sleep(time.Minute)
		if d, err := a.TakeShadow(t.Context(), takeOf("other", "report_export", 1)); err != nil || d.Allowed || d.Reason != quota.Unavailable {
			t.Errorf("in an outage %+v, %v", d, err)
		}
		up.cut(false)
		stop()
		would := testutil.ToFloat64(a.seen.shadow.WithLabelValues("report_export", "exhausted"))
		real := testutil.CollectAndCount(a.seen, "quotalease_agent_denied_total")
		if denied != 4 || would != 4 || real != 0 || up.confirmed() != 2 {
			t.Errorf("denied %d, counted %v as would-deny, %d series of real denials, %d used", denied, would, real, up.confirmed())
		}
	})
}

// Limits that requests bring along have keys of their own, and make no series.
func TestM1DerivedDimensionsMakeNoSeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		a, stop := start(t, ruled{newFakeUplink()}, func(c *Config) { c.Metrics = registry })
		defer stop()
		count := func() int {
			n, err := testutil.GatherAndCount(registry)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		take := func(limit int) {
			name := fmt.Sprintf("report_export@%d/MINUTE", limit)
			if d, err := a.Take(t.Context(), "acme", name, 1); err != nil || d.Dimension != name {
				t.Fatal(d, err)
			}
		}
		take(1)
		before := count()
		for n := range 50 {
			take(n + 2)
		}
		if after := count(); after != before {
			t.Errorf("%d series became %d", before, after)
		}
	})
}

func TestDescriptorsOutliveARestartInAnOutage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		up := ruled{newFakeUplink()}
		keep := func(c *Config) { c.StateDir = dir }
		a, stop := start(t, up, keep)
		if a.Descriptors() != nil {
			t.Error("it knows descriptors before any policy")
		}
		time.Sleep(time.Second)
		stop()
		up.cut(true)
		b, stopB := start(t, up, keep)
		defer stopB()
		r := b.Descriptors().Find("web", []descriptor.Entry{{Key: "org", Value: "acme"}})
		if r == nil || r.Dimension != "report_export" || !r.Overrides {
			t.Errorf("%+v", r)
		}
		up.cut(false)
	})
}

// A rule is read as soon as its policy is adopted. Its local limit decides, although it is put in
// force a moment later.
func TestO4ARuleThatIsAheadOfItsLocalLimit(t *testing.T) {
	t.Parallel()
	a, err := New(Config{Name: "a", Region: "eu"}, newFakeUplink())
	if err != nil {
		t.Fatal(err)
	}
	one := takeOf("acme", "mine", 1)
	one.Local = true
	for name, ask := range map[string]func() (Decision, error){
		"take":   func() (Decision, error) { _, d, err := a.TakeKeys(t.Context(), []KeyTake{one}); return d, err },
		"shadow": func() (Decision, error) { return a.TakeShadow(t.Context(), one) },
		"peek":   func() (Decision, error) { d, known := a.Known(one); d.Allowed = d.Allowed && known; return d, nil },
	} {
		if err := a.local.Apply(a.now(), &pb.Catalogue{PolicyVersion: 1}); err != nil {
			t.Fatal(err)
		}
		a.mu.Lock() // as who takes in the answer to a Sync
		began, answer := make(chan struct{}), make(chan string, 1)
		go func() {
			close(began)
			d, err := ask()
			answer <- fmt.Sprint(d.Allowed, " ", err)
		}()
		<-began
		for range 1_000 {
			runtime.Gosched()
		}
		if err := a.local.Apply(a.now(), &pb.Catalogue{PolicyVersion: 2, LocalLimits: []*pb.LocalLimit{localLimit("token_bucket", 5)}}); err != nil {
			t.Fatal(err)
		}
		a.mu.Unlock()
		if got := <-answer; got != "true <nil>" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
