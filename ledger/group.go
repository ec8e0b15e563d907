package ledger

import "github.com/quotalease/quotalease/ledger/quota"

// SpendAll decides on several items all or none (3.14); terms are those of each. If all fit,
// each is spent. If not, those that fail by themselves are denied with their reasons, and the
// others, which would have fitted, as cancelled. A repeat gets the same answers. What is wrong
// with one item is an error and decides nothing.
func (b *Book) SpendAll(items []Spend, terms []Terms) ([]Answer, error) {
	if err := b.checkGroup(items); err != nil {
		return nil, err
	}
	reasons := make([]quota.Reason, len(items))
	sums := map[AccountID]Units{}
	fit := true
	for i, s := range items {
		var err error
		if g, ok := b.grants[s.ID]; ok {
			reasons[i] = g.Reason
		} else if reasons[i], err = b.judge(s, terms[i], sums); err != nil {
			return nil, err
		}
		fit = fit && reasons[i] == quota.Allowed
	}
	answers := make([]Answer, len(items))
	for i, s := range items {
		var err error
		switch g, ok := b.grants[s.ID]; {
		case ok:
			answers[i], err = b.repeat(g.Grant, true)
		case !fit && reasons[i] == quota.Allowed:
			answers[i], err = b.enterSpend(s, b.pages[s.Account], quota.Cancelled)
		default:
			answers[i], err = b.enterSpend(s, b.pages[s.Account], reasons[i])
		}
		if err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// checkGroup refuses a group in which an id comes twice, a record has other terms, or one item
// was spent and another is not known: that is no repeat of anything.
func (b *Book) checkGroup(items []Spend) error {
	seen := map[ID]bool{}
	known, spent := 0, ID{}
	for _, s := range items {
		if s.Cost < 1 {
			return refuse(CodeInvalid, s.ID, "cost", "1 or more")
		}
		if seen[s.ID] {
			return refuse(CodeInvalid, s.ID, "spend_id", "a different id for each item of a group")
		}
		seen[s.ID] = true
		g, ok := b.grants[s.ID]
		if !ok {
			continue
		}
		if _, err := b.repeat(g.Grant, s.sameTerms(g.Grant)); err != nil {
			return err
		}
		if known++; g.Amount > 0 {
			spent = s.ID
		}
	}
	if known < len(items) && !spent.IsNil() {
		return refuse(CodeTerms, spent, "group", "the items that the id was first spent with")
	}
	return nil
}

// judge says what keeps an item from being spent behind those of its group that sums has, and
// adds it to them. Nothing that could go wrong in spending it is left to be found out later.
func (b *Book) judge(s Spend, terms Terms, sums map[AccountID]Units) (quota.Reason, error) {
	a, _, err := b.decidable(s.ID, s.Account, terms)
	if err != nil {
		return "", err
	}
	sum, err := sums[a.ID].Add(s.Cost)
	if err != nil {
		return quota.TooLarge, nil
	}
	reason := b.whyNotSpend(s, a, sum)
	if reason != quota.Allowed {
		return reason, nil
	}
	if _, err := a.Tally.plus(Tally{Spent: sum}, 1); err != nil {
		return "", refuse(CodeOverflow, s.ID, "cost", "sums within int64")
	}
	sums[a.ID] = sum
	return quota.Allowed, nil
}
