package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Source says where a version came from.
type Source string

// The sources. They are stored: they never change.
const (
	SourceCLI      Source = "cli"      // an operator applied files
	SourceDir      Source = "dir"      // a replica read its policy directory
	SourceRollback Source = "rollback" // an older version was applied again
)

// Record is one version of the policy as the log keeps it.
type Record struct {
	Version int64
	Text    string // Document.Text
	Sum     string // Document.Sum
	Source  Source
	Who     string
	Why     string
	At      time.Time // by the log's own clock
}

// What a log answers. Use errors.Is.
var (
	ErrNoPolicy  = errors.New("no policy has been applied")
	ErrNoVersion = errors.New("no such policy version")
	ErrConflict  = errors.New("the policy was changed by someone else")
)

// Log keeps every version of the policy, for ever and in one order.
type Log interface {
	// Head returns the newest version, or ErrNoPolicy.
	Head(ctx context.Context) (Record, error)
	// Get returns one version, or ErrNoVersion.
	Get(ctx context.Context, version int64) (Record, error)
	// History returns at most limit versions, newest first. Their Text may be empty.
	History(ctx context.Context, limit int) ([]Record, error)
	// Append stores r as the next version if the newest one is after (0 for none), and
	// returns its number; else it stores nothing and returns ErrConflict. The log sets
	// Version and At.
	Append(ctx context.Context, after int64, r Record) (int64, error)
}

// applyAttempts is how often a replica tries again when another one was faster.
const applyAttempts = 5

// Apply makes a document the newest version, unless that one already means the same.
//
// A directory is applied only when its content differs from what a directory last said.
// Otherwise a replica that starts anew would undo what an operator did since. Two replicas
// that read one change apply it once. An operator who was overtaken gets ErrConflict: the
// difference that was looked at is no longer the one that would be made.
func Apply(ctx context.Context, log Log, doc *Document, source Source, who, why string) (version int64, changed bool, err error) {
	if err := checkAuthor(who, why); err != nil {
		return 0, false, err
	}
	r := Record{Text: doc.Text(), Sum: doc.Sum(), Source: source, Who: who, Why: why}
	for attempt := 1; ; attempt++ {
		version, changed, err = applyOnce(ctx, log, r)
		if source != SourceDir || !errors.Is(err, ErrConflict) || attempt == applyAttempts {
			return version, changed, err
		}
	}
}

func applyOnce(ctx context.Context, log Log, r Record) (int64, bool, error) {
	head, err := log.Head(ctx)
	if err != nil && !errors.Is(err, ErrNoPolicy) {
		return 0, false, fmt.Errorf("read the newest policy: %w", err)
	}
	if err == nil && head.Sum == r.Sum {
		return head.Version, false, nil
	}
	if err == nil && r.Source == SourceDir {
		last, found, err := latest(ctx, log, SourceDir)
		if err != nil {
			return 0, false, err
		}
		if found && last.Sum == r.Sum {
			return head.Version, false, nil
		}
	}
	version, err := log.Append(ctx, head.Version, r)
	if err != nil {
		return 0, false, fmt.Errorf("append policy version after %d: %w", head.Version, err)
	}
	return version, true, nil
}

// firstPage is how far latest looks back at first; most logs have the answer there.
const firstPage = 32

// latest returns the newest version of a source.
func latest(ctx context.Context, log Log, source Source) (Record, bool, error) {
	for limit := firstPage; ; limit *= 8 {
		records, err := log.History(ctx, limit)
		if err != nil {
			return Record{}, false, fmt.Errorf("read the policy history: %w", err)
		}
		for _, r := range records {
			if r.Source == source {
				return r, true, nil
			}
		}
		if len(records) < limit {
			return Record{}, false, nil
		}
	}
}

// Rollback applies an older version again, as a new one: the log only grows. It changes
// nothing if the newest version means the same already.
func Rollback(ctx context.Context, log Log, to int64, who, why string) (version int64, changed bool, err error) {
	if err := checkAuthor(who, why); err != nil {
		return 0, false, err
	}
	old, err := log.Get(ctx, to)
	if err != nil {
		return 0, false, fmt.Errorf("read policy version %d: %w", to, err)
	}
	doc, err := ParseText(old.Text)
	if err != nil {
		return 0, false, fmt.Errorf("read policy version %d: %w", to, err)
	}
	return Apply(ctx, log, doc, SourceRollback, who, why)
}

// checkAuthor holds every change to a name and a reason.
func checkAuthor(who, why string) error {
	if validText(who, maxOwnerBytes) != "" {
		return &quota.FieldError{Field: "who", Allowed: fmt.Sprintf("1 to %d bytes of text without control characters", maxOwnerBytes)}
	}
	if validText(why, maxNoteBytes) != "" {
		return &quota.FieldError{Field: "why", Allowed: fmt.Sprintf("1 to %d bytes of text without control characters", maxNoteBytes)}
	}
	return nil
}
