package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
)

// policies holds the policy snapshot in use. Another replica or an operator may add a version
// at any time: it is polled, and reloaded at once when a transaction finds it out of date.
type policies struct {
	log      policy.Log
	dir      string
	now      func() time.Time
	logger   *slog.Logger
	troubles *changes
	health   *health
	metrics  *metrics
	changed  func(version int64) // a new version is in use

	current atomic.Pointer[policy.Snapshot]
	mu      sync.Mutex // one load at a time
}

// snapshot is the last good one, or nil before the first load.
func (p *policies) snapshot() *policy.Snapshot { return p.current.Load() }

// refresh loads the newest version if it is not the one in use. What cannot be loaded leaves
// the last good one.
func (p *policies) refresh(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.load(ctx)
	p.health.set(partPolicy, err)
	if err != nil || s == nil {
		return err
	}
	p.current.Store(s)
	p.metrics.policyVersion.Set(float64(s.Version))
	p.logger.Info("policy in use", "version", s.Version)
	p.changed(s.Version)
	return nil
}

// load returns nothing if the newest version is the one in use. The history without texts is
// asked first: a policy may be megabytes, and this runs every second.
func (p *policies) load(ctx context.Context) (*policy.Snapshot, error) {
	newest, err := p.log.History(ctx, 1)
	if err != nil {
		return nil, fmt.Errorf("read the newest policy version: %w", err)
	}
	if len(newest) == 0 {
		return nil, policy.ErrNoPolicy
	}
	if s := p.snapshot(); s != nil && s.Version == newest[0].Version {
		return nil, nil
	}
	record, err := p.log.Get(ctx, newest[0].Version)
	if err != nil {
		return nil, fmt.Errorf("read policy version %d: %w", newest[0].Version, err)
	}
	doc, err := record.Document()
	if err != nil {
		return nil, fmt.Errorf("read policy version %d: %w", record.Version, err)
	}
	return doc.Snapshot(record.Version), nil
}

// watchDir applies the content of the policy directory whenever it changes.
func (p *policies) watchDir(ctx context.Context, interval time.Duration) {
	if p.dir == "" {
		return
	}
	// The watcher ends with ctx and has nothing else to tell.
	_ = policy.NewWatcher(p.dir).Run(ctx, interval, p.applyDir)
}

// applyDir takes one reading of the policy directory. A content that is refused for what it
// says stays refused until it changes; what failed on its way to the log is offered again.
func (p *policies) applyDir(ctx context.Context, files []policy.File, err error) error {
	const doing = "apply the policy directory; the last good policy stays"
	if err != nil {
		p.health.setDir(err)
		p.metrics.policyDirOK.Set(0)
		p.troubles.note(doing, err)
		return nil
	}
	doc, err := policy.Parse(files, p.now())
	var faults policy.Faults
	if errors.As(err, &faults) {
		p.health.setDir(faults)
		p.metrics.policyDirOK.Set(0)
		p.troubles.note(doing, faults)
		return nil
	}
	if err == nil {
		_, _, err = policy.Apply(ctx, p.log, doc, policy.SourceDir, "policy directory", "content of "+p.dir)
	}
	if err == nil {
		err = p.refresh(ctx)
	}
	p.troubles.note(doing, err)
	if err != nil {
		return err
	}
	p.health.setDir(nil)
	p.metrics.policyDirOK.Set(1)
	return nil
}

// every calls do at once, at each interval and at each kick, until ctx ends.
func every(ctx context.Context, interval time.Duration, kick <-chan struct{}, do func()) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		case <-kick:
		}
	}
}
