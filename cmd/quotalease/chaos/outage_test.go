//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/postgres"
	"github.com/quotalease/quotalease/ledger/quota"
	"github.com/quotalease/quotalease/migrations"
)

// small builds one replica with a pool of a size, and one agent.
func (r *round) small(connections int) (*node, *node) {
	r.Helper()
	r.database = startDatabase(r, filepath.Join(r.dir, "db"))
	r.run("migrate", "up")
	w := newWire(r, r.database.socket, nil)
	r.toPostgres = append(r.toPostgres, w)
	dsn := fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", r.database.user, w.address())
	control := newNode(r, r, "control", []string{databaseEnv + "=" + dsn}, "controlplane", "--database-connections", strconv.Itoa(connections))
	uplink := newWire(r, control.door, nil)
	agent := newNode(r, r, "agent", nil, "agent", "--name", "agent", "--control-plane", uplink.address())
	r.start(control, agent)
	r.applyPolicy(control)
	return control, agent
}

// metric reads one number that a node exports.
func metric(t testing.TB, n *node, name string) int {
	t.Helper()
	response, err := http.Get("http://" + n.web() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
	}
	t.Fatalf("%s exports no %s", n.name, name)
	return 0
}

func (r *round) inOrder() {
	r.Helper()
	for _, what := range r.broken {
		r.Error(what)
	}
}

// until waits for a take to be allowed.
func (r *round) until(client *http.Client, n *node, key quota.Key) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), servePatience)
	defer cancel()
	for r.take(client, n, key, 1) != allowed {
		if rest(ctx, pollEvery); ctx.Err() != nil {
			r.violated("no take of %s is allowed", key)
			return
		}
	}
}

// The store hangs under load: whoever asks is answered in time and never denied, connections
// and goroutines do not pile up, and when the store is back so is everything.
func TestO2StoreHangsUnderLoad(t *testing.T) {
	t.Parallel()
	skipUnderRace(t)
	const crowd, pool, answerWithin = 60, 4, 10 * time.Second
	r := newRound(t)
	control, agent := r.small(pool)
	exact := quota.Key{Tenant: "acme", Dimension: "roomy_exact"}
	client := newClient()
	defer client.CloseIdleConnections()
	r.until(client, agent, exact)
	calm := map[*node]int{control: metric(t, control, "go_goroutines"), agent: metric(t, agent, "go_goroutines")}

	r.toPostgres[0].hang()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	before := len(r.history.all())
	var crowded sync.WaitGroup
	for i := range crowd {
		crowded.Go(func() {
			client := newClient()
			client.Timeout = answerWithin
			defer client.CloseIdleConnections()
			rng := rand.New(rand.NewPCG(2, uint64(i)))
			for ctx.Err() == nil {
				r.take(client, agent, exact, 1)
				rest(ctx, time.Duration(rng.Int64N(int64(callPause))))
			}
		})
	}
	rest(ctx, 3*time.Second)
	for n, calm := range calm {
		// A caller is a connection and a request at the agent, and all of them are one request
		// at the replica.
		if busy := metric(t, n, "go_goroutines"); busy > calm+4*crowd {
			t.Errorf("%s has %d goroutines for %d callers, %d before them", n.name, busy, crowd, calm)
		}
	}
	if n := r.toPostgres[0].connections(); n > pool {
		t.Errorf("%d connections to a store that hangs, the pool has %d", n, pool)
	}
	crowded.Wait()
	during := r.history.all()[before:]
	for _, t := range during {
		if t.outcome == denied || t.outcome == unknown || t.outcome == unsent {
			r.violated("while the store hung: %s", t)
			break
		}
	}
	if len(during) < 2*crowd {
		t.Errorf("%d takes were answered in four seconds, which is not fast for %d callers", len(during), crowd)
	}

	r.toPostgres[0].pass()
	r.until(client, agent, exact)
	r.inOrder()
}

// One connection is all that a replica needs: no request holds one while it waits for another.
func TestO8OneConnectionServesAll(t *testing.T) {
	t.Parallel()
	skipUnderRace(t)
	r := newRound(t)
	control, agent := r.small(1)
	_, server := control.door()
	var all sync.WaitGroup
	for _, key := range keys() {
		all.Go(func() {
			client := newClient()
			defer client.CloseIdleConnections()
			for range 10 {
				r.until(client, agent, key)
			}
		})
	}
	for _, command := range [][]string{{"usage"}, {"agents"}, {"lease", "list"}, {"policy", "history"}} {
		all.Go(func() {
			for range 3 {
				if said, err := r.command(append(command, "--server", server)...); err != nil {
					t.Errorf("quotalease %q: %v\n%s", command, err, said)
				}
			}
		})
	}
	all.Wait()
	r.inOrder()
}

// Of two servers the primary is found, and after a failover the other one, though the first
// still answers, read only.
func TestO1FailoverToTheOtherHost(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	servers := []*database{startDatabase(t, filepath.Join(dir, "db")), startDatabase(t, filepath.Join(dir, "db2"))}
	var ports []string
	for _, d := range servers {
		if _, err := migrations.Up(t.Context(), d.dsn()); err != nil {
			t.Fatal(err)
		}
		_, port, _ := strings.Cut(newWire(t, d.socket, nil).address(), ":")
		ports = append(ports, port)
	}
	demote(t, servers[1], filepath.Join(dir, "db2"))
	pool, err := postgres.Open(t.Context(), fmt.Sprintf("host=127.0.0.1,127.0.0.1 port=%s user=%s dbname=postgres sslmode=disable",
		strings.Join(ports, ","), servers[0].user), 4)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store := postgres.New(pool, postgres.Options{})
	open := func() error {
		id := ledger.AccountID{Key: quota.Key{Tenant: "acme", Dimension: "calls"}}
		return store.Update(t.Context(), ledger.Scope{Accounts: []ledger.AccountID{id}}, func(b *ledger.Book) error {
			_, err := b.Open(id, ledger.Terms{Kind: quota.Period, Class: quota.Hard, Limit: quota.LimitOf(10), TTL: time.Second, Grace: time.Second})
			return err
		})
	}
	if err := open(); err != nil {
		t.Fatalf("the primary is the first host: %v", err)
	}
	demote(t, servers[0], filepath.Join(dir, "db"))
	if err := open(); !errors.Is(err, postgres.ErrUnavailable) {
		t.Errorf("two standbys give %v, want ErrUnavailable", err)
	}
	promote(t, servers[1])
	if err := open(); err != nil {
		t.Errorf("the primary is the second host: %v", err)
	}
}

// demote starts a server again as a standby.
func demote(t *testing.T, d *database, dir string) {
	t.Helper()
	if err := d.take().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := d.start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func promote(t *testing.T, d *database) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.dsn())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
}
