package controlplane

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

func (w *world) edit(old, new string) {
	w.t.Helper()
	if !strings.Contains(examplePolicy, old) {
		w.t.Fatalf("no %q in the policy", old)
	}
	w.apply(strings.Replace(examplePolicy, old, new, 1))
}

func TestW4ASyncThatComesFirstRecallsToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a, b := w.agent(), w.agent()
	out := a.lease("small", 90)
	w.edit("limit: 100", "limit: 50")
	b.sync(&pb.SyncRequest{Keys: []*pb.Key{acme("small")}})
	reply := a.sync(&pb.SyncRequest{Reports: []*pb.Report{{GrantId: out.GrantId, Key: acme("small"), Window: out.Window, Taken: 1}}})
	if !reply.Results[0].Revoked {
		t.Errorf("result %v, want revoked", reply.Results[0])
	}
	if err := w.cp.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.metric("leases_revoked_total"); got != 1 {
		t.Errorf("%v leases revoked, want 1", got)
	}
}

func TestLeasesOfARemovedDimensionAreRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	out := a.lease("small", 10)
	w.edit("name: small", "name: other")
	for range 2 {
		if err := w.cp.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.cp.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	g, err := w.store.Grants(t.Context(), ledger.GrantQuery{ID: ledger.ID(out.GrantId)})
	if err != nil || g[0].RevokedAt.IsZero() {
		t.Errorf("lease %+v, %v, want revoked", g, err)
	}
}

func TestW5SamePolicyAgainRefillsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	d := a.lease("small", 97)
	a.sync(&pb.SyncRequest{Reports: []*pb.Report{usedUp(d, acme("small"))}})
	w.edit("limit: 50000", "limit: 60000") // another dimension: a new version, the same terms here
	if d := a.lease("small", 50); d.Amount != 3 {
		t.Errorf("granted %d of the 3 left", d.Amount)
	}
}

func TestM5ThreeSweepersCloseEachLeaseOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	for range 40 {
		w.agent().lease("report_export", 1)
	}
	w.ledger.move(30*time.Second + time.Hour)
	var closed [3]int
	var wait sync.WaitGroup
	for i := range closed {
		cp := w.replica(w.ledger.now, prometheus.NewRegistry())
		wait.Go(func() {
			n, err := cp.Sweep(t.Context())
			if err != nil {
				t.Errorf("sweep: %v", err)
			}
			closed[i] = n
		})
	}
	wait.Wait()
	if sum := closed[0] + closed[1] + closed[2]; sum != 40 {
		t.Errorf("closed %v, want 40 in all", closed)
	}
	if got := w.account("report_export"); got.Outstanding != 0 || got.Held != 40 || got.Expired != 40 {
		t.Errorf("account %+v", got.Tally)
	}
	w.verified()
}

// TestASweepOfManyAccountsTakesFewTransactions: an agent that held one lease in each of a thousand
// accounts has vanished.
func TestASweepOfManyAccountsTakesFewTransactions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	for i := range 10 {
		var m pb.SyncRequest
		for n := range 100 {
			ask := w.ask("report_export", 1)
			ask.Key = &pb.Key{Tenant: fmt.Sprintf("t%d", 100*i+n), Dimension: "report_export"}
			m.Asks = append(m.Asks, ask)
		}
		a.sync(&m)
	}
	w.ledger.move(30*time.Second + time.Hour)
	before := w.store.updates.Load()
	if n, err := w.cp.Sweep(t.Context()); n != 1000 || err != nil {
		t.Errorf("swept %d, %v, want 1000", n, err)
	}
	if n := w.store.updates.Load() - before; n != 6 { // of 32, 64, 128, 256, 512 and the 8 that are left
		t.Errorf("%d transactions, want 6", n)
	}
	w.verified()
}

func TestLeasesOfDeadAgentsCloseByThemselves(t *testing.T) {
	t.Parallel()
	running(t, examplePolicy, func(w *world) {
		w.agent().lease("small", 10)
		time.Sleep(30*time.Second + 3*time.Second - time.Millisecond) // ttl and grace, all but over
		synctest.Wait()
		if got := w.account("small").Outstanding; got != 10 {
			w.t.Errorf("%d outstanding before its time, want 10", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := w.account("small"); got.Outstanding != 0 || got.Held != 10 {
			w.t.Errorf("account %+v, want 10 held", got.Tally)
		}
		if got := w.metric("units_expired_total"); got != 10 {
			w.t.Errorf("%v units expired, want 10", got)
		}
	})
}

func TestWhileClocksDisagreeNothingIsSwept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	w.agent().lease("small", 10)
	w.ledger.move(time.Hour)
	w.store.SetClockSuspect(true)
	before := w.store.updates.Load()
	if n, err := w.cp.Sweep(t.Context()); n != 0 || err != nil || w.store.updates.Load() != before+1 {
		t.Errorf("swept %d, %v, in %d transactions, want one that closes nothing", n, err, w.store.updates.Load()-before)
	}
	if got := w.account("small").Outstanding; got != 10 {
		t.Errorf("%d outstanding, want 10", got)
	}
}

func TestKeepFoldsAndDeletesWhatIsOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	ask := a.ask("small", 10)
	d := a.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}}).Decisions[0]
	a.sync(&pb.SyncRequest{Reports: []*pb.Report{usedUp(d, acme("small"))}})
	w.ledger.move(31 * 24 * time.Hour)
	if err := w.cp.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.metric("grants_folded_total"); got != 1 {
		t.Errorf("%v grants folded, want 1", got)
	}
	if got := w.account("small"); got.Leased != 10 {
		t.Errorf("account %+v, want 10 used still", got.Tally)
	}
	w.verified()
	late := w.agent()
	if d := late.sync(&pb.SyncRequest{Asks: []*pb.Ask{ask}}).Decisions[0]; d.Fault.GetCode() != "too_old" {
		t.Errorf("an ask older than retention: %v, want too_old", d)
	}
	w.ledger.move(400 * 24 * time.Hour)
	if err := w.cp.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found, err := w.store.Grants(t.Context(), ledger.GrantQuery{}); err != nil || len(found) != 0 {
		t.Errorf("records left: %v, %v", found, err)
	}
}

func TestW8BadFileKeepsTheLastGoodPolicy(t *testing.T) {
	t.Parallel()
	w := &world{t: t, ledger: &wall{at: noon}}
	w.start(examplePolicy, w.ledger.now, w.ledger.now)
	cfg := w.cp.cfg
	cfg.PolicyDir, cfg.Metrics = "policies", prometheus.NewRegistry()
	cp, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	bad := []policy.File{{Name: "a.yaml", Text: []byte("dimensions:\n  - name: UPPER\n")}}
	good := []policy.File{{Name: "a.yaml", Text: []byte(strings.Replace(examplePolicy, "limit: 100", "limit: 101", 1))}}
	read := func(files []policy.File, err error) {
		t.Helper()
		if err := cp.policies.applyDir(t.Context(), files, err); err != nil {
			t.Errorf("apply: %v", err)
		}
	}
	read(bad, nil)
	if err := cp.Ready(); err == nil || !strings.Contains(err.Error(), "policy directory: a.yaml:2") {
		t.Errorf("a replica that never saw a good directory is ready: %v", err)
	}
	read(good, nil)
	if v := cp.policyVersion(); v != 2 || strings.Contains(cp.Ready().Error(), "directory") {
		t.Errorf("version %d, ready %v", v, cp.Ready())
	}
	for _, broken := range []error{nil, policy.ErrNoFiles} {
		read(bad, broken)
		if v := cp.policyVersion(); v != 2 || strings.Contains(cp.Ready().Error(), "directory") || cp.Notes() == nil {
			t.Errorf("after a bad file: version %d, ready %v, notes %v", v, cp.Ready(), cp.Notes())
		}
	}
	read(good, nil)
	if cp.Notes() != nil {
		t.Errorf("notes %v after the file is good again", cp.Notes())
	}
}

func TestAReplicaIsReadyOnceAllIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	if err := w.cp.Ready(); err == nil || !strings.Contains(err.Error(), "not started") {
		t.Errorf("ready before Run: %v", err)
	}
	running(t, examplePolicy, func(w *world) {
		if err := w.cp.Ready(); err != nil {
			w.t.Errorf("not ready: %v", err)
		}
	})
}

func TestWithoutAPolicyNothingIsDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	cfg := w.cp.cfg
	cfg.Policies, cfg.Metrics = policy.NewMemoryLog(w.ledger.now), prometheus.NewRegistry()
	cp, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.Refresh(t.Context()); !errors.Is(err, policy.ErrNoPolicy) {
		t.Errorf("refresh: %v", err)
	}
	a := w.agent()
	if _, err := cp.Desk().Sync(t.Context(), &pb.SyncRequest{Hello: a.hello()}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("sync: %v, want unavailable", err)
	}
}

func TestM1SeriesDoNotDependOnTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t, examplePolicy)
	a := w.agent()
	series := func() int {
		families, err := w.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, f := range families {
			n += len(f.GetMetric())
		}
		return n
	}
	ask := func(tenant string) {
		key := &pb.Key{Tenant: tenant, Dimension: "small"}
		a.sync(&pb.SyncRequest{Asks: []*pb.Ask{{GrantId: w.id().Bytes(), Key: key, Want: 1, Need: 1}}})
	}
	ask("tenant")
	before := series()
	for i := range 50 {
		ask("tenant-" + strings.Repeat("x", i+1))
	}
	if after := series(); after != before {
		t.Errorf("%d series, then %d", before, after)
	}
}

func TestConfigNamesEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Retention: 2, AccountRetention: 1})
	for _, field := range []string{"store", "reader", "keeper", "policies", "log", "now", "random", "commit-timeout",
		"policy-interval", "watch-interval", "sweep-interval", "keep-interval", "account-retention", "queue-length", "batch-items"} {
		if err == nil || !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
}
