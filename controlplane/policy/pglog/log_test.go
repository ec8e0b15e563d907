package pglog_test

import (
	"errors"
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
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

func record(text string) policy.Record {
	return policy.Record{Text: text, Sum: "sum of " + text, Source: policy.SourceCLI, Who: "ops", Why: "because"}
}

func TestAppendIsOrdered(t *testing.T) {
	t.Parallel()
	log := pglog.New(ledgertest.Pool(t))
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
				if got != want {
					t.Errorf("%s = %+v, want %+v", what, got, want)
				}
			}
		})
	}
}

func TestConcurrentAppend(t *testing.T) {
	t.Parallel()
	log := pglog.New(ledgertest.Pool(t))
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
