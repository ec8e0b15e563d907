package policy

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// MemoryLog is a Log for tests and simulation.
type MemoryLog struct {
	now func() time.Time

	mu      sync.Mutex // guards records
	records []Record   // version n at n-1
}

var _ Log = (*MemoryLog)(nil)

// NewMemoryLog returns an empty log that stamps its versions with now.
func NewMemoryLog(now func() time.Time) *MemoryLog { return &MemoryLog{now: now} }

// Head implements Log.
func (l *MemoryLog) Head(context.Context) (Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.records) == 0 {
		return Record{}, ErrNoPolicy
	}
	return l.records[len(l.records)-1], nil
}

// Get implements Log.
func (l *MemoryLog) Get(_ context.Context, version int64) (Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version < 1 || version > int64(len(l.records)) {
		return Record{}, ErrNoVersion
	}
	return l.records[version-1], nil
}

// History implements Log.
func (l *MemoryLog) History(_ context.Context, limit int) ([]Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.records)
	newest := slices.Clone(l.records[n-min(max(limit, 0), n):])
	slices.Reverse(newest)
	return newest, nil
}

// Append implements Log.
func (l *MemoryLog) Append(_ context.Context, after int64, r Record) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after != int64(len(l.records)) {
		return 0, ErrConflict
	}
	r.Version, r.At, r.Overrides = after+1, quota.At(l.now()), slices.Clone(r.Overrides)
	l.records = append(l.records, r)
	return r.Version, nil
}
