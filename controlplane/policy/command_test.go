package policy

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

func exception(edit func(*CommandOverride)) CommandOverride {
	c := CommandOverride{Dimension: "report_export", Tenant: "globex", Limit: "90000", Owner: "sales-ops", Reason: "Q4 deal",
		Expires: "2027-01-31", Who: "ann"}
	if edit != nil {
		edit(&c)
	}
	return c
}

// goodLog is a log with one version.
func goodLog(t *testing.T, text string) *MemoryLog {
	t.Helper()
	log := newLog()
	mustApply(t, log, mustParse(t, text), SourceCLI)
	return log
}

func mustAdd(t *testing.T, log Log, c CommandOverride, at time.Time) Applied {
	t.Helper()
	applied, err := AddOverride(t.Context(), log, c, at)
	if err != nil {
		t.Fatalf("add: %v", err)
	}
	return applied
}

// head is the newest version and what it means.
func head(t *testing.T, log Log) (Record, *Snapshot) {
	t.Helper()
	r, err := log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := r.Document()
	if err != nil {
		t.Fatal(err)
	}
	return r, doc.Snapshot(r.Version)
}

// TestR2_11ExceptionsHaveAnOwnerAndAnEnd holds commands to what files must say.
func TestR2_11ExceptionsHaveAnOwnerAndAnEnd(t *testing.T) {
	t.Parallel()
	log := goodLog(t, goodYAML)
	for _, tc := range []struct {
		edit func(*CommandOverride)
		want string
	}{
		{func(c *CommandOverride) { c.Owner = "" }, "override of globex in report_export: owner: is missing; allowed: who answers for it"},
		{func(c *CommandOverride) { c.Reason = "" }, "reason: 1 to 1024 bytes"},
		{func(c *CommandOverride) { c.Who = "" }, "who: 1 to 256 bytes"},
		{func(c *CommandOverride) { c.Expires = "" }, "override of globex in report_export: expires: is missing; allowed: a date such as 2027-01-31"},
		{func(c *CommandOverride) { c.Expires = "never" }, `override of globex in report_export: expires: "never" is not a date`},
		{func(c *CommandOverride) { c.Expires = "2026-11-29" }, "override of globex in report_export: expires: 2026-11-29 has passed: the override expired; allowed: a date or time after 2026-11-29T21:00:00+09:00"},
		{func(c *CommandOverride) { c.Limit = "" }, "override of globex in report_export: limit: is missing; allowed: a whole number of 0 or more, or the word unlimited"},
		{func(c *CommandOverride) { c.Limit = "many" }, `override of globex in report_export: limit: "many" is text; allowed: a whole number`},
		{func(c *CommandOverride) { c.Limit = "100/s" }, `override of globex in report_export: limit: "100/s" is text`},
		{func(c *CommandOverride) { c.Limit = "9223372036854775807" }, "override of globex in report_export: limit: 9223372036854775807 and its overshoot of"},
		{func(c *CommandOverride) { c.Burst = "5" }, "override of globex in report_export: burst: has no meaning with kind period; allowed: only with kind rate"},
		{func(c *CommandOverride) { c.Dimension = "report_exprot" }, `override of globex in report_exprot: dimension: dimension "report_exprot" is not defined; near: report_export; allowed: a dimension of the policy`},
		{func(c *CommandOverride) { c.Tenant = "" }, `override of "" in report_export: tenant: is missing`},
		{func(c *CommandOverride) { c.Limit, c.Owner = "-5", "" }, "limit: -5 is below zero; allowed: a whole number of 0 or more, or the word unlimited\noverride of globex in report_export: owner: is missing"},
	} {
		_, err := AddOverride(t.Context(), log, exception(tc.edit), today)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want %s", err, tc.want)
		}
	}
	if r, _ := head(t, log); r.Version != 1 {
		t.Errorf("a bad override made version %d", r.Version)
	}
	closed := goodLog(t, strings.Replace(goodYAML, "allow", "deny", 1))
	_, err := AddOverride(t.Context(), closed, exception(func(c *CommandOverride) { c.Tenant = "initech" }), today)
	if want := "override of initech in report_export: tenant: has no entry, and unlisted_tenants is deny; allowed: a tenant of the tenants list"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestOverrideByCommandIsAVersion(t *testing.T) {
	t.Parallel()
	log := goodLog(t, goodYAML)
	first, _ := head(t, log)
	applied := mustAdd(t, log, exception(nil), today)
	want := `overrides.report_export.globex: added (limit 90000, owner "sales-ops", reason "Q4 deal", expires 2027-01-30T15:00:00Z)`
	if !applied.Changed || applied.Version != 2 || len(applied.Changes) != 1 || applied.Changes[0].String() != want {
		t.Errorf("added %+v, want %s", applied, want)
	}
	r, s := head(t, log)
	if r.Text != first.Text || r.Sum != first.Sum || r.Source != SourceOverride || r.Who != "ann" || r.Why != "Q4 deal" {
		t.Errorf("record %+v: want the same files, and who and why of the command", r)
	}
	terms, m := resolve(t, s, "globex", "report_export", today)
	if terms.Limit != quota.LimitOf(90_000) || m.Rule != RuleOverride || m.Override.Command.Who != "ann" || !m.Override.Command.At.Equal(today) {
		t.Errorf("limit %v by %+v", terms.Limit, m)
	}
	if applied := mustAdd(t, log, exception(func(c *CommandOverride) { c.Who = "bob" }), today.Add(time.Hour)); applied.Changed || applied.Version != 2 {
		t.Errorf("the same again: %+v", applied)
	}
	applied = mustAdd(t, log, exception(func(c *CommandOverride) { c.Limit = "95000" }), today)
	if !applied.Changed || len(applied.Changes) != 1 || applied.Changes[0].String() != "overrides.report_export.globex.limit: 90000 -> 95000" {
		t.Errorf("another limit: %+v", applied)
	}
	if r, _ := head(t, log); len(r.Overrides) != 1 {
		t.Errorf("overrides %+v, want the new one in the place of the old", r.Overrides)
	}
}

func TestOverrideByCommandIsStrongerThanAFile(t *testing.T) {
	t.Parallel()
	log := goodLog(t, goodYAML)
	mustAdd(t, log, exception(func(c *CommandOverride) { c.Tenant, c.Expires = "acme", "2026-12-01" }), today)
	_, s := head(t, log)
	dim, _ := s.Dimension("report_export")
	key := quota.Key{Tenant: "acme", Dimension: "report_export"}
	after := dim.Moment(time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC))
	for at, limit := range map[time.Time]quota.Units{today: 90_000, after: 80_000} {
		if terms, m := resolve(t, s, "acme", "report_export", at); terms.Limit != quota.LimitOf(limit) || m.Lapsed {
			t.Errorf("at %s: limit %v, %+v; want %d", at, terms.Limit, m, limit)
		}
	}
	for at, want := range map[time.Time][]string{
		today: {"limit: 90000 exports, decided by the override of sales-ops until 2026-12-01 (Q4 deal), made by command by ann",
			"not used: the override of sales-ops to 80000 in the policy files: one made by command takes its place"},
		after: {"limit: 80000 exports, decided by the override of sales-ops until 2027-01-31 (Q4 deal)",
			"not used: the override of sales-ops to 90000, made by command by ann: it expired at 2026-12-01T00:00:00+09:00, before this window began"},
	} {
		lines, err := s.Explain(key, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range want {
			if !slices.Contains(lines, line) {
				t.Errorf("no line %q in\n%s", line, strings.Join(lines, "\n"))
			}
		}
	}
	_, err := RemoveOverride(t.Context(), goodLog(t, goodYAML), key, today, "bob", "over")
	if want := "override of acme in report_export: no such override by command; the policy files have one, change them"; !errors.Is(err, ErrNoOverride) || err.Error() != want {
		t.Errorf("remove of a file's: %v, want %s", err, want)
	}
}

func TestFilesKeepOverridesByCommand(t *testing.T) {
	t.Parallel()
	log := goodLog(t, goodYAML)
	mustAdd(t, log, exception(nil), today)
	mustAdd(t, log, exception(func(c *CommandOverride) { c.Dimension, c.Limit = "payouts", "7" }), today)
	for _, source := range []Source{SourceCLI, SourceDir} {
		mustApply(t, log, mustParse(t, strings.Replace(goodYAML, "50000", "4000"+string(source[0]-'a'+'0'), 1)), source)
		r, s := head(t, log)
		if terms, _ := resolve(t, s, "globex", "report_export", today); terms.Limit != quota.LimitOf(90_000) || r.Source != source {
			t.Errorf("files from %s: limit %v of version %+v", source, terms.Limit, r)
		}
	}
	// A dimension that is gone takes its overrides along, and says so.
	without := mustParse(t, goodYAML[:strings.Index(goodYAML, "  - name: payouts")])
	before, _ := head(t, log)
	kept := without.Keeping(before.Overrides, today)
	if want := `override of globex in payouts: dimension: dimension "payouts" is not defined: the override, made by command, is dropped`; kept.Warnings[len(kept.Warnings)-1].Error() != want {
		t.Errorf("warnings %v, want %s", kept.Warnings, want)
	}
	mustApply(t, log, without, SourceCLI)
	if r, _ := head(t, log); len(r.Overrides) != 1 || r.Overrides[0].Dimension != "report_export" {
		t.Errorf("overrides %+v", r.Overrides)
	}
	if old, err := log.Get(t.Context(), before.Version); err != nil || !reflect.DeepEqual(old.Overrides, before.Overrides) || len(old.Overrides) != 2 {
		t.Errorf("the history changed: %+v, %v", old.Overrides, err)
	}
	if _, _, err := Rollback(t.Context(), log, before.Version, today, "bob", "too early"); err != nil {
		t.Fatal(err)
	}
	if r, _ := head(t, log); !reflect.DeepEqual(r.Overrides, before.Overrides) {
		t.Errorf("overrides after the rollback %+v", r.Overrides)
	}
}

func TestExpiredOverridesStayInHistoryOnly(t *testing.T) {
	t.Parallel()
	log := goodLog(t, goodYAML)
	mustAdd(t, log, exception(nil), today)
	later := time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)
	applied := mustAdd(t, log, exception(func(c *CommandOverride) { c.Tenant, c.Expires = "initech", "2027-03-01" }), later)
	if len(applied.Changes) != 1 {
		t.Errorf("changes %v, want the new one alone", applied.Changes)
	}
	if r, _ := head(t, log); len(r.Overrides) != 1 || r.Overrides[0].Tenant != "initech" {
		t.Errorf("overrides %+v, want the one that has not expired", r.Overrides)
	}
	doc, err := Parse([]File{{Name: "p.yaml", Text: []byte(dimensionWith())}}, later)
	if err != nil {
		t.Fatal(err)
	}
	mustApply(t, log, doc, SourceCLI)
	if _, changed, err := Rollback(t.Context(), log, 2, later, "bob", "back"); err != nil || !changed {
		t.Fatalf("rollback: %v, %v", changed, err)
	}
	if r, _ := head(t, log); len(r.Overrides) != 0 || r.Text == "" {
		t.Errorf("a rollback brought an expired override back: %+v", r.Overrides)
	}
	if old, err := log.Get(t.Context(), 2); err != nil || len(old.Overrides) != 1 {
		t.Errorf("the history has lost it: %+v, %v", old.Overrides, err)
	}
}

func TestOverridesOfTwoOperatorsBothStay(t *testing.T) {
	t.Parallel()
	log := &racedLog{MemoryLog: newLog(), rival: mustParse(t, strings.Replace(goodYAML, "50000", "60000", 1))}
	mustApply(t, log, mustParse(t, goodYAML), SourceCLI)
	log.races = 2
	applied := mustAdd(t, log, exception(nil), today)
	r, s := head(t, log)
	if applied.Version != 4 || r.Version != 4 {
		t.Errorf("added as %d, newest %d; want 4 after two rivals", applied.Version, r.Version)
	}
	if dim, _ := s.Dimension("report_export"); dim.Limit != quota.LimitOf(60_000) {
		t.Errorf("the rival's files are lost: %v", dim.Limit)
	}
	log.races = applyAttempts
	if _, err := AddOverride(t.Context(), log, exception(func(c *CommandOverride) { c.Limit = "1" }), today); !errors.Is(err, ErrConflict) {
		t.Errorf("always overtaken: %v", err)
	}
}

// TestW6UnlimitedToLimited: a limit that comes where there was none holds at once, in the
// window that is open and from its start.
func TestW6UnlimitedToLimited(t *testing.T) {
	t.Parallel()
	log := goodLog(t, strings.Replace(goodYAML, "tenant: globex", "tenant: globex, plan: enterprise", 1))
	_, s := head(t, log)
	dim, _ := s.Dimension("report_export")
	if terms, _ := resolve(t, s, "globex", "report_export", dim.Moment(today)); terms.Limit != quota.NoLimit {
		t.Fatalf("limit %v, want none", terms.Limit)
	}
	mustAdd(t, log, exception(func(c *CommandOverride) { c.Limit = "500" }), today)
	_, s = head(t, log)
	terms, _ := resolve(t, s, "globex", "report_export", dim.Moment(today))
	if terms.Limit != quota.LimitOf(500) || terms.Budget != quota.LimitOf(400) || terms.PolicyVersion != 2 {
		t.Errorf("terms %+v", terms)
	}
	mustAdd(t, log, exception(func(c *CommandOverride) { c.Limit = "unlimited" }), today)
	_, s = head(t, log)
	if terms, _ := resolve(t, s, "globex", "report_export", dim.Moment(today)); terms.Limit != quota.NoLimit {
		t.Errorf("limit %v, want none again", terms.Limit)
	}
}

func TestOverrideOfARateByCommand(t *testing.T) {
	t.Parallel()
	log := goodLog(t, rateWith("limit: 5/s"))
	c := exception(func(c *CommandOverride) { c.Dimension, c.Limit, c.Burst = "a", "100/s", "250" })
	applied := mustAdd(t, log, c, today)
	if got := applied.Changes[0].String(); !strings.HasPrefix(got, "overrides.a.globex: added (limit 100/s, burst 250, owner") {
		t.Errorf("changes %s", got)
	}
	_, s := head(t, log)
	if terms, _ := resolve(t, s, "globex", "a", today); terms.LimitText() != "100/s with burst 250" {
		t.Errorf("limit %s", terms.LimitText())
	}
}
