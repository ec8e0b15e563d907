package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quotalease/quotalease/agent/boottime"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// Uplink is the way to the control plane. Every call has a deadline in its context.
type Uplink interface {
	Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error)
	Spend(ctx context.Context, req *pb.SpendRequest) (*pb.SpendReply, error)
	// Defer moves tickets in the lines of callers who wait their turn.
	Defer(ctx context.Context, req *pb.DeferRequest) (*pb.DeferReply, error)
	// Watch calls notice for each message until the stream ends, which it always does.
	Watch(ctx context.Context, req *pb.WatchRequest, notice func(*pb.WatchReply)) error
}

// Config is what an agent is told. Zero durations take the defaults given here.
type Config struct {
	Name        string        // for people; 1 to 128 bytes
	Region      string        // 1 to 63 characters
	SyncTimeout time.Duration // of one Sync or Spend, 2 s
	StopTimeout time.Duration // most that a graceful stop takes, 5 s
	MaxKeys     int           // keys held at most, 1,000,000
	StateDir    string        // where the terms of policy and the names of hot keys are kept for the next start; empty: nowhere
	TermsMaxAge time.Duration // older ones are not believed, 24 h
	Logger      *slog.Logger  // none: discards
	Metrics     prometheus.Registerer

	now func() core.Instant // tests
}

// Validate reports every fault of a config.
func (c Config) Validate() error {
	var errs []error
	if n := len(c.Name); n < 1 || n > 128 || strings.ContainsFunc(c.Name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		errs = append(errs, &quota.FieldError{Field: "name", Allowed: "1 to 128 bytes of printable characters"})
	}
	if quota.ValidateDimension(c.Region) != nil {
		errs = append(errs, &quota.FieldError{Field: "region", Allowed: "1 to 63 characters of a-z, 0-9, '_', '-' and '.', beginning with a letter or digit"})
	}
	if c.SyncTimeout < 0 || c.StopTimeout < 0 {
		errs = append(errs, &quota.FieldError{Field: "timeout", Allowed: "0 or more"})
	}
	if c.TermsMaxAge < 0 {
		errs = append(errs, &quota.FieldError{Field: "terms max age", Allowed: "0 or more"})
	}
	if c.MaxKeys < 0 {
		errs = append(errs, &quota.FieldError{Field: "max keys", Allowed: "0 or more"})
	}
	return errors.Join(errs...)
}

// Agent decides takes from leased units. Its methods are safe for concurrent use.
type Agent struct {
	cfg    Config
	uplink Uplink
	log    *slog.Logger
	now    func() core.Instant
	table  *core.Table
	seen   *meters
	local  *local.Set

	repeats   repeats
	turns     repeats // by ticket
	lines     *lines
	acquiring claims
	pacing    paces
	terms     *keptTerms
	hot       *keptHot

	mu       sync.Mutex // guards what follows; never held across an Uplink call
	core     *core.Core
	unhook   context.CancelFunc // ends the Watch stream of the present incarnation
	lost     bool               // contact, as last logged
	clockOff bool               // this machine's wall clock, as last logged
	openAt   core.Instant
	hasMet   bool // met is closed

	syncKick, spendKick, tickKick chan struct{} // one slot each: something may be due
	met                           chan struct{} // closed when the first Sync was answered, or was not
	drained                       chan struct{} // closed when a stopping agent owes nothing
	stopped                       chan struct{} // closed when Run is over
}

// New returns an agent that does nothing until Run.
func New(cfg Config, uplink Uplink) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure agent: %w", err)
	}
	setDefault(&cfg.SyncTimeout, 2*time.Second)
	setDefault(&cfg.StopTimeout, 5*time.Second)
	setDefault(&cfg.TermsMaxAge, termsMaxAge)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.now == nil {
		cfg.now = boottime.Reader()
	}
	a := &Agent{
		cfg: cfg, uplink: uplink, log: cfg.Logger, now: cfg.now,
		syncKick: make(chan struct{}, 1), spendKick: make(chan struct{}, 1), tickKick: make(chan struct{}, 1),
		lines: newLines(), local: local.NewSet(),
		repeats: repeats{field: "id"}, turns: repeats{field: "ticket"},
		met: make(chan struct{}), drained: make(chan struct{}), stopped: make(chan struct{}),
	}
	a.core = core.New(core.Config{
		Name: cfg.Name, Region: cfg.Region, Random: rand.Reader, Wall: time.Now(), Start: a.now(), MaxKeys: cfg.MaxKeys,
	})
	a.table = a.core.Table
	if err := a.recall(time.Now()); err != nil {
		return nil, err
	}
	a.seen = newMeters(a)
	if cfg.Metrics != nil {
		if err := errors.Join(cfg.Metrics.Register(a.seen), cfg.Metrics.Register(a.local)); err != nil {
			return nil, fmt.Errorf("register agent metrics: %w", err)
		}
	}
	return a, nil
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// await is the slow way: the caller waits for the core's answer.
func (a *Agent) await(ctx context.Context, id quota.Key, cost int64) (Decision, core.Outcome, error) {
	o, err := a.ask(ctx, id, cost)
	if err != nil {
		return Decision{}, core.Outcome{}, err
	}
	d, err := a.outcome(id, cost, o)
	return d, o, err
}

// ask waits for what the core answers.
func (a *Agent) ask(ctx context.Context, id quota.Key, cost int64) (core.Outcome, error) {
	if err := id.Validate(); err != nil {
		return core.Outcome{}, err
	}
	if err := ctx.Err(); err != nil {
		return core.Outcome{}, err
	}
	done := make(chan core.Outcome, 1)
	w := &core.Waiter{Key: id, Cost: cost, Done: func(o core.Outcome) { done <- o }}
	a.mu.Lock()
	began := a.now()
	a.core.Want(began, w)
	patience := a.patience(id.Dimension, w)
	a.mu.Unlock()
	kick(a.syncKick)
	kick(a.spendKick)
	kick(a.tickKick)
	o, err := a.wait(ctx, single{w}, done, patience)
	if err == nil && w.Exact() {
		a.seen.served(id.Dimension, a.now()-began)
	}
	return o, err
}

// waiting is a caller who waits for the core's answer: for one key, or for several.
type waiting interface {
	Exact() bool
	giveUp(c *core.Core, now core.Instant) (core.Outcome, bool)
	abandon(c *core.Core, now core.Instant)
}

type single struct{ *core.Waiter }

func (w single) giveUp(c *core.Core, now core.Instant) (core.Outcome, bool) {
	return c.GiveUp(now, w.Waiter)
}
func (w single) abandon(c *core.Core, _ core.Instant) { c.Abandon(w.Waiter) }

// wait returns what the core answers w, or the error with which the caller leaves.
func (a *Agent) wait(ctx context.Context, w waiting, done <-chan core.Outcome, patience time.Duration) (core.Outcome, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case o := <-done:
			return o, nil
		case <-a.stopped:
			return answeredOr(done, ErrStopped)
		case <-timer.C:
			// The key may have gone to the exact lane meanwhile, which takes a round trip.
			if more := a.morePatience(w, &patience); more > 0 {
				timer.Reset(more)
				continue
			}
			return a.giveUp(w, done), nil
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return a.giveUp(w, done), nil
			}
			a.mu.Lock()
			w.abandon(a.core, a.now())
			a.mu.Unlock()
			kick(a.syncKick)
			kick(a.spendKick)
			return answeredOr(done, ctx.Err())
		}
	}
}

// answeredOr is the answer that came all the same, whose units are charged: the caller has
// them.
func answeredOr(done <-chan core.Outcome, err error) (core.Outcome, error) {
	select {
	case o := <-done:
		return o, nil
	default:
		return core.Outcome{}, err
	}
}

// giveUp is the end of a caller's patience: the core says what it is told.
func (a *Agent) giveUp(w waiting, done <-chan core.Outcome) core.Outcome {
	a.mu.Lock()
	o, mine := w.giveUp(a.core, a.now())
	a.mu.Unlock()
	kick(a.syncKick)
	kick(a.spendKick)
	if !mine {
		return <-done
	}
	return o
}

// spendPatience is the most that a caller waits in the exact lane, and how long an item of it
// is good for.
const spendPatience = time.Second

// patience is how long a caller waits at first: for a lease as the dimension's cold rule says,
// in the exact lane (or before the first contact) spendPatience. The owner holds mu.
func (a *Agent) patience(dimension string, w *core.Waiter) time.Duration {
	if dim, ok := a.core.Dimension(dimension); ok && !w.Exact() && w.Cost > 0 {
		return dim.ColdWait
	}
	return spendPatience
}

// morePatience extends a wait once, for a caller who was sent on to the exact lane.
func (a *Agent) morePatience(w waiting, patience *time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !w.Exact() || *patience >= spendPatience {
		return 0
	}
	more := spendPatience - *patience
	*patience = spendPatience
	return more
}

// outcome turns the core's answer into the caller's.
func (a *Agent) outcome(id quota.Key, cost int64, o core.Outcome) (Decision, error) {
	switch {
	case o.Bad != nil:
		return Decision{}, o.Bad
	case o.Unavailable:
		select {
		case <-a.stopped:
			return Decision{}, ErrStopped
		default:
		}
		a.seen.unavailable(a.label(id.Dimension))
		return Decision{}, &UnavailableError{Key: id, RetryIn: o.RetryIn}
	case o.Allowed:
		if o.Reason == quota.OpenMode || o.Reason == quota.Extended {
			a.wentOn(id, o.Reason)
		}
	case cost > 0:
		a.seen.denied(id.Dimension, o.Reason, o.RetryIn)
	}
	return decision(id.Dimension, &o.Taken), nil
}

// label is a dimension's name in metrics, if policy knows it: callers cannot make series.
func (a *Agent) label(dimension string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.core.Dimension(dimension); ok {
		return dimension
	}
	return "unknown"
}

// wentOn counts what an outage mode let pass, and logs it at most once a second.
func (a *Agent) wentOn(id quota.Key, mode quota.Reason) {
	a.seen.wentOn(id.Dimension, mode)
	a.mu.Lock()
	now := a.now()
	quiet := a.openAt != 0 && now-a.openAt < time.Second
	if !quiet {
		a.openAt = now
	}
	a.mu.Unlock()
	if !quiet {
		word := "open"
		if mode == quota.Extended {
			word = "extend"
		}
		a.log.Warn("allowing without a lease: outage mode "+word, "dimension", id.Dimension)
	}
}

func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
