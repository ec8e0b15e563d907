package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// codeUnknownOperation is a fault of a step in a line that policy does not have.
const codeUnknownOperation ledger.Code = "unknown_operation"

// lineTurns is how many lines a replica works on at once. Each takes a connection of the pool
// that the granter needs too, and callers who wait ask in vain as a rule.
const lineTurns = 4

// lines lets denied callers wait their turn. Each line is a short transaction of its own: it
// locks no account, so that asking for a place holds up no decision.
type lines struct {
	store    ledger.Lines // nil: nobody can wait
	reader   ledger.Reader
	policies *policies
	now      func() time.Time // the ledger's, as estimated
	timeout  time.Duration    // of one transaction, or one short read
	turns    chan struct{}
	hub      *hub
	metrics  *metrics
	kick     func() // a line became empty, or is not any more

	told   map[ledger.LineID]int // tickets, as agents were told. Owned by look
	toldAt time.Time             // when all of it was
}

// lineStep is one item of a request.
type lineStep struct {
	line  ledger.LineID
	id    ledger.ID
	times int64
	step  pb.DeferItem_Step
	last  ledger.Opening // what the caller's own denial said, if there was one
	to    *pb.Standing   // the answer
}

// deferAll moves tickets: those of one line together, in the order in which they are given.
func (l *lines) deferAll(ctx context.Context, m *pb.DeferRequest) (*pb.DeferReply, error) {
	if _, err := helloOf(m.GetHello()); err != nil {
		return nil, err
	}
	if err := capped(listed{"items", len(m.GetItems())}); err != nil {
		return nil, err
	}
	snapshot := l.policies.snapshot()
	if snapshot == nil {
		return nil, fmt.Errorf("%w: no policy is loaded", ErrUnavailable)
	}
	if l.store == nil {
		return nil, fmt.Errorf("%w: no lines are kept here", ErrUnavailable)
	}
	reply := &pb.DeferReply{}
	var order []ledger.LineID
	steps := map[ledger.LineID][]*lineStep{}
	for _, x := range m.GetItems() {
		s := readStep(x)
		reply.Standings = append(reply.Standings, s.to)
		if s.to.Fault != nil {
			continue
		}
		if len(steps[s.line]) == 0 {
			order = append(order, s.line)
		}
		steps[s.line] = append(steps[s.line], s)
	}
	for _, id := range order {
		if err := l.move(ctx, snapshot, id, steps[id]); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

func readStep(x *pb.DeferItem) *lineStep {
	s := &lineStep{
		line: ledger.LineID{Tenant: x.GetTenant(), Operation: x.GetOperation()}, times: x.GetTimes(), step: x.GetStep(),
		last: ledger.Opening{Denied: x.GetReason() != "", Wait: time.Duration(max(0, x.GetRetryInUs())) * time.Microsecond},
		to:   &pb.Standing{TicketId: x.GetTicketId()},
	}
	id, err := idOf("ticket_id", x.GetTicketId())
	s.id = id
	if err == nil {
		err = quota.ValidateTenant(s.line.Tenant)
	}
	if err == nil && quota.ValidateDimension(s.line.Operation) != nil {
		err = invalid("operation", "an operation's name")
	}
	if err == nil && (s.step < pb.DeferItem_STEP_JOIN || s.step > pb.DeferItem_STEP_LEAVE) {
		err = invalid("step", "join, ask or leave")
	}
	if err == nil && x.GetRetryInUs() > maxRetryIn.Microseconds() {
		err = invalid("retry_in_us", "at most %d", maxRetryIn.Microseconds())
	}
	if err != nil {
		s.to.Fault = faultOf(err)
	}
	return s
}

// maxRetryIn is longer than any window; what is longer could be no duration.
const maxRetryIn = 10 * 366 * 24 * time.Hour

// move takes the steps of one line in a transaction.
func (l *lines) move(ctx context.Context, s *policy.Snapshot, id ledger.LineID, steps []*lineStep) error {
	select {
	case l.turns <- struct{}{}:
		defer func() { <-l.turns }()
	case <-ctx.Done():
		return outage("wait for a turn at a line", ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	room, fault, err := l.roomFor(ctx, s, id)
	if err != nil {
		return err
	}
	joined, left, turned := 0, 0, false
	err = l.store.UpdateLine(ctx, id, func(line *ledger.Line) error {
		joined, left = 0, 0
		before := len(line.Tickets())
		for _, x := range steps {
			was := len(line.Tickets())
			if err := x.take(line, room, fault); err != nil {
				return err
			}
			switch now := len(line.Tickets()); {
			case now > was:
				joined++
			case now < was:
				left++
			}
		}
		turned = (before == 0) != (len(line.Tickets()) == 0)
		return nil
	})
	if err != nil {
		if !errors.Is(err, ledger.ErrClock) {
			l.metrics.outages.Inc()
		}
		return outage("move tickets of a line", err)
	}
	if fault == nil { // an operation of policy: callers make no series
		l.metrics.joined.WithLabelValues(id.Operation).Add(float64(joined))
		l.metrics.left.WithLabelValues(id.Operation).Add(float64(left))
	}
	if turned {
		l.kick()
	}
	return nil
}

// take is one step. What is wrong with it is its own fault; the others go on. A ticket may
// always leave, whatever became of its operation.
func (x *lineStep) take(line *ledger.Line, room *room, unknown *pb.Fault) error {
	*x.to = pb.Standing{TicketId: x.id.Bytes()}
	if x.step == pb.DeferItem_STEP_LEAVE {
		x.tell(line.Leave(x.id))
		return nil
	}
	if unknown != nil {
		x.to.Fault = unknown
		return nil
	}
	if x.times < 1 || x.times > room.mostTimes() {
		x.to.Fault = fault(ledger.CodeInvalid, "times", fmt.Sprintf("a whole number from 1 to %d", room.mostTimes()))
		return nil
	}
	reason, dimension, wait := room.whyNot(x.times)
	if reason == quota.TooLarge && x.step == pb.DeferItem_STEP_JOIN {
		x.to.Gone, x.to.Waiting, x.to.Reason, x.to.Dimension = true, int64(len(line.Tickets())), string(reason), dimension
		return nil // no turn would help it
	}
	o := ledger.Opening{Room: room.times(), Wait: wait, Denied: x.last.Denied}
	if x.last.Denied && x.last.Wait > 0 {
		o.Wait = x.last.Wait
	}
	stand := func() (ledger.Standing, error) { return line.Ask(x.id, x.times, o) }
	if x.step == pb.DeferItem_STEP_JOIN {
		stand = func() (ledger.Standing, error) { return line.Join(x.id, x.times, room.terms, o) }
	}
	s, err := stand()
	if err != nil {
		x.to.Fault = faultOf(err)
		if x.to.Fault == nil {
			return err
		}
		return nil
	}
	x.tell(s)
	x.to.Reason, x.to.Dimension = string(reason), dimension
	return nil
}

func (x *lineStep) tell(s ledger.Standing) {
	x.to.Place, x.to.Admitted, x.to.Waiting, x.to.Gone = int64(s.Place), s.Admitted, int64(s.Waiting), s.Gone
	x.to.RetryInUs, x.to.ExpiresInUs = upToMicros(s.RetryIn), s.ExpiresIn.Microseconds()
}
