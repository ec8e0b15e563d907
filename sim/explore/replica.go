package explore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/quotalease/quotalease/controlplane"
	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// replica is a real control plane that serves one state of a world after the other. All that it
// remembers between requests, its policy version and its estimate of the ledger's clock, is the
// state's, and is put in its place before each request. One goroutine at a time uses it.
type replica struct {
	cp       *controlplane.ControlPlane
	policies []policy.Record
	serves   *state
	knows    int64         // the policy version in its memory
	offset   time.Duration // of the ledger's clock to the one it is shown, as it remembers
	shown    time.Time     // its clock
}

// replicas are those of one worker: one for each policy version that a state may know, so that
// none has to read policy anew for most requests.
type replicas struct {
	world    *World
	policies []policy.Record
	of       []*replica
}

func newReplicas(w *World) (*replicas, error) {
	policies, err := w.policies()
	return &replicas{world: w, policies: policies, of: make([]*replica, len(policies))}, err
}

// serving returns a replica in the condition in which a state left its own.
func (rs *replicas) serving(s *state) (*replica, error) {
	r := rs.of[s.knows-1]
	if r == nil {
		r = &replica{policies: rs.policies, shown: midnight}
		cfg := controlplane.DefaultConfig()
		cfg.Store, cfg.Reader, cfg.Keeper, cfg.Billing, cfg.Policies = r, r, r, r, r
		cfg.Now, cfg.Random = func() time.Time { return r.shown }, r
		var err error
		if r.cp, err = controlplane.New(cfg); err != nil {
			return nil, err
		}
		if err = r.cp.Poll(context.Background()); err != nil { // it tells from here on
			return nil, err
		}
		rs.of[s.knows-1] = r
	}
	r.serves = s
	if r.knows != s.knows {
		inForce := s.version
		s.version = s.knows // as long as the replica reads it
		err := r.cp.Refresh(context.Background())
		s.version = inForce
		if err != nil {
			return nil, fmt.Errorf("bring the replica to policy version %d: %w", s.knows, err)
		}
	}
	// What the replica adds to the clock that it is shown gives the state's own estimate.
	r.shown = s.replicaClock().Add(s.offset - r.offset)
	return r, nil
}

// left takes down in which condition a request left the replica.
func (r *replica) left(s *state, committed bool) {
	s.knows = r.knows
	if committed {
		r.offset = s.ledgerClock().Sub(r.shown)
		s.offset = s.ledgerClock().Sub(s.replicaClock())
	}
}

// sync has a Sync answered; a nil reply is an outage.
func (rs *replicas) sync(s *state, m *pb.SyncRequest) (*pb.SyncReply, error) {
	r, err := rs.serving(s)
	if err != nil {
		return nil, err
	}
	var reply *pb.SyncReply
	err = r.listened(s, func() (err error) {
		reply, err = r.cp.Desk().Sync(context.Background(), m)
		return err
	})
	r.left(s, err == nil)
	return outage(reply, err)
}

// spend has a Spend answered; a nil reply is an outage.
func (rs *replicas) spend(s *state, m *pb.SpendRequest) (*pb.SpendReply, error) {
	r, err := rs.serving(s)
	if err != nil {
		return nil, err
	}
	var reply *pb.SpendReply
	err = r.listened(s, func() (err error) {
		reply, err = r.cp.Desk().Spend(context.Background(), m)
		return err
	})
	r.left(s, err == nil)
	return outage(reply, err)
}

// listened lets the agents of a world that has notices listen to what happens.
func (r *replica) listened(s *state, happen func() error) error {
	if !s.world.Notices {
		return happen()
	}
	var listeners []*controlplane.Listener
	for _, a := range s.agents {
		l, err := r.cp.Listen(a.core.Incarnation().Bytes())
		if err != nil {
			return err
		}
		defer l.Close()
		l.Notices() // the policy version, which each Sync tells
		listeners = append(listeners, l)
	}
	done := happen()
	if err := r.cp.Poll(context.Background()); err != nil {
		return err
	}
	for i, l := range listeners {
		for _, n := range l.Notices() {
			a := s.mine(i)
			a.inbox = append(a.inbox, news{s.tick, n})
		}
	}
	return done
}

func outage[T any](reply *T, err error) (*T, error) {
	if errors.Is(err, controlplane.ErrUnavailable) {
		return nil, nil
	}
	return reply, err
}

// follow brings the replica, and the accounts, to the policy in force.
func (rs *replicas) follow(s *state) error {
	r, err := rs.serving(s)
	if err != nil {
		return err
	}
	err = r.listened(s, func() error {
		if err := r.cp.Refresh(context.Background()); err != nil {
			return err
		}
		return r.cp.Reconcile(context.Background())
	})
	r.left(s, false)
	if err == nil {
		s.reconciled = s.knows
	}
	return err
}

// sweep closes what is due, leases and windows.
func (rs *replicas) sweep(s *state) error {
	r, err := rs.serving(s)
	if err != nil {
		return err
	}
	err = r.listened(s, func() error {
		_, err := r.cp.Sweep(context.Background())
		return err
	})
	r.left(s, false)
	return err
}

// The replica's store, keeper and policy log are those of the state that it serves.

func (r *replica) Update(ctx context.Context, scope ledger.Scope, fn func(*ledger.Book) error) error {
	return r.serves.store().Update(ctx, scope, fn)
}

func (r *replica) Due(ctx context.Context, limit int) ([]ledger.AccountID, error) {
	return r.serves.store().Due(ctx, limit)
}

func (r *replica) Accounts(ctx context.Context, q ledger.AccountQuery) ([]ledger.Account, error) {
	return r.serves.store().Accounts(ctx, q)
}

func (r *replica) Grants(ctx context.Context, q ledger.GrantQuery) ([]ledger.Grant, error) {
	return r.serves.store().Grants(ctx, q)
}

func (r *replica) Incarnations(ctx context.Context, since time.Time) ([]ledger.Incarnation, error) {
	return r.serves.store().Incarnations(ctx, since)
}

func (r *replica) Holdings(ctx context.Context) ([]ledger.Holding, error) {
	return r.serves.store().Holdings(ctx)
}

// Events numbers those of all states in one order: each is asked for once.
func (r *replica) Events(ctx context.Context, after int64, limit int) ([]ledger.Event, error) {
	if r.serves == nil {
		return nil, nil
	}
	events, err := r.serves.store().Events(ctx, r.serves.published, limit)
	for i := range events {
		r.serves.published = events[i].ID
		events[i].ID = after + int64(i) + 1
	}
	return events, err
}

func (r *replica) Verify(ctx context.Context, found func(ledger.Difference), progress func(int, int)) (ledger.Verified, error) {
	return r.serves.store().Verify(ctx, found, progress)
}

func (r *replica) Foldable(ctx context.Context, before time.Time, after ledger.ID, limit int) ([]ledger.AccountID, ledger.ID, error) {
	return r.serves.store().Foldable(ctx, before, after, limit)
}

func (r *replica) Prune(ctx context.Context, records, accounts time.Time) (int64, error) {
	return r.serves.store().Prune(ctx, records, accounts)
}

func (r *replica) Unstated(ctx context.Context, limit int) ([]ledger.AccountID, error) {
	return r.serves.store().Unstated(ctx, limit)
}

func (r *replica) Statements(ctx context.Context, q ledger.StatementQuery) ([]ledger.Statement, error) {
	return r.serves.store().Statements(ctx, q)
}

func (r *replica) LimitHistory(ctx context.Context, accounts []ledger.AccountID) ([]ledger.LimitChange, error) {
	return r.serves.store().LimitHistory(ctx, accounts)
}

func (r *replica) Head(context.Context) (policy.Record, error) {
	return r.policies[r.serves.version-1], nil
}

func (r *replica) Get(_ context.Context, version int64) (policy.Record, error) {
	r.knows = version
	return r.policies[version-1], nil
}

func (r *replica) History(context.Context, int) ([]policy.Record, error) {
	return r.policies[r.serves.version-1 : r.serves.version], nil
}

// Append implements policy.Log. Nobody applies a policy through a replica here.
func (r *replica) Append(context.Context, int64, policy.Record) (int64, error) {
	return 0, policy.ErrConflict
}

// Read makes tokens: each one is another number.
func (r *replica) Read(b []byte) (int, error) {
	r.serves.tokens++
	clear(b)
	binary.BigEndian.PutUint32(b, r.serves.tokens)
	return len(b), nil
}
