package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// modes is an uplink whose policy has a dimension of each outage mode.
type modes struct{ *fakeUplink }

func (m modes) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	reply, err := m.fakeUplink.Sync(ctx, req)
	if c := reply.GetCatalogue(); c != nil {
		c.Dimensions = nil
		for name, out := range map[string]*pb.Outage{
			"payments": {Mode: "closed", AfterUs: 100_000},
			"exports":  {Mode: "extend", AfterUs: 100_000, Rate: &pb.Rate{Units: 1, PerUs: 1_000_000}, Budget: 10},
			"reads":    {Mode: "open", AfterUs: 100_000, ForUs: 3_600_000_000},
		} {
			c.Dimensions = append(c.Dimensions, &pb.Dimension{Name: name, Kind: "period", Class: "best_effort", Limit: 1000,
				Period: &pb.Period{Every: "day"}, TtlUs: 10_000_000, LowWatermarkPpm: 200_000, Outage: out, Cold: &pb.Cold{WaitUs: 10_000, Then: "deny"}})
		}
	}
	return reply, err
}

func TestAStartInAnOutageFollowsEachKeysMode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		up := modes{newFakeUplink()}
		a, stop := start(t, up, func(c *Config) { c.StateDir = dir })
		if d, err := a.Take(t.Context(), "acme", "reads", 1); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		stop()
		info, err := os.Stat(termsFile.in(dir))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatal(info, err)
		}
		up.cut(true)
		b, stopB := start(t, up, func(c *Config) { c.StateDir = dir })
		if err := b.Ready(); err != nil {
			t.Error("it knows its policy:", err)
		}
		time.Sleep(time.Second)
		for _, dimension := range []string{"payments", "exports"} {
			var outage *UnavailableError
			if _, err := b.Take(t.Context(), "acme", dimension, 1); !errors.As(err, &outage) {
				t.Errorf("%s: %v, want an outage", dimension, err)
			}
		}
		if d, err := b.Take(t.Context(), "acme", "reads", 1); err != nil || !d.Allowed || d.Reason != quota.OpenMode {
			t.Errorf("free reads go on: %+v, %v", d, err)
		}
		up.cut(false)
		time.Sleep(10 * time.Second)
		if d, err := b.Take(t.Context(), "acme", "payments", 1); err != nil || !d.Allowed {
			t.Errorf("after the outage: %+v, %v", d, err)
		}
		stopB()
	})
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v: want the one file", left, err)
	}
}

func TestTermsThatCannotBeBelievedAreIgnored(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	body, err := proto.Marshal(&pb.Catalogue{PolicyVersion: 3, Operations: []*pb.Operation{{Name: "pay"}}})
	if err != nil {
		t.Fatal(err)
	}
	good := termsFile.seal(now.Add(-time.Hour), body)
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	for _, tc := range []struct {
		name   string
		text   []byte
		at     time.Time
		ignore string // what the log says; empty: they are believed
	}{
		{"fresh", good, now, ""},
		{"a day old", good, now.Add(22 * time.Hour), ""},
		{"too old", good, now.Add(25 * time.Hour), "2026-11-29T11:00:00Z"},
		{"of the future", good, now.Add(-48 * time.Hour), "2026-11-29T11:00:00Z"},
		{"a flipped bit", flipped, now, "checksum"},
		{"cut off", good[:len(good)-3], now, "checksum"},
		{"empty", nil, now, "first line"},
		{"another format", bytes.Replace(good, []byte("terms 1"), []byte("terms 2"), 1), now, "first line"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			k := &keptTerms{dir: t.TempDir(), maxAge: termsMaxAge, log: slog.New(slog.NewTextHandler(&log, nil))}
			if err := os.WriteFile(termsFile.in(k.dir), tc.text, 0o600); err != nil {
				t.Fatal(err)
			}
			got := k.load(tc.at)
			if (got != nil) != (tc.ignore == "") || !strings.Contains(log.String(), tc.ignore) {
				t.Errorf("got %v, log %q", got, log.String())
			}
		})
	}
}

func TestTermsStayFreshWhileThereIsContact(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	k := &keptTerms{dir: t.TempDir(), maxAge: 8 * time.Hour, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	k.keep(now, &pb.Catalogue{PolicyVersion: 1})
	for hour := range 20 {
		k.keep(now.Add(time.Duration(hour)*time.Hour), nil)
	}
	restarted := &keptTerms{dir: k.dir, maxAge: k.maxAge, log: k.log}
	if got := restarted.load(now.Add(26 * time.Hour)); got.GetPolicyVersion() != 1 {
		t.Error("terms that were in force seven hours ago are not believed")
	}
	k.keep(now.Add(20*time.Hour), &pb.Catalogue{PolicyVersion: 2})
	if got := restarted.load(now.Add(20 * time.Hour)); got.GetPolicyVersion() != 2 {
		t.Error("newer terms are written at once")
	}
}

func FuzzReadTerms(f *testing.F) {
	body, err := proto.Marshal(&pb.Catalogue{PolicyVersion: 3, Dimensions: []*pb.Dimension{{Name: "jobs", Kind: "concurrency"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(termsFile.seal(time.Unix(1_800_000_000, 0), body))
	f.Add([]byte("quotalease terms 1 1 00\n"))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		at, body, err := termsFile.unseal(text)
		if err != nil {
			return
		}
		catalogue, err := readTerms(body)
		if err != nil {
			return
		}
		again, err := proto.Marshal(catalogue)
		if err != nil {
			t.Fatal(err)
		}
		at2, body, err := termsFile.unseal(termsFile.seal(at, again))
		if err != nil || !at2.Equal(at) {
			t.Fatal(at2, err)
		}
		if same, err := readTerms(body); err != nil || !proto.Equal(same, catalogue) {
			t.Errorf("written again it reads as %v, %v", same, err)
		}
	})
}
