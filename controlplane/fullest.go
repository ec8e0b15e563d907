package controlplane

import (
	"cmp"
	"context"
	"math/bits"
	"slices"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// fullness is how much of a limit is charged: settled, outstanding or held.
type fullness struct {
	account ledger.Account
	charged quota.Units
	limit   quota.Units
}

// fullnessOf reports false where there is no such share: without a limit, and for rates, whose
// limit is not used up.
func fullnessOf(a ledger.Account) (fullness, bool) {
	q := a.InForce()
	if q.Unlimited || a.Kind == quota.RateLimit {
		return fullness{}, false
	}
	return fullness{a, a.Settled() + a.Outstanding + a.Held, q.Units}, true
}

// above is exact: a whole number is above a share exactly if it is above the share rounded down.
func (f fullness) above(share policy.Percent) bool { return f.charged > share.Of(f.limit) }

// fullerFirst orders by charged/limit, without rounding; what is charged to a limit of 0 is
// fullest of all.
func fullerFirst(x, y fullness) int {
	xHi, xLo := bits.Mul64(uint64(max(x.charged, 0)), uint64(y.limit))
	yHi, yLo := bits.Mul64(uint64(max(y.charged, 0)), uint64(x.limit))
	return cmp.Or(cmp.Compare(yHi, xHi), cmp.Compare(yLo, xLo), ledger.CompareAccounts(x.account.ID, y.account.ID))
}

// fullest lists the accounts of which more than a share of the limit is charged, fullest first.
// It keeps no more than it needs of what it reads.
func (c *ControlPlane) fullest(ctx context.Context, q ledger.AccountQuery, share policy.Percent, limit int) ([]*pb.Usage, error) {
	if share < 0 || share > wholeShare {
		return nil, invalid("over", "0 to %d, in millionths of a percent", int64(wholeShare))
	}
	var top []fullness
	trim := func() {
		slices.SortFunc(top, fullerFirst)
		top = top[:min(len(top), limit)]
	}
	err := c.accounts(ctx, q, func(a ledger.Account) bool {
		if f, ok := fullnessOf(a); ok && f.above(share) {
			top = append(top, f)
		}
		if len(top) >= 2*limit+adminPage {
			trim()
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	trim()
	now := c.desk.Now()
	var usage []*pb.Usage
	for _, f := range top {
		usage = append(usage, usageMessage(f.account, now))
	}
	return usage, nil
}

// wholeShare is 100 %.
const wholeShare policy.Percent = 100_000_000
