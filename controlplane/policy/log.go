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
	SourceOverride Source = "override" // an operator changed an override by command
)

// Record is one version of the policy as the log keeps it.
type Record struct {
	Version   int64
	Text      string            // Document.Text
	Sum       string            // Document.Sum
	Overrides []CommandOverride // made by command; they are not in Text and Sum
	Source    Source
	Who       string
	Why       string
	At        time.Time // by the log's own clock
}

// Document reads what the version means. Overrides that have expired since are accepted.
func (r Record) Document() (*Document, error) {
	doc, err := ParseText(r.Text)
	if err != nil || len(r.Overrides) == 0 {
		return doc, err
	}
	return doc.with(r.Overrides)
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
	// History returns at most limit versions, newest first. Their Text and
	// Overrides may be empty.
	History(ctx context.Context, limit int) ([]Record, error)
	// Append stores r as the next version if the newest one is after (0 for none), and
	// returns its number; else it stores nothing and returns ErrConflict. The log sets
	// Version and At.
	Append(ctx context.Context, after int64, r Record) (int64, error)
}

// applyAttempts is how often a replica tries again when another one was faster.
const applyAttempts = 5

// Apply makes a document the newest version, unless that one already means the same. The
// overrides that were made by command stay, except those that had expired when the document
// was checked and those that do not fit it (Document.Keeping).
//
// A directory is applied only when its content differs from what a directory last said.
// Otherwise a replica that starts anew would undo what an operator did since. Two replicas
// that read one change apply it once. An operator who was overtaken gets ErrConflict: the
// difference that was looked at is no longer the one that would be made.
func Apply(ctx context.Context, log Log, doc *Document, source Source, who, why string) (version int64, changed bool, err error) {
	if err := checkAuthor(who, why); err != nil {
		return 0, false, err
	}
	for attempt := 1; ; attempt++ {
		version, changed, err = applyOnce(ctx, log, doc, source, who, why)
		if source != SourceDir || !errors.Is(err, ErrConflict) || attempt == applyAttempts {
			return version, changed, err
		}
	}
}

func applyOnce(ctx context.Context, log Log, doc *Document, source Source, who, why string) (int64, bool, error) {
	head, err := log.Head(ctx)
	if err != nil && !errors.Is(err, ErrNoPolicy) {
		return 0, false, fmt.Errorf("read the newest policy: %w", err)
	}
	sum := doc.Sum()
	if err == nil && head.Sum == sum {
		return head.Version, false, nil
	}
	if err == nil && source == SourceDir {
		last, found, err := latest(ctx, log, SourceDir)
		if err != nil {
			return 0, false, err
		}
		if found && last.Sum == sum {
			return head.Version, false, nil
		}
	}
	kept := doc.Keeping(head.Overrides, doc.checked).CommandOverrides()
	return appendAfter(ctx, log, head, Record{Text: doc.Text(), Sum: sum, Overrides: kept, Source: source, Who: who, Why: why})
}

func appendAfter(ctx context.Context, log Log, head, next Record) (int64, bool, error) {
	version, err := log.Append(ctx, head.Version, next)
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

// Rollback applies an older version again, as a new one: the log only grows. Its files come
// back and so do the overrides that were made by command then, except those that have expired
// at now. It changes nothing if the newest version means the same already.
func Rollback(ctx context.Context, log Log, to int64, now time.Time, who, why string) (version int64, changed bool, err error) {
	if err := checkAuthor(who, why); err != nil {
		return 0, false, err
	}
	old, err := log.Get(ctx, to)
	if err != nil {
		return 0, false, fmt.Errorf("read policy version %d: %w", to, err)
	}
	head, err := log.Head(ctx)
	if err != nil {
		return 0, false, fmt.Errorf("read the newest policy: %w", err)
	}
	doc, err := old.Document()
	if err != nil {
		return 0, false, fmt.Errorf("read policy version %d: %w", to, err)
	}
	doc = doc.Keeping(old.Overrides, now)
	if head.Sum == old.Sum && len(Diff(doc.Keeping(head.Overrides, now), doc)) == 0 {
		return head.Version, false, nil
	}
	return appendAfter(ctx, log, head, Record{Text: old.Text, Sum: old.Sum, Overrides: doc.CommandOverrides(),
		Source: SourceRollback, Who: who, Why: why})
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
