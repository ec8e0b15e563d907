package pglog_test

import (
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/controlplane/policy/pglog"
	"github.com/quotalease/quotalease/ledger/ledgertest"
	"github.com/quotalease/quotalease/ledger/postgres"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

func record(text string) policy.Record {
	return policy.Record{Text: text, Sum: "sum of " + text, Source: policy.SourceCLI, Who: "ops", Why: "because"}
}

// logs are both kinds of log, which keep the same promises.
var logs = map[string]func(t *testing.T) policy.Log{
	"memory":   func(*testing.T) policy.Log { return policy.NewMemoryLog(time.Now) },
	"postgres": func(t *testing.T) policy.Log { return pglog.New(ledgertest.Pool(t)) },
}

func ofBothLogs(t *testing.T, test func(t *testing.T, log policy.Log)) {
	t.Parallel()
	for name, open := range logs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func TestAppendIsOrdered(t *testing.T) { ofBothLogs(t, appendIsOrdered) }

func appendIsOrdered(t *testing.T, log policy.Log) {
	if _, err := log.Head(t.Context()); !errors.Is(err, policy.ErrNoPolicy) {
		t.Errorf("Head of an empty log = %v, want ErrNoPolicy", err)
	}
	for n := range int64(3) {
		version, err := log.Append(t.Context(), n, record("text"))
		if err != nil || version != n+1 {
			t.Fatalf("Append after %d = %d, %v", n, version, err)
		}
	}
	for _, after := range []int64{0, 2, 4} {
		if _, err := log.Append(t.Context(), after, record("late")); !errors.Is(err, policy.ErrConflict) {
			t.Errorf("Append after %d, the head being 3, = %v, want ErrConflict", after, err)
		}
	}
	if _, err := log.Get(t.Context(), 4); !errors.Is(err, policy.ErrNoVersion) {
		t.Errorf("Get of a version that is not there = %v, want ErrNoVersion", err)
	}
	history, err := log.History(t.Context(), 2)
	if err != nil || len(history) != 2 || history[0].Version != 3 || history[1].Version != 2 {
		t.Errorf("History = %v, %v, want versions 3 and 2", history, err)
	}
}

func TestRecordComesBack(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pgx.QueryExecMode{
		"prepared": pgx.QueryExecModeCacheStatement, "unnamed": pgx.QueryExecModeExec,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := postgres.Config(ledgertest.DB(t), 2)
			if err != nil {
				t.Fatal(err)
			}
			cfg.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			log := pglog.New(pool)
			want := record("dimensions:\n  - name: 'ü'\n")
			want.Overrides = []policy.CommandOverride{override("acme", "80000")}
			if _, err := log.Append(t.Context(), 0, want); err != nil {
				t.Fatal(err)
			}
			for what, read := range map[string]func() (policy.Record, error){
				"Head": func() (policy.Record, error) { return log.Head(t.Context()) },
				"Get":  func() (policy.Record, error) { return log.Get(t.Context(), 1) },
			} {
				got, err := read()
				if err != nil {
					t.Fatal(err)
				}
				if age := time.Since(got.At); age < -time.Minute || age > time.Minute {
					t.Errorf("%s is dated %s", what, got.At)
				}
				want.Version, want.At = 1, got.At
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s = %+v, want %+v", what, got, want)
				}
			}
		})
	}
}

func TestConcurrentAppend(t *testing.T) { ofBothLogs(t, concurrentAppend) }

func concurrentAppend(t *testing.T, log policy.Log) {
	var (
		wg        sync.WaitGroup
		won, lost atomic.Int64
	)
	for range 8 {
		wg.Go(func() {
			_, err := log.Append(t.Context(), 0, record("text"))
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, policy.ErrConflict):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 7 {
		t.Errorf("%d writers won and %d lost, want 1 and 7", won.Load(), lost.Load())
	}
}

const policyYAML = `dimensions:
- {name: exports, kind: period, limit: 1000, period: {every: day, timezone: Asia/Seoul}, class: hard}
- {name: calls, kind: rate, limit: 100/s, class: hard}
`

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func override(tenant, limit string) policy.CommandOverride {
	return policy.CommandOverride{Dimension: "exports", Tenant: tenant, Limit: limit, Owner: "sales-ops",
		Reason: "Q4 \"deal\" \u2028 <ü>", Expires: "2027-01-31", Who: "ann", At: now}
}

func apply(t *testing.T, log policy.Log, text string, at time.Time) int64 {
	t.Helper()
	doc, err := policy.Parse([]policy.File{{Name: "p.yaml", Text: []byte(text)}}, at)
	if err != nil {
		t.Fatal(err)
	}
	version, _, err := policy.Apply(t.Context(), log, doc, policy.SourceCLI, "ops", "because")
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// limits are what tenants have in exports under the head version.
func limits(t *testing.T, log policy.Log, tenants ...string) []quota.Units {
	t.Helper()
	head, err := log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := head.Document()
	if err != nil {
		t.Fatal(err)
	}
	var found []quota.Units
	for _, tenant := range tenants {
		terms, _, err := doc.Snapshot(head.Version).Resolve(quota.Key{Tenant: tenant, Dimension: "exports"}, now)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, terms.Limit.Units)
	}
	return found
}

func TestOverridesAreVersioned(t *testing.T) { ofBothLogs(t, overridesAreVersioned) }

func overridesAreVersioned(t *testing.T, log policy.Log) {
	ctx := t.Context()
	if _, err := policy.AddOverride(ctx, log, override("acme", "80000"), now); !errors.Is(err, policy.ErrNoPolicy) {
		t.Errorf("an override of nothing: %v, want ErrNoPolicy", err)
	}
	apply(t, log, policyYAML, now)
	for i, c := range []policy.CommandOverride{override("acme", "80000"), override("globex", "90000")} {
		applied, err := policy.AddOverride(ctx, log, c, now)
		if err != nil || !applied.Changed || applied.Version != int64(i+2) || len(applied.Changes) != 1 {
			t.Fatalf("add %d: %+v, %v", i, applied, err)
		}
	}
	if got := limits(t, log, "acme", "globex", "other"); !reflect.DeepEqual(got, []quota.Units{80000, 90000, 1000}) {
		t.Errorf("limits %v", got)
	}
	head, err := log.Head(ctx)
	if err != nil || head.Source != policy.SourceOverride || head.Who != "ann" || head.Why != override("", "").Reason {
		t.Errorf("head %+v, %v: want who and why of the command", head, err)
	}
	// New files keep both.
	if v := apply(t, log, policyYAML+"tenants: [{tenant: acme}]\n", now); v != 4 {
		t.Errorf("files are version %d, want 4", v)
	}
	if got := limits(t, log, "acme", "globex"); !reflect.DeepEqual(got, []quota.Units{80000, 90000}) {
		t.Errorf("limits under the new files %v", got)
	}
	// A rollback brings files and overrides back.
	if v, changed, err := policy.Rollback(ctx, log, 2, now, "bob", "globex has left"); err != nil || v != 5 || !changed {
		t.Fatalf("rollback: %d, %v, %v", v, changed, err)
	}
	if got := limits(t, log, "acme", "globex"); !reflect.DeepEqual(got, []quota.Units{80000, 1000}) {
		t.Errorf("limits after the rollback %v", got)
	}
	if _, err := policy.RemoveOverride(ctx, log, quota.Key{Tenant: "globex", Dimension: "exports"}, now, "bob", "typo"); !errors.Is(err, policy.ErrNoOverride) {
		t.Errorf("remove what is not there: %v", err)
	}
	applied, err := policy.RemoveOverride(ctx, log, quota.Key{Tenant: "acme", Dimension: "exports"}, now, "bob", "the deal is off")
	if err != nil || applied.Version != 6 || !applied.Changed {
		t.Errorf("remove: %+v, %v", applied, err)
	}
	if got := limits(t, log, "acme"); got[0] != 1000 {
		t.Errorf("limit after the removal %v", got)
	}
	if old, err := log.Get(ctx, 3); err != nil || len(old.Overrides) != 2 {
		t.Errorf("the history has lost an override: %+v, %v", old, err)
	}
}

func TestConcurrentOverridesAllStay(t *testing.T) { ofBothLogs(t, concurrentOverridesAllStay) }

func concurrentOverridesAllStay(t *testing.T, log policy.Log) {
	apply(t, log, policyYAML, now)
	var wg sync.WaitGroup
	tenants := []string{"a", "b", "c", "d"}
	for _, tenant := range tenants {
		wg.Go(func() {
			if _, err := policy.AddOverride(t.Context(), log, override(tenant, "2000"), now); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := limits(t, log, tenants...); !reflect.DeepEqual(got, []quota.Units{2000, 2000, 2000, 2000}) {
		t.Errorf("limits %v: an override was lost", got)
	}
}
