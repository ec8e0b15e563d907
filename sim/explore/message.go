package explore

import (
	"github.com/quotalease/quotalease/agent/core"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// printed writes a request down, once: nobody changes it.
func (r request) printed() *print {
	p := &print{places: ownPlaces}
	if r.sync != nil {
		m := r.sync
		p.hello(m.GetHello())
		p.Number(int64(len(m.GetReports())))
		for _, x := range m.GetReports() {
			p.ID(x.GetGrantId())
			p.numbers(x.GetWindow().GetStartUs(), x.GetTaken(), x.GetRefunded(), x.GetReturned())
			p.flag(x.GetFinal())
			p.flag(x.GetUnleased())
			p.flag(x.GetEmergency())
		}
		p.cancels(m.GetCancels())
		p.Number(int64(len(m.GetAsks())))
		for _, x := range m.GetAsks() {
			p.ID(x.GetGrantId())
			p.numbers(x.GetWant(), x.GetNeed(), x.GetWaiting(), x.GetWindow().GetStartUs())
			p.flag(x.GetEmergency())
		}
		p.Number(int64(len(m.GetKeys())))
		return p
	}
	m := r.spend
	p.hello(m.GetHello())
	p.Number(int64(len(m.GetItems())))
	for _, x := range m.GetItems() {
		p.ID(x.GetSpendId())
		p.numbers(x.GetCost(), x.GetNotAfterUs())
	}
	p.cancels(m.GetRefunds())
	return p
}

func (p *print) hello(h *pb.Hello) {
	p.ID(h.GetIncarnation())
	p.Token(h.GetToken())
	p.Number(h.GetPolicyVersion())
}

func (p *print) cancels(list []*pb.Cancel) {
	p.Number(int64(len(list)))
	for _, x := range list {
		p.ID(x.GetGrantId())
	}
}

// printed writes down what of a reply its agent heeds.
func (r reply) printed() *print {
	p := &print{places: ownPlaces}
	switch {
	case r.sync != nil:
		m := r.sync
		p.Token(m.GetToken())
		p.flag(m.GetNewIncarnation())
		p.numbers(m.GetLedgerNowUs(), m.GetCatalogue().GetPolicyVersion(), int64(len(m.GetResults())))
		for _, x := range m.GetResults() {
			p.ID(x.GetGrantId())
			p.Number(int64(x.GetState()))
			p.flag(x.GetRevoked())
			p.Word(x.GetFault().GetCode())
		}
		p.decisions(m.GetDecisions())
		p.keys(m.GetKeys())
	case r.spend != nil:
		p.Number(r.spend.GetLedgerNowUs())
		p.decisions(r.spend.GetDecisions())
		p.keys(r.spend.GetKeys())
	}
	return p
}

func (p *print) decisions(list []*pb.Decision) {
	p.Number(int64(len(list)))
	for _, d := range list {
		p.ID(d.GetGrantId())
		p.Word(d.GetReason())
		p.Word(d.GetFault().GetCode())
		p.numbers(d.GetAmount(), d.GetTtlUs(), d.GetGeneration(), int64(d.GetState()), d.GetWindow().GetStartUs())
		p.numbers(d.GetStartsInUs(), d.GetDelayUs(), d.GetDripUs(), d.GetRetryInUs())
		p.flag(d.GetRevoked())
		p.flag(d.GetLast())
	}
}

func (p *print) keys(list []*pb.KeyState) {
	p.Number(int64(len(list)))
	for _, k := range list {
		p.Word(k.GetReason())
		p.Word(k.GetFault().GetCode())
		p.numbers(k.GetLimit(), k.GetHeadroom(), k.GetLeaseCap(), k.GetGeneration(), k.GetPolicyVersion(), k.GetWindow().GetStartUs(), k.GetNext().GetStartUs(), k.GetRetryInUs())
	}
}

func (p *print) inbox(list []news) {
	p.Number(int64(len(list)))
	for _, x := range list {
		n := x.notice
		p.numbers(int64(x.sent), n.GetGeneration(), n.GetPolicyVersion(), n.GetWindow().GetStartUs())
		p.flag(n.GetDrained())
		p.flag(n.GetWanted())
		p.ID(n.GetRevokedGrant())
	}
}

var _ core.Printer = corePrint{}
