package stage

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quotalease/quotalease/ledger/postgres/pgserver"
	"github.com/quotalease/quotalease/migrations"
)

// Config says what to play on.
type Config struct {
	DatabaseURL string // empty: a private server is started
	DataDir     string // of the private server; empty: temporary
	PolicyDir   string // handed to the control plane; empty: none
	Log         func(string)
	Verbose     bool // what the children write goes to Log too
	Profiles    bool // the children serve their profiles
}

// Stage is a migrated database and the processes that work on it.
type Stage struct {
	cfg    Config
	binary string
	server *pgserver.Server // nil when the database is somebody else's
	dsn    string

	control *Proc
	agents  []*Proc
	// Addresses of the control plane, kept over its restarts.
	controlGRPC, controlHTTP string
}

// How long each part may take to start and to stop.
const (
	startPatience = 30 * time.Second
	stopPatience  = 8 * time.Second
)

// freePort lets the system choose.
const freePort = "127.0.0.1:0"

// Start makes the database ready. What it returns is to be closed, also after an error.
func Start(ctx context.Context, cfg Config) (*Stage, error) {
	s := &Stage{cfg: cfg, dsn: cfg.DatabaseURL, controlGRPC: freePort, controlHTTP: freePort}
	binary, err := os.Executable()
	if err != nil {
		return s, fmt.Errorf("find this program: %w", err)
	}
	s.binary = binary
	if s.dsn == "" {
		s.log("starting a private Postgres")
		s.server, err = pgserver.Start(ctx, pgserver.Config{
			Dir: cfg.DataDir, Durable: true, Download: os.Geteuid() != 0, Log: cfg.Log,
		})
		if err != nil {
			return s, fmt.Errorf("start a private Postgres: %w", err)
		}
		s.dsn = s.server.DSN()
	}
	if _, err := migrations.Up(ctx, s.dsn); err != nil {
		return s, err
	}
	return s, nil
}

func (s *Stage) log(line string) {
	if s.cfg.Log != nil {
		s.cfg.Log(line)
	}
}

// DSN is the database's connection string.
func (s *Stage) DSN() string { return s.dsn }

// ControlPlane is the address of the control plane's gRPC door.
func (s *Stage) ControlPlane() string { return s.controlGRPC }

// Console is the address of the control plane's HTTP door.
func (s *Stage) Console() string { return s.controlHTTP }

// ControlProc is the control plane's process.
func (s *Stage) ControlProc() *Proc { return s.control }

// Listen sets where the control plane will listen; without it the ports are free ones.
func (s *Stage) Listen(grpcAddr, httpAddr string) { s.controlGRPC, s.controlHTTP = grpcAddr, httpAddr }

// StartControl starts the control plane, at the same addresses as before if it ran before.
func (s *Stage) StartControl(ctx context.Context) error {
	args := []string{"controlplane", "--grpc", s.controlGRPC, "--http", s.controlHTTP}
	if s.cfg.PolicyDir != "" {
		args = append(args, "--policy-dir", s.cfg.PolicyDir)
	}
	args = append(args, s.profiles()...)
	// The DSN may hold a secret: it goes by the environment, which ps does not show.
	p, err := Spawn(s.binary, "controlplane", []string{"QUOTALEASE_DATABASE_URL=" + s.dsn}, s.childLog(), args...)
	if err != nil {
		return err
	}
	s.control = p
	addresses, err := s.ready(ctx, p)
	if err != nil {
		return err
	}
	s.controlGRPC, s.controlHTTP = addresses["grpc"], addresses["http"]
	return nil
}

// KillControl ends the control plane with SIGKILL.
func (s *Stage) KillControl() { s.control.Kill() }

// Agent is one agent process and where it listens.
type Agent struct {
	*Proc
	Region string
	GRPC   string
	HTTP   string
}

// StartAgent starts an agent in a region. Empty addresses mean free ports.
func (s *Stage) StartAgent(ctx context.Context, region, grpcAddr, httpAddr string) (*Agent, error) {
	args := append([]string{"agent", "--region", region, "--name", "agent-" + region,
		"--trusted-proxy", "127.0.0.1", "--trusted-proxy", "::1", // a proxy to play with is on this machine
		"--control-plane", s.controlGRPC, "--grpc", cmp.Or(grpcAddr, freePort), "--http", cmp.Or(httpAddr, freePort)}, s.profiles()...)
	p, err := Spawn(s.binary, "agent "+region, nil, s.childLog(), args...)
	if err != nil {
		return nil, err
	}
	s.agents = append(s.agents, p)
	addresses, err := s.ready(ctx, p)
	if err != nil {
		return nil, err
	}
	return &Agent{Proc: p, Region: region, GRPC: addresses["grpc"], HTTP: addresses["http"]}, nil
}

func (s *Stage) profiles() []string {
	if s.cfg.Profiles {
		return []string{"--pprof"}
	}
	return nil
}

func (s *Stage) childLog() func(string) {
	if s.cfg.Verbose {
		return s.cfg.Log
	}
	return nil
}

func (s *Stage) ready(ctx context.Context, p *Proc) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return p.Ready(ctx)
}

// StopAgents stops every agent gracefully, all at a time: they report and return everything.
func (s *Stage) StopAgents() {
	var wg sync.WaitGroup
	for _, p := range s.agents {
		wg.Go(func() { p.Stop(stopPatience) })
	}
	wg.Wait()
	s.agents = nil
}

// Close stops what was started, in the order in which units find their way home: agents, the
// control plane, Postgres. Without a control plane there is no way home, and no reason to
// wait for the agents.
func (s *Stage) Close() error {
	if s.control == nil || s.control.Ended() {
		for _, p := range s.agents {
			p.Kill()
		}
	}
	s.StopAgents()
	if s.control != nil {
		s.control.Stop(stopPatience)
	}
	if s.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	if err := s.server.Stop(ctx); err != nil {
		return fmt.Errorf("stop the private Postgres: %w", err)
	}
	return nil
}

// Dial connects to the control plane, waiting for it as calls need.
func (s *Stage) Dial() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(s.controlGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		return nil, fmt.Errorf("connect to the control plane: %w", err)
	}
	return conn, nil
}

// DatabaseDone is closed if the private server ends by itself; nil, and so never, for a
// database that was given.
func (s *Stage) DatabaseDone() <-chan struct{} {
	if s.server == nil {
		return nil
	}
	return s.server.Done()
}

// DatabaseErr says why the private server ended, once DatabaseDone is closed.
func (s *Stage) DatabaseErr() error { return s.server.Err() }
