package pglog_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/controlplane/policy/pglog"
	"github.com/quotalease/quotalease/ledger/ledgertest"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

func TestRecordsAreReadBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	log := pglog.New(ledgertest.Pool(t))
	if _, err := log.Head(ctx); !errors.Is(err, policy.ErrNoPolicy) {
		t.Fatalf("an empty log: %v", err)
	}
	if _, err := log.Get(ctx, 1); !errors.Is(err, policy.ErrNoVersion) {
		t.Fatalf("version 1 of an empty log: %v", err)
	}
	for i, text := range []string{"first: 'text'\n", "second\n"} {
		version, err := log.Append(ctx, int64(i), policy.Record{Text: text, Sum: "s", Source: policy.SourceCLI, Who: "ann", Why: "because"})
		if err != nil || version != int64(i+1) {
			t.Fatalf("append %d: version %d, %v", i, version, err)
		}
	}
	head, err := log.Head(ctx)
	if err != nil || head.Version != 2 || head.Text != "second\n" || head.Who != "ann" || head.Why != "because" ||
		head.Source != policy.SourceCLI || head.At.IsZero() {
		t.Fatalf("head: %+v, %v", head, err)
	}
	first, err := log.Get(ctx, 1)
	if err != nil || first.Text != "first: 'text'\n" {
		t.Fatalf("version 1: %+v, %v", first, err)
	}
	history, err := log.History(ctx, 10)
	if err != nil || len(history) != 2 || history[0].Version != 2 || history[1].Version != 1 {
		t.Fatalf("history: %+v, %v", history, err)
	}
}

func TestAppendIsOneAtATime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	log := pglog.New(ledgertest.Pool(t))
	var wg sync.WaitGroup
	var won, refused atomic.Int64
	for range 8 {
		wg.Go(func() {
			switch _, err := log.Append(ctx, 0, policy.Record{Text: "t", Source: policy.SourceCLI}); {
			case err == nil:
				won.Add(1)
			case errors.Is(err, policy.ErrConflict):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	history, err := log.History(ctx, 10)
	if won.Load() != 1 || refused.Load() != 7 || len(history) != 1 || err != nil {
		t.Errorf("%d won, %d refused, %d versions, %v", won.Load(), refused.Load(), len(history), err)
	}
}
