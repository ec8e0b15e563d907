package ledger_test

import (
	"pgregory.net/rapid"

	"github.com/quotalease/quotalease/ledger"
)

// anyWindow is an account of the history, the present one or one that is over.
func (m *model) anyWindow(rt *rapid.T) ledger.AccountID {
	at := m.account
	if back := rapid.IntRange(0, 1).Draw(rt, "windows back"); back == 1 {
		for id := range m.truths {
			if id.Window.End.Equal(at.Window.Start) {
				return id
			}
		}
	}
	return at
}

// operate carries out what an operator decides, and holds it to the rules of S and generation.
func (m *model) operate(rt *rapid.T, rule func(*ledger.Book, ledger.Adjustment) (ledger.Answer, error)) {
	m.within(m.anyWindow(rt), func() {
		before := m.state()
		_, err := m.adjust(rule, m.newAdjustment(amount(rt, 25)))
		m.must(err)
		m.checkChange(before, 0)
	})
}

func (m *model) doCredit(rt *rapid.T)  { m.operate(rt, (*ledger.Book).Credit) }
func (m *model) doRelease(rt *rapid.T) { m.operate(rt, (*ledger.Book).ReleaseHeld) }

// doClose closes a window if it is over.
func (m *model) doClose(rt *rapid.T) {
	m.within(m.anyWindow(rt), func() { m.closeWindow() })
}
