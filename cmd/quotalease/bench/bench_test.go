package bench

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/quotalease/quotalease/ledger/ledgertest"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

// holds asks a database a question.
func holds(t *testing.T, dsn, question string) (yes bool) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	if err := c.QueryRow(t.Context(), question).Scan(&yes); err != nil {
		t.Fatal(err)
	}
	return yes
}

func do(t *testing.T, dsn, statement string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	if _, err := c.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

const isThere = `SELECT to_regnamespace('quotalease_bench') IS NOT NULL`

func TestEverythingIsMeasuredAndNothingLeft(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("measures everything once")
	}
	dsn := ledgertest.DB(t) // the ledger that is there is empty, and stays so
	r, err := Run(t.Context(), Options{DatabaseURL: dsn, Rounds: 1, Time: 20 * ms, Say: func(string) {}, tiny: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Results {
		if x.Median.PerSecond <= 0 || x.Median.P50ms <= 0 || x.Median.P99ms < x.Median.P50ms || len(x.Rounds) != 1 {
			t.Errorf("%s, %s: %+v", x.Scene, x.Subject, x.Median)
		}
	}
	for _, s := range r.Steady {
		if s.Decisions <= 0 || s.Each <= 0 {
			t.Errorf("%+v", s)
		}
	}
	for _, g := range r.Growth {
		for _, p := range g.Points {
			if p.At <= 0 || p.Decisions <= 0 || p.P99ms < p.P50ms {
				t.Errorf("%s: %+v", g.Scene, p)
			}
		}
	}
	for _, x := range r.Restarts {
		if x.ReadyMs <= 0 || x.GrantMs <= 0 || (x.Due > 0) != (x.SweptMs > 0) {
			t.Errorf("%+v", x)
		}
	}
	if e := r.Edge; e == nil || len(e.Moments) < 5 || e.Steady.P99ms <= 0 || e.After.P99ms <= 0 {
		t.Errorf("edge: %+v", e)
	}
	// Of another's server nobody knows the processor time; all else is there. What was too short to
	// see a transaction is no figure of growth.
	beside := slices.DeleteFunc(slices.Clone(r.Figures), func(v Verdict) bool { return v.Grows })
	if len(r.Results) != 16 || len(r.Steady) != 6 || len(beside) != 12+6 || len(r.Growth) != 4 || len(r.Restarts) != 3 || r.Batch < 2 || r.Machine.Postgres == "" || r.Machine.Private {
		t.Errorf("%d results, %d steady, %d figures, %d a batch, %+v", len(r.Results), len(r.Steady), len(beside), r.Batch, r.Machine)
	}
	if holds(t, dsn, isThere) || holds(t, dsn, `SELECT EXISTS (SELECT FROM lease_grant) OR EXISTS (SELECT FROM policy_version)`) {
		t.Error("something is left in the database")
	}
}

func TestAnInterruptLeavesNothing(t *testing.T) {
	t.Parallel()
	dsn := ledgertest.Empty(t)
	for _, at := range []string{"one hot key: quotalease warms up", "exact lane: round 1", "steady: ", "growth: agents: 10 agents", "growth: window edge: it ends", "growth: restart: 50"} {
		ctx, interrupt := context.WithCancel(t.Context())
		was, rounds := false, 1000
		if strings.Contains(at, "restart") {
			rounds = 1 // what is said comes after them
		}
		_, err := Run(ctx, Options{DatabaseURL: dsn, Rounds: rounds, Time: 20 * ms, tiny: true,
			Run: regexp.MustCompile("^" + at[:strings.LastIndex(at, ":")] + "$"),
			Say: func(line string) {
				if strings.HasPrefix(line, at) {
					was = true
					interrupt()
				}
			}})
		interrupt()
		if err == nil || !was {
			t.Errorf("interrupted at %q: %v, came there: %v", at, err, was)
		}
		if holds(t, dsn, isThere) {
			t.Errorf("interrupted at %q: the schema is left", at)
		}
	}
}

func TestALedgerInUseIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	dsn := ledgertest.Empty(t)
	do(t, dsn, `CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.lease_grant (n int); INSERT INTO elsewhere.lease_grant VALUES (1)`)
	_, err := Run(t.Context(), Options{DatabaseURL: dsn, Rounds: 1, Time: ms, Say: func(string) {}})
	if err == nil || !strings.Contains(err.Error(), "schema elsewhere holds a ledger that is in use") || !strings.Contains(err.Error(), "allowed: ") {
		t.Errorf("%v", err)
	}
	if holds(t, dsn, isThere) || !holds(t, dsn, `SELECT EXISTS (SELECT FROM elsewhere.lease_grant)`) {
		t.Error("the database was changed")
	}
}

func TestTwoAtATimeAreRefused(t *testing.T) {
	t.Parallel()
	dsn := ledgertest.Empty(t)
	do(t, dsn, `CREATE SCHEMA quotalease_bench; CREATE TABLE quotalease_bench.kept (n int)`)
	_, err := Run(t.Context(), Options{DatabaseURL: dsn, Rounds: 1, Time: ms, Say: func(string) {}})
	if err == nil || !strings.Contains(err.Error(), "another benchmark is running") {
		t.Errorf("%v", err)
	}
	if !holds(t, dsn, `SELECT to_regclass('quotalease_bench.kept') IS NOT NULL`) {
		t.Error("what another made was dropped")
	}
}

func TestAPrivateServerIsMeasuredToo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("makes a database")
	}
	ledgertest.Empty(t)                               // skips without server binaries
	dir, err := os.MkdirTemp("", "quotalease-bench-") // the server's account cannot enter a test's own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // what is kept in the folder is no obstacle
		r, err := Run(t.Context(), Options{DataDir: dir, Rounds: 1, Time: 600 * ms, Run: regexp.MustCompile("alone"), Say: func(string) {}})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Results) != 2 || !r.Machine.Private || !strings.Contains(r.Machine.Settings, "fsync=on") {
			t.Errorf("%+v", r)
		}
		for _, x := range r.Results {
			if x.Median.CPUus <= 0 {
				t.Errorf("%s: no processor time", x.Subject)
			}
		}
	}
}

func TestAConnectionStringLeadsToTheSchema(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"host=/tmp dbname=x":                  "host=/tmp dbname=x search_path=s",
		"postgres://u:p%40@h/x":               "postgres://u:p%40@h/x?search_path=s",
		"postgresql://h/x?search_path=public": "postgresql://h/x?search_path=s",
	} {
		if got, err := within(dsn, "s"); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", dsn, got, err, want)
		}
	}
	if _, err := within("postgres://u:hunter2@h:x%/", "s"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v: want an error without the password", err)
	}
}

func TestDemandIsConstant(t *testing.T) {
	t.Parallel()
	for _, callers := range []int{1, 24, 60, 1000} {
		demand := traffic{rate: 2000, callers: make([]taker, callers)}
		for _, ran := range []time.Duration{0, 20 * ms, 999 * ms, 7 * time.Second} {
			sum := int64(0)
			for i := range callers {
				made := demand.due(i, ran)
				sum += made
				if at := demand.next(i, made); at <= ran || demand.due(i, at+time.Nanosecond) != made+1 {
					t.Errorf("%d callers: number %d made %d in %s, and is to make one more at %s", callers, i, made, ran, at)
				}
			}
			if want := int64(2000 * ran / time.Second); sum != want {
				t.Errorf("%d callers: %d takes in %s, want %d", callers, sum, ran, want)
			}
		}
	}
	for _, d := range demands() {
		if !strings.Contains(policyText, "name: "+d.dimension+"\n") {
			t.Errorf("%+v: no such dimension", d)
		}
	}
}
