package policy

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

func newLog() *MemoryLog { return NewMemoryLog(func() time.Time { return today }) }

func mustApply(t *testing.T, log Log, doc *Document, source Source) (int64, bool) {
	t.Helper()
	version, changed, err := Apply(t.Context(), log, doc, source, "ann", "because")
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return version, changed
}

func TestApplySameMeaning(t *testing.T) {
	t.Parallel()
	log := newLog()
	if _, err := log.Head(t.Context()); !errors.Is(err, ErrNoPolicy) {
		t.Fatalf("head of an empty log: %v", err)
	}
	a := mustParse(t, goodYAML)
	if v, changed := mustApply(t, log, a, SourceCLI); v != 1 || !changed {
		t.Errorf("first: version %d, changed %v", v, changed)
	}
	same := mustParse(t, goodYAML+"# a comment\n")
	for _, source := range []Source{SourceCLI, SourceDir} {
		if v, changed := mustApply(t, log, same, source); v != 1 || changed {
			t.Errorf("same meaning from %s: version %d, changed %v", source, v, changed)
		}
	}
	head, err := log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Record{Version: 1, Text: a.Text(), Sum: a.Sum(), Source: SourceCLI, Who: "ann", Why: "because", Overrides: []CommandOverride{}, At: today}
	if !reflect.DeepEqual(head, want) {
		t.Errorf("head %+v, want %+v", head, want)
	}
}

func TestRollbackAppendsTheOldText(t *testing.T) {
	t.Parallel()
	log := newLog()
	// The override of the first version has expired by the time of the rollback.
	first, err := Parse([]File{{Name: "p.yaml", Text: []byte(strings.Replace(goodYAML, "2027-01-31", "2026-01-31", 1))}}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	mustApply(t, log, first, SourceCLI)
	mustApply(t, log, mustParse(t, goodYAML), SourceCLI)
	v, changed, err := Rollback(t.Context(), log, 1, today, "bob", "the deal is off")
	if err != nil || v != 3 || !changed {
		t.Fatalf("rollback: version %d, changed %v, %v", v, changed, err)
	}
	records, err := log.History(t.Context(), 10)
	if err != nil || len(records) != 3 {
		t.Fatalf("history: %d records, %v", len(records), err)
	}
	if r := records[0]; r.Text != first.Text() || r.Sum != first.Sum() || r.Source != SourceRollback || r.Who != "bob" || r.Why != "the deal is off" {
		t.Errorf("newest record %+v", r)
	}
	if v, changed, err = Rollback(t.Context(), log, 3, today, "bob", "again"); err != nil || v != 3 || changed {
		t.Errorf("rollback to what holds: version %d, changed %v, %v", v, changed, err)
	}
	if _, _, err = Rollback(t.Context(), log, 9, today, "bob", "typo"); !errors.Is(err, ErrNoVersion) {
		t.Errorf("rollback to no version: %v", err)
	}
}

func TestRestartKeepsRollback(t *testing.T) {
	t.Parallel()
	log := newLog()
	a, b := mustParse(t, goodYAML), mustParse(t, strings.Replace(goodYAML, "50000", "40000", 1))
	mustApply(t, log, a, SourceDir)
	mustApply(t, log, b, SourceDir)
	if _, _, err := Rollback(t.Context(), log, 1, today, "bob", "too low"); err != nil {
		t.Fatal(err)
	}
	for range firstPage { // the directory's version moves far back in the history
		mustApply(t, log, mustParse(t, dimensionWith()), SourceCLI)
		mustApply(t, log, a, SourceCLI)
	}
	head, _ := log.Head(t.Context())
	if v, changed := mustApply(t, log, b, SourceDir); v != head.Version || changed {
		t.Errorf("a restart with the old directory: version %d, changed %v", v, changed)
	}
	c := mustParse(t, strings.Replace(goodYAML, "50000", "45000", 1))
	if v, changed := mustApply(t, log, c, SourceDir); v != head.Version+1 || !changed {
		t.Errorf("a changed directory: version %d, changed %v", v, changed)
	}
}

// racedLog lets someone else be faster a number of times.
type racedLog struct {
	*MemoryLog
	races int
	rival *Document
}

func (l *racedLog) Append(ctx context.Context, after int64, r Record) (int64, error) {
	if l.races > 0 {
		l.races--
		rival := Record{Text: l.rival.Text(), Sum: l.rival.Sum(), Source: SourceDir, Who: "rival", Why: "raced"}
		if _, err := l.MemoryLog.Append(ctx, after, rival); err != nil {
			return 0, err
		}
	}
	return l.MemoryLog.Append(ctx, after, r)
}

func TestTwoReplicasApplyOneChangeOnce(t *testing.T) {
	t.Parallel()
	doc := mustParse(t, goodYAML)
	log := &racedLog{MemoryLog: newLog(), races: 1, rival: doc}
	if v, changed := mustApply(t, log, doc, SourceDir); v != 1 || changed {
		t.Errorf("the slower replica: version %d, changed %v; want the rival's 1", v, changed)
	}
}

func TestOvertakenOperatorIsTold(t *testing.T) {
	t.Parallel()
	log := &racedLog{MemoryLog: newLog(), races: 1, rival: mustParse(t, dimensionWith())}
	_, changed, err := Apply(t.Context(), log, mustParse(t, goodYAML), SourceCLI, "ann", "because")
	if !errors.Is(err, ErrConflict) || changed {
		t.Errorf("changed %v, %v; want a conflict", changed, err)
	}
	if head, _ := log.Head(t.Context()); head.Version != 1 || head.Who != "rival" {
		t.Errorf("head %+v, want the rival's alone", head)
	}
}

func TestEveryChangeHasAnAuthorAndAReason(t *testing.T) {
	t.Parallel()
	log, doc := newLog(), mustParse(t, goodYAML)
	for _, tc := range []struct{ who, why, field string }{
		{"", "because", "who"}, {" ", "because", "who"}, {"ann", "", "why"}, {"ann\x00", "because", "who"}, {"ann", strings.Repeat("x", 1025), "why"},
	} {
		var field *quota.FieldError
		if _, _, err := Apply(t.Context(), log, doc, SourceCLI, tc.who, tc.why); !errors.As(err, &field) || field.Field != tc.field {
			t.Errorf("apply by %q because %.10q: %v, want field %s", tc.who, tc.why, err, tc.field)
		}
		if _, _, err := Rollback(t.Context(), log, 1, today, tc.who, tc.why); !errors.As(err, &field) || field.Field != tc.field {
			t.Errorf("rollback by %q because %.10q: %v, want field %s", tc.who, tc.why, err, tc.field)
		}
	}
	if _, err := log.Head(t.Context()); !errors.Is(err, ErrNoPolicy) {
		t.Errorf("something was applied: %v", err)
	}
}
