//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// round is one run: the processes, what is done to them and what came of it.
type round struct {
	testing.TB
	dir     string
	history *history

	database   *database
	pooler     *pooler // nil: replicas are connected with the database
	ordinary   *syscall.Credential
	toPostgres []*wire   // from each replica
	uplinks    [][]*wire // from each agent to each replica
	controls   []*node
	agents     []*node

	commits      ambush // on those of the replicas
	behindPooler ambush // on those that the pooler has handed on

	mu     sync.Mutex
	broken []string // promises, in words
	fired  map[string]int
}

func newRound(t testing.TB) *round {
	t.Helper()
	return &round{TB: t, dir: newDir(t), history: &history{began: time.Now()}, fired: map[string]int{}}
}

// violated records a promise that was broken.
func (r *round) violated(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	r.history.say("VIOLATION %s", what)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = append(r.broken, what)
}

// build starts everything, calm.
func (r *round) build(pooled bool) {
	r.Helper()
	var bouncer string
	if pooled {
		bouncer = findPooler(r)
	}
	r.database = startDatabase(r, filepath.Join(r.dir, "db"))
	r.run("migrate", "up")
	door, mode := r.database.socket, ""
	if pooled {
		behind := newWire(r, r.database.socket, &r.behindPooler)
		r.ordinary = ordinaryUser(r)
		r.pooler = startPooler(r, filepath.Join(r.dir, "pgbouncer"), bouncer, r.database.user, behind.address())
		// This pgbouncer knows nothing of prepared statements.
		door, mode = r.pooler.socket, "&default_query_exec_mode=exec"
	}
	for i := range replicas {
		w := newWire(r, door, &r.commits)
		r.toPostgres = append(r.toPostgres, w)
		dsn := fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable%s", r.database.user, w.address(), mode)
		r.controls = append(r.controls, newNode(r, r, fmt.Sprintf("control-%d", i), []string{databaseEnv + "=" + dsn}, "controlplane"))
	}
	for i := range agents {
		name := fmt.Sprintf("agent-%d", i)
		args := []string{"agent", "--region", fmt.Sprintf("region-%d", i), "--name", name}
		var wires []*wire
		for _, control := range r.controls {
			w := newWire(r, control.door, nil)
			wires = append(wires, w)
			args = append(args, "--control-plane", w.address())
		}
		r.uplinks = append(r.uplinks, wires)
		r.agents = append(r.agents, newNode(r, r, name, nil, args...))
	}
	r.start(append(r.controls[:replicas:replicas], r.agents...)...)
	r.applyPolicy(r.controls[0])
}

// start starts nodes, one after another.
func (r *round) start(nodes ...*node) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	for _, n := range nodes {
		if err := n.start(ctx); err != nil {
			r.Fatal(err)
		}
	}
}

func (r *round) applyPolicy(control *node) {
	r.Helper()
	policy := filepath.Join(r.dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(policyText), 0o644); err != nil {
		r.Fatal(err)
	}
	_, server := control.door()
	r.run("policy", "apply", "-f", policy, "--who", "chaos", "--why", "a round", "--server", server)
}

const databaseEnv = "QUOTALEASE_DATABASE_URL"

// run runs a command of the product on the database and fails the test if it fails.
func (r *round) run(args ...string) {
	r.Helper()
	if said, err := r.command(args...); err != nil {
		r.Fatalf("quotalease %q: %v\n%s", args, err, said)
	}
}

func (r *round) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(r), args...)
	cmd.Env = append(os.Environ(), databaseEnv+"="+r.database.dsn())
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// trouble lets callers work while a plan's faults happen. It returns when all that was hurt is
// whole again.
func (r *round) trouble(ctx context.Context, seed uint64, plan []step) {
	calling, hangUp := context.WithCancel(ctx)
	var callers sync.WaitGroup
	for i, n := range r.agents {
		for j := range callersPerAgent {
			rng := rand.New(rand.NewPCG(seed, uint64(100+10*i+j)))
			callers.Go(func() { r.call(calling, n, rng) })
		}
	}
	began := r.history.now()
	var under sync.WaitGroup
	turns := map[string]*sync.Mutex{}
	for _, s := range plan {
		rest(ctx, s.at-(r.history.now()-began))
		if ctx.Err() != nil {
			break
		}
		resource := fmt.Sprint(s.fault.group, s.target)
		if turns[resource] == nil {
			turns[resource] = &sync.Mutex{}
		}
		under.Go(func() { r.inflict(ctx, s, turns[resource]) })
	}
	under.Wait()
	hangUp()
	callers.Wait()
	if ctx.Err() != nil {
		r.violated("what was hurt did not get whole again in time: %v", ctx.Err())
	}
}

// inflict does one step.
func (r *round) inflict(ctx context.Context, s step, turn *sync.Mutex) {
	if s.fault.group != "" {
		turn.Lock()
		defer turn.Unlock()
	}
	r.history.say(">> %s %d for %s", s.fault.name, s.target, s.lasts)
	if err := s.fault.do(ctx, r, s.target, s.lasts); err != nil {
		r.violated("%s %d: %v", s.fault.name, s.target, err)
	}
	r.history.say("<< %s %d", s.fault.name, s.target)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fired[s.fault.name]++
}
