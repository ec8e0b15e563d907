package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/quotalease/quotalease/ledger/postgres"
)

// Options say what to measure, where and for how long.
type Options struct {
	DatabaseURL string // empty: a private Postgres
	DataDir     string // of the private Postgres; empty: temporary
	Run         *regexp.Regexp
	Rounds      int
	Time        time.Duration // of each measurement
	Say         func(string)  // progress, one line at a time
	Program     string        // this one's file, to run an agent and a stub from; empty: doors are not measured
	Tenants     int           // of whom doors are asked; 0: 10,000
	Keys        int           // most keys of what grows by keys, and accounts of a restart; 0: 100,000

	tiny bool // few of everything. Tests
}

// Report is all of one run.
type Report struct {
	When    time.Time `json:"when"`
	Machine Machine   `json:"machine"`
	Rounds  int       `json:"rounds"`
	Time    string    `json:"time"` // of each measurement
	Batch   int       `json:"grants_per_commit"`
	Figures []Verdict `json:"figures"`
	Results []Result  `json:"results"`
	Steady  []Steady  `json:"steady"`

	Growth   []Growth  `json:"growth"`
	Edge     *Edge     `json:"edge,omitempty"`
	Restarts []Restart `json:"restarts"`

	Words []Row `json:"words"` // the figures, for who shows them without knowing units
}

// Machine is what the figures are of.
type Machine struct {
	CPU      string `json:"cpu"`
	CPUs     int    `json:"gomaxprocs"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Load     string `json:"load_average"` // as the run begins; a quiet machine shows less than one
	Postgres string `json:"postgres"`
	Settings string `json:"postgres_settings"`
	Private  bool   `json:"private_postgres"`
}

// Run measures, and leaves nothing behind.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	db, err := openDatabase(ctx, o)
	defer func() { err = errors.Join(err, db.close(ctx)) }()
	if err != nil {
		return nil, err
	}
	w, err := startWorld(ctx, db.dsn)
	if err != nil {
		return nil, err
	}
	r := &run{o: o, dsn: db.dsn, world: w, meter: meter{now: time.Now, cpu: db.cpu()}}
	defer func() { err = errors.Join(err, r.world.close()) }()
	pool, err := postgres.Open(ctx, db.dsn, yardConnections)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	w.program, w.tenants = o.Program, cmp.Or(o.Tenants, doorTenants)
	r.yard = &yardsticks{pool: pool, meter: r.meter, span: o.Time}
	r.report = &Report{When: time.Now(), Machine: thisMachine(), Rounds: o.Rounds, Time: o.Time.String(),
		Figures: []Verdict{}, Results: []Result{}, Steady: []Steady{},
		Growth: []Growth{}, Restarts: []Restart{}}
	r.report.Machine.Private = db.server != nil
	if err := db.do(ctx, db.dsn, func(c *pgx.Conn) error { return r.report.Machine.ask(ctx, c) }); err != nil {
		return nil, err
	}
	if err := r.all(ctx); err != nil {
		return nil, err
	}
	return r.report, nil
}

// run is one benchmark under way.
type run struct {
	o      Options
	dsn    string
	world  *world // the last scene starts another
	yard   *yardsticks
	meter  meter
	report *Report
	since  counters
	made   int // accounts of what grows
}

// batch is what a commit over many keys carries.
func (r *run) batch() (int, error) {
	now, err := r.world.counters()
	r.report.Batch = now.batch(r.since)
	return r.report.Batch, err
}

const (
	askers       = 256
	exactCallers = 64
	manyKeys     = 10_000
	agents       = 16 // that ask for several keys with each message
	together     = 16
)

// scenes are what is measured in rounds.
func (r *run) scenes() []scene {
	w, y, keys := r.world, r.yard, manyKeys
	if r.o.tiny {
		keys = 300
	}
	list := []scene{
		{hotScene, []subject{w.granter("hot", askers, 1), w.byRPC("hot", askers, 1), y.naive(askers, 1)}},
		{manyScene, []subject{w.watched(w.granter("many", askers, keys), &r.since), y.naive(askers, keys),
			y.batches(alike, keys, r.batch, writeAlike), y.batches(narrow, keys, r.batch, writeNarrow),
			w.asking(oursByMany, "several", agents, keys, together)}},
		{loneScene, []subject{w.granter("lone", 1, 1), y.single()}},
		{exactScene, []subject{w.exact(exactCallers), y.update(exactCallers)}},
	}
	if w.program == "" {
		return list
	}
	return append(list, w.doorScenes()...)
}

// play measures scenes in rounds.
func (r *run) play(ctx context.Context, scenes []scene) error {
	for _, s := range scenes {
		if !r.wanted(s.name) {
			continue
		}
		results, err := r.meter.play(ctx, s, r.o.Rounds, r.o.Time, r.o.Say)
		if err != nil {
			return fmt.Errorf("measure %s: %w", s.name, err)
		}
		r.report.Results = append(r.report.Results, results...)
	}
	return nil
}

func (r *run) all(ctx context.Context) error {
	if err := r.restarts(ctx); err != nil { // before there is anything
		return err
	}
	if err := r.play(ctx, r.scenes()); err != nil {
		return err
	}
	for _, d := range demands() {
		if !r.wanted(steadyName) {
			continue
		}
		span := time.Duration(r.o.Rounds) * r.o.Time
		r.o.Say(fmt.Sprintf("%s: %s, %d decisions/s for %s", steadyName, d.name(), d.rate, r.o.Time+span))
		s, err := r.world.steady(ctx, r.meter, d, r.o.Time, span)
		if err != nil {
			return fmt.Errorf("measure %s: %w", d.name(), err)
		}
		r.report.Steady = append(r.report.Steady, s)
	}
	if err := r.grow(ctx); err != nil {
		return err
	}
	r.report.Figures = slices.Concat(r.report.Figures, judge(figures(), r.report.Results), judgeSteady(r.report.Steady),
		r.judgeGrowth())
	r.report.Words = r.report.Rows()
	return nil
}

// Scenes are the names of what can be measured.
func Scenes() []string {
	return []string{hotScene, manyScene, loneScene, exactScene, rlsScene, rlsPacedScene, takeScene, steadyName,
		growDecisions, growAgents, growKeys, growTenants, growEdge, growRestart}
}

func (r *run) wanted(name string) bool { return r.o.Run == nil || r.o.Run.MatchString(name) }

func thisMachine() Machine {
	m := Machine{CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	load, _ := os.ReadFile("/proc/loadavg") // only Linux has it
	m.Load = strings.TrimSpace(string(load))
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	return m
}

// settingsSQL are those that decide what a commit costs.
const settingsSQL = `SELECT current_setting('server_version'), string_agg(name || '=' || current_setting(name), ' ' ORDER BY name)
FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'max_wal_size')`

func (m *Machine) ask(ctx context.Context, c *pgx.Conn) error {
	if err := c.QueryRow(ctx, settingsSQL).Scan(&m.Postgres, &m.Settings); err != nil {
		return fmt.Errorf("read Postgres' settings: %w", err)
	}
	return nil
}
