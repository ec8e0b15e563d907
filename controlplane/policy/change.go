package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// ErrNoOverride reports that no override was made by command for a key. Use errors.Is.
var ErrNoOverride = errors.New("no such override by command")

// Applied is what became of a change.
type Applied struct {
	Version  int64 // the newest one afterwards
	Changed  bool
	Changes  []Change
	Warnings []Fault
}

// AddOverride makes an override by command, as a new version with the same files. It takes
// the place of the one that was made by command for the same tenant and dimension. The error
// is Faults if the override does not fit the policy, or has expired at now.
func AddOverride(ctx context.Context, log Log, c CommandOverride, now time.Time) (Applied, error) {
	if err := checkAuthor(c.Who, c.Reason); err != nil {
		return Applied{}, ownNames(err)
	}
	c.At = quota.At(now)
	return changeOverrides(ctx, log, now, c.Who, c.Reason, func(d *Document) ([]CommandOverride, []Fault, error) {
		_, warnings, faults := newCommandReader(d).read(c, now)
		if len(faults) > 0 {
			return nil, nil, faults
		}
		rest, _ := d.without(c.key())
		if len(rest) >= MaxCommandOverrides {
			return nil, nil, Faults{{File: c.name(), Problem: "too many overrides by command",
				Allowed: fmt.Sprintf("at most %d; larger numbers belong into policy files", MaxCommandOverrides)}}
		}
		return append(rest, c), warnings, nil
	})
}

// ownNames names the reason as an override does.
func ownNames(err error) error {
	var field *quota.FieldError
	if errors.As(err, &field) && field.Field == "why" {
		return &quota.FieldError{Field: "reason", Allowed: field.Allowed}
	}
	return err
}

// RemoveOverride takes back an override that was made by command, as a new version with the
// same files, or returns ErrNoOverride.
func RemoveOverride(ctx context.Context, log Log, key quota.Key, now time.Time, who, why string) (Applied, error) {
	if err := checkAuthor(who, why); err != nil {
		return Applied{}, err
	}
	return changeOverrides(ctx, log, now, who, why, func(d *Document) ([]CommandOverride, []Fault, error) {
		rest, found := d.without(key)
		if found {
			return rest, nil, nil
		}
		where := ""
		if dim, ok := d.Snapshot(0).Dimension(key.Dimension); ok && dim.fileOverride(key.Tenant) != nil {
			where = "; the policy files have one, change them"
		}
		return nil, nil, fmt.Errorf("override of %s in %s: %w%s", segment(shorten(key.Tenant)), segment(shorten(key.Dimension)), ErrNoOverride, where)
	})
}

// changeOverrides appends a version with the same files and other overrides by command. It
// is about one key alone, so it starts over if someone else was faster: what they did stays.
func changeOverrides(ctx context.Context, log Log, now time.Time, who, why string,
	edit func(*Document) ([]CommandOverride, []Fault, error)) (Applied, error) {
	for attempt := 1; ; attempt++ {
		applied, err := changeOverridesOnce(ctx, log, now, who, why, edit)
		if !errors.Is(err, ErrConflict) || attempt == applyAttempts {
			return applied, err
		}
	}
}

func changeOverridesOnce(ctx context.Context, log Log, now time.Time, who, why string,
	edit func(*Document) ([]CommandOverride, []Fault, error)) (Applied, error) {
	head, err := log.Head(ctx)
	if err != nil {
		return Applied{}, fmt.Errorf("read the newest policy: %w", err)
	}
	before, err := head.Document()
	if err != nil {
		return Applied{}, fmt.Errorf("read policy version %d: %w", head.Version, err)
	}
	overrides, warnings, err := edit(before)
	if err != nil {
		return Applied{}, err
	}
	after := before.Keeping(overrides, now)
	before = before.Keeping(head.Overrides, now)
	applied := Applied{Version: head.Version, Changes: Diff(before, after), Warnings: warnings}
	if len(applied.Changes) == 0 { // that one has expired is not this change's doing
		return applied, nil
	}
	r := Record{Text: head.Text, Sum: head.Sum, Overrides: after.CommandOverrides(), Source: SourceOverride, Who: who, Why: why}
	if applied.Version, err = log.Append(ctx, head.Version, r); err != nil {
		return Applied{}, fmt.Errorf("append policy version after %d: %w", head.Version, err)
	}
	applied.Changed = true
	return applied, nil
}
