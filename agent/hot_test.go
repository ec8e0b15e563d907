package agent

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// used makes a key hot: ten units, over a second.
func used(t *testing.T, a *Agent, tenants ...string) {
	t.Helper()
	for range 10 {
		for _, tenant := range tenants {
			if d, err := a.Take(t.Context(), tenant, "report_export", 1); err != nil || !d.Allowed {
				t.Fatal(tenant, d, err)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestHotKeysOutliveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keep := func(c *Config) { c.StateDir = dir }
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		a, stop := start(t, up, keep)
		if time.Sleep(10 * time.Millisecond); a.Ready() != nil {
			t.Error("a first start has nothing to wait for:", a.Ready())
		}
		used(t, a, "acme", "globex")
		stop()
		for range 2 { // that nobody calls the second time is no news
			b, stopB := start(t, up, keep)
			if err := b.Ready(); err == nil || !strings.Contains(err.Error(), "2 keys that were hot") {
				t.Error("ready before its leases have come:", err)
			}
			synctest.Wait()
			time.Sleep(up.rtt)
			synctest.Wait()
			if err := b.Ready(); err != nil {
				t.Error("after one round trip:", err)
			}
			for _, tenant := range []string{"acme", "globex"} {
				if known, ok := b.Known(takeOf(tenant, "report_export", 0)); !ok || known.Remaining == 0 {
					t.Errorf("%s: nothing is in hand: %+v", tenant, known)
				}
			}
			stopB()
		}
		if n := up.confirmed(); n != 20 {
			t.Errorf("%d units are settled, callers used 20", n)
		}
	})
	info, err := os.Stat(hotFile.in(dir))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
}

func TestAnAgentThatIsKilledLeavesTheHotKeysOfAMinuteAgo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a, stop := start(t, newFakeUplink(), func(c *Config) { c.StateDir = dir })
		for range 61 {
			used(t, a, "acme")
		}
		h := &keptHot{dir: dir, maxAge: time.Hour, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
		if got := h.load(time.Now()); !slices.Equal(got, []quota.Key{{Tenant: "acme", Dimension: "report_export"}}) {
			t.Errorf("while it runs, %v are on disk", got)
		}
		stop()
	})
}

func TestAnOutageKeepsNoReplacementFromBeingReady(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeUplink()
		keep := func(c *Config) { c.StateDir = dir }
		a, stop := start(t, up, keep)
		used(t, a, "acme")
		stop()
		up.cut(true)
		b, stopB := start(t, up, keep)
		if time.Sleep(4900 * time.Millisecond); b.Ready() == nil {
			t.Error("contact may still come")
		}
		if time.Sleep(100 * time.Millisecond); b.Ready() != nil {
			t.Error("it is waited for too long:", b.Ready())
		}
		stopB()
	})
}

func TestHotKeysThatCannotBeBelievedAreIgnored(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	list := func(n int) []byte {
		keys := make([]quota.Key, n)
		for i := range keys {
			keys[i] = quota.Key{Tenant: fmt.Sprint("t", i), Dimension: "jobs@5/MINUTE"}
		}
		body, err := writeHot(keys)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	seal := func(body []byte) []byte { return hotFile.seal(now.Add(-time.Hour), body) }
	flipped := seal(list(2))
	flipped[len(flipped)-3] ^= 1
	for _, tc := range []struct {
		name   string
		text   []byte
		at     time.Time
		keys   int
		ignore string
	}{
		{"fresh", seal(list(2)), now, 2, ""},
		{"as many as are kept", seal(list(maxHot)), now, maxHot, ""},
		{"too many", seal(list(maxHot + 1)), now, 0, "too many"},
		{"too large", slices.Concat(seal(list(1)), make([]byte, hotFile.most)), now, 0, "bytes"},
		{"too old", seal(list(2)), now.Add(24 * time.Hour), 0, "2026-11-29T11:00:00Z"},
		{"a flipped bit", flipped, now, 0, "checksum"},
		{"cut off", flipped[:20], now, 0, "first line"},
		{"empty", nil, now, 0, "first line"},
		{"the terms", termsFile.seal(now, nil), now, 0, "first line"},
		{"not a list", seal([]byte("{}")), now, 0, "read the hot keys"},
		{"no tenant", seal([]byte(`[{"dimension":"jobs"}]`)), now, 0, "tenant"},
		{"no dimension", seal([]byte(`[{"tenant":"acme","dimension":"a b"}]`)), now, 0, "dimension"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			h := &keptHot{dir: t.TempDir(), maxAge: termsMaxAge, log: slog.New(slog.NewTextHandler(&log, nil))}
			if err := os.WriteFile(hotFile.in(h.dir), tc.text, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := h.load(tc.at); len(got) != tc.keys || !strings.Contains(log.String(), tc.ignore) || (log.Len() > 0) != (tc.ignore != "") {
				t.Errorf("got %d keys, log %q", len(got), log.String())
			}
		})
	}
}

func FuzzReadHot(f *testing.F) {
	f.Add([]byte(`[{"tenant":"acme","dimension":"jobs"}]`))
	f.Add([]byte(`[{"tenant":"a\u0000"}]`))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		keys, err := readHot(body)
		if err != nil {
			return
		}
		for _, k := range keys {
			if k.Validate() != nil {
				t.Errorf("%v is no key", k)
			}
		}
		again, err := writeHot(keys)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(hotFile.seal(time.Unix(0, 0), again))) > hotFile.most {
			t.Errorf("%d bytes, which would not be read", len(again))
		}
		if same, err := readHot(again); err != nil || !slices.Equal(same, keys) {
			t.Errorf("written again it reads as %v, %v", same, err)
		}
	})
}
