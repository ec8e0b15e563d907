package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/ledgertest"
	"github.com/quotalease/quotalease/ledger/quota"
)

func TestMigrateBringsADatabaseUpToDate(t *testing.T) {
	t.Parallel()
	c := console{env: map[string]string{databaseEnv: ledgertest.Empty(t)}}
	r := c.run(t, "ledger", "verify")
	r.expect(t, exitRefused)
	wantText(t, "stderr", r.err, "run quotalease migrate")
	r = c.run(t, "migrate", "status")
	r.expect(t, exitFound)
	wantText(t, "stdout", r.out, "00001_ledger.sql", "missing")
	wantText(t, "stderr", r.err, "run quotalease migrate")
	r = c.run(t, "migrate")
	r.expect(t, exitDone)
	wantText(t, "stdout", r.out, "applied 00001_ledger.sql\n")
	r = c.run(t, "migrate", "up")
	r.expect(t, exitDone)
	if r.out != "" || !strings.HasPrefix(r.err, "nothing to do: the schema is at version ") {
		t.Errorf("stdout %q, stderr %q", r.out, r.err)
	}
	r = c.run(t, "migrate", "status")
	r.expect(t, exitDone)
	if strings.Contains(r.out, "missing") {
		t.Errorf("after migrate:\n%s", r.out)
	}
	r = c.run(t, "migrate", "status", "-o", "json")
	r.expect(t, exitDone)
	wantText(t, "stdout", r.out, `"applied": true`, `"name": "00001_ledger.sql"`)
}

func TestLedgerVerifyFindsWhatIsOff(t *testing.T) {
	t.Parallel()
	dsn := ledgertest.DB(t)
	c := console{env: map[string]string{databaseEnv: dsn}}
	r := c.run(t, "ledger", "verify")
	r.expect(t, exitDone)
	if r.out != "verified 0 accounts, 0 grants: 0 differences\n" || r.err != "" {
		t.Errorf("stdout %q, stderr %q", r.out, r.err)
	}

	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	// Five units are in a lease that nobody recorded.
	const insert = `INSERT INTO account (tenant, dimension, window_start, window_end, kind, class, clock, unit_limit, granted, outstanding)
		VALUES ('acme', 'report_export', '2026-11-28 15:00Z', '2026-11-29 15:00Z', 1, 3, now(), 100, 5, 5)`
	if _, err := conn.Exec(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	r = c.run(t, "ledger", "verify")
	r.expect(t, exitFound)
	wantText(t, "stdout", r.out,
		"account acme/report_export ", ": granted is recorded as 5, recomputed 0\n", ": outstanding is recorded as 5, recomputed 0\n",
		"verified 1 account, 0 grants: 2 differences\n")
	r = c.run(t, "ledger", "verify", "-o", "json")
	r.expect(t, exitFound)
	golden(t, "ledger_verify_json", r.String())
}

func TestPostgresThatDoesNotAnswerIsAnOutage(t *testing.T) {
	t.Parallel()
	c := console{env: map[string]string{databaseEnv: "postgres://u:hunter2@127.0.0.1:1/x?sslmode=disable"}}
	for _, line := range []string{"ledger verify", "migrate", "migrate status"} {
		r := c.run(t, strings.Fields(line)...)
		r.expect(t, exitOutage)
		wantText(t, line, r.err, "Postgres gives no answer", databaseEnv)
		if strings.Contains(r.err, "hunter2") {
			t.Errorf("%s prints the password: %s", line, r.err)
		}
	}
}

func TestSecretsOfConnectionStringsAreHidden(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ dsn, password string }{
		{"postgres://u:hunter2@127.0.0.1:port/x", "hunter2"},
		{"postgres://u:hunter2@[::1/x", "hunter2"},
		{"postgres://u:hunter2%zz@127.0.0.1/x", "hunter2%zz"},
		{"postgres://u:hunter%402@127.0.0.1:port/x", "hunter@2"},
		{"postgres://u:hunter@2@127.0.0.1:port/x", "hunter@2"},
		{"host=127.0.0.1 port=x password=hunter2", "hunter2"},
		{`host=127.0.0.1 port=x password = 'hunter2 and\' more'`, "hunter2 and' more"},
		{"host=127.0.0.1 password=hunter2 sslmode=wrong", "hunter2"},
		{"postgres://127.0.0.1/x?password=hunter%212&sslmode=wrong", "hunter!2"},
		{"hunter2", "hunter2"},
	} {
		for _, line := range []string{"ledger verify", "migrate"} {
			r := console{env: map[string]string{databaseEnv: tt.dsn}}.run(t, strings.Fields(line)...)
			if r.code == exitDone {
				t.Errorf("%s with %s is done", line, tt.dsn)
			}
			if strings.Contains(r.err+r.out, "hunter") {
				t.Errorf("%s with %s prints the secret:\n%s", line, tt.dsn, r.err)
			}
		}
		shown := hide(fmt.Errorf("parse %s: password %s is wrong", tt.dsn, tt.password), tt.dsn).Error()
		if shown != "parse xxxxx: password xxxxx is wrong" {
			t.Errorf("%s: hide leaves %q", tt.dsn, shown)
		}
	}
}

// A driver may quote the whole string or the password in it, in either form.
func TestNoPasswordIsShown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		password := rapid.StringMatching(`[a-wyz0-9@:/?#%&='\\ ]{6,20}`).Draw(t, "password")
		quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password)
		for _, dsn := range []string{
			"postgres://u:" + url.QueryEscape(password) + "@127.0.0.1/x",
			"postgres://u:" + password + "@127.0.0.1/x",
			"postgres://127.0.0.1/x?sslmode=disable&password=" + url.QueryEscape(password),
			"host=127.0.0.1 password='" + quoted + "' dbname=x",
		} {
			shown := hide(fmt.Errorf("read <%s>: <%s>", dsn, password), dsn).Error()
			if strings.Contains(shown, password) || strings.Contains(shown, dsn) {
				t.Fatalf("%s: hide leaves %q", dsn, shown)
			}
		}
	})
}

// slowKeeper takes 300 ms for 500 grants.
type slowKeeper struct {
	ledger.Keeper
	lasts time.Duration
}

func (k slowKeeper) Verify(_ context.Context, found func(ledger.Difference), progress func(accounts, grants int)) (ledger.Verified, error) {
	var v ledger.Verified
	for at := time.Duration(0); at < k.lasts; at += 300 * time.Millisecond {
		time.Sleep(300 * time.Millisecond)
		v.Accounts, v.Grants = v.Accounts+1, v.Grants+500
		progress(v.Accounts, v.Grants)
	}
	account := ledger.AccountID{Key: quota.Key{Tenant: "acme", Dimension: "report_export"}, Window: quota.NewWindow(dayStart, dayEnd)}
	found(ledger.Difference{Account: account, Counter: "held", Recorded: 5, Recomputed: 7})
	v.Differences++
	return v, nil
}

func TestWhatTakesLongIsSeenToGoOn(t *testing.T) {
	t.Parallel()
	for lasts, want := range map[time.Duration]int{time.Second: 0, 4500 * time.Millisecond: 2} {
		synctest.Test(t, func(t *testing.T) {
			var out, said bytes.Buffer
			sh := &shell{out: &out, err: &said, format: formatTable}
			view, err := sh.verify(t.Context(), slowKeeper{lasts: lasts})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(said.String(), "\n"); got != want {
				t.Errorf("%s: %d lines of progress, want %d:\n%s", lasts, got, want, said.String())
			}
			if want > 0 {
				wantText(t, "progress", said.String(), "verify the ledger: 6 accounts, 3,000 grants so far", "verify the ledger: 13 accounts, 6,500 grants so far")
			}
			if view.Count != 1 || !strings.HasSuffix(out.String(), ": held is recorded as 5, recomputed 7\n") {
				t.Errorf("%+v, stdout %q", view, out.String())
			}
		})
	}
}
