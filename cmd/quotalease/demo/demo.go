package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quotalease/quotalease/cmd/quotalease/stage"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/postgres"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/sim/trace"
)

// Options say what to play and on what.
type Options struct {
	DatabaseURL string // empty: a private Postgres
	DataDir     string // of the private Postgres; empty: temporary
	Seed        uint64
	Length      time.Duration // of the built-in traffic, and of a trace without Speed
	Events      []trace.Event // empty: the built-in traffic
	Speed       float64       // of a trace: 1 as recorded, 0: so that it lasts Length
	Fast        bool          // of a trace: as fast as the agents answer
	Verbose     bool
	Say         func(string) // progress, one line at a time
	Policy      func([]byte) // shown the policy that was derived from a trace
}

var regions = []string{"eu-west", "us-east", "ap-seoul"}

// What happens when, as shares of the run.
const (
	outageBegins = 0.25
	outageEnds   = 0.42
	agentDies    = 0.58
	limitCut     = 0.72
)

// Run plays the demo and returns what came of it.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	began := time.Now()
	p, err := prepare(o)
	if err != nil {
		return nil, err
	}
	st, err := stage.Start(ctx, stage.Config{DatabaseURL: o.DatabaseURL, DataDir: o.DataDir, Log: o.Say, Verbose: o.Verbose})
	defer func() {
		if ctx.Err() != nil && o.Say != nil {
			o.Say("stopping")
		}
		err = errors.Join(err, st.Close())
	}()
	if err != nil {
		return nil, err
	}
	pool, err := postgres.Open(ctx, st.DSN(), 4)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	store := postgres.New(pool, postgres.Options{})
	if err := refuseUsed(ctx, store); err != nil {
		return nil, err
	}
	s := &show{plan: p, o: o, stage: st, pool: pool, store: store}
	if err := s.setUp(ctx); err != nil {
		return nil, err
	}
	before, err := s.commits(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.play(ctx); err != nil {
		return nil, err
	}
	after, err := s.commits(ctx)
	if err != nil {
		return nil, err
	}
	report, err = s.settle(ctx)
	if err != nil {
		return nil, err
	}
	report.Commits = after - before
	if report.Commits > 0 {
		report.DecisionsPerCommit = float64(report.Decisions) / float64(report.Commits)
	}
	report.Seconds = time.Since(began).Seconds()
	return report, nil
}

// refuseUsed keeps the demo's arithmetic honest: usage of an earlier run in the same windows
// would be counted against this run's callers.
func refuseUsed(ctx context.Context, r ledger.Reader) error {
	accounts, err := r.Accounts(ctx, ledger.AccountQuery{Limit: 1})
	if err != nil {
		return err
	}
	if len(accounts) > 0 {
		return fmt.Errorf("the database already holds usage (%s): give the demo an empty one, or none", accounts[0].ID)
	}
	return nil
}

// commits is how many transactions the database has committed, reads included.
func (s *show) commits(ctx context.Context) (int64, error) {
	var n int64
	if err := s.pool.QueryRow(ctx, commitsSQL).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the database's commits: %w", err)
	}
	return n, nil
}

const commitsSQL = `-- name: commits
SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()`

// show is one run of the demo.
type show struct {
	plan    plan
	o       Options
	stage   *stage.Stage
	pool    *pgxpool.Pool
	store   *postgres.Store
	agents  []*stage.Agent
	callers *Callers
	began   time.Time
	ran     time.Duration // from then to the callers' last answer
	cut     string        // the dimension whose limit was cut
}

func (s *show) say(format string, args ...any) {
	if s.o.Say == nil {
		return
	}
	clock := ""
	if !s.began.IsZero() {
		clock = fmt.Sprintf("%5.1fs  ", time.Since(s.began).Seconds())
	}
	s.o.Say(clock + fmt.Sprintf(format, args...))
}

// setUp starts the control plane with the policy, three agents, and their callers.
func (s *show) setUp(ctx context.Context) error {
	if err := s.stage.StartControl(ctx); err != nil {
		return err
	}
	if err := s.apply(ctx, s.plan.policy, "the demo begins"); err != nil {
		return err
	}
	var addresses []string
	for _, region := range regions {
		agent, err := s.stage.StartAgent(ctx, region, "", "")
		if err != nil {
			return err
		}
		s.agents = append(s.agents, agent)
		addresses = append(addresses, agent.GRPC)
	}
	s.say("control plane and agents in %s, %s and %s are up", regions[0], regions[1], regions[2])
	doc, err := policy.Parse([]policy.File{{Name: "demo.yaml", Text: s.plan.policy}}, time.Time{})
	if err != nil {
		return err
	}
	known := doc.Snapshot(0)
	if s.callers, err = NewCallers(regions, addresses); err != nil {
		return err
	}
	s.callers.slots = func(dimension string) bool {
		d, ok := known.Dimension(dimension)
		return ok && d.Kind == quota.Concurrency
	}
	return nil
}

// play sends the traffic and lets things go wrong.
func (s *show) play(ctx context.Context) error {
	playing, stop := context.WithCancel(ctx)
	defer stop()
	s.began = time.Now()
	s.callers.Start(ctx)
	sent := make(chan error, 1)
	go func() {
		sent <- trace.Pace(playing, s.plan.events, trace.Pacing{
			Speed: s.plan.speed, Now: time.Now, Sleep: trace.Sleep,
		}, func(e trace.Event) error { return s.callers.Send(playing, e) })
	}()
	failed := s.goWrong(playing, sent)
	if failed != nil {
		stop()
	}
	err := <-sent
	s.callers.Finish()
	s.ran = time.Since(s.began)
	if failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("play the trace: %w", err)
	}
	return s.callers.Err()
}

// settle stops the agents that are left, waits until every lease has ended, and compares.
func (s *show) settle(ctx context.Context) (*Report, error) {
	s.say("traffic over: the agents report and return what they hold")
	s.stage.StopAgents()
	accounts, err := s.awaitLeases(ctx)
	if err != nil {
		return nil, err
	}
	report := compare(s.callers.Counts(), accounts, s.cut, s.ran)
	if err := report.fill(s.plan.policy); err != nil {
		return nil, err
	}
	found, err := s.store.Verify(ctx, func(d ledger.Difference) {
		report.Verify.Found = append(report.Verify.Found, d.String())
	}, func(int, int) {})
	if err != nil {
		return nil, fmt.Errorf("verify the ledger: %w", err)
	}
	report.Verify.Accounts, report.Verify.Grants, report.Verify.Differences = found.Accounts, found.Grants, found.Differences
	return report, nil
}

// awaitLeases waits until the sweeper has closed the leases of the agent that died.
func (s *show) awaitLeases(ctx context.Context) ([]ledger.Account, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		accounts, err := s.accounts(ctx)
		if err != nil {
			return nil, err
		}
		out := ledger.Units(0)
		for _, a := range accounts {
			out += a.Outstanding
			if a.Kind == quota.Concurrency {
				out += a.Settled() // in use, at an agent that nobody has heard of since
			}
		}
		if out == 0 {
			return accounts, nil
		}
		if err := trace.Sleep(ctx, 100*time.Millisecond); err != nil {
			return accounts, nil // the report names what is still out
		}
	}
}

func (s *show) accounts(ctx context.Context) ([]ledger.Account, error) {
	var all []ledger.Account
	q := ledger.AccountQuery{Limit: 1000}
	for {
		page, err := s.store.Accounts(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < q.Limit {
			return all, nil
		}
		q.After = page[len(page)-1].ID
	}
}
