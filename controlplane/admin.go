package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger"
	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const (
	policyPage = 50
	maxList    = 100_000 // of any listing
	maxWho     = 256
	maxWhy     = 1024
)

// limitOf reads how many lines a listing may have.
func limitOf(n int32, standard int) (int, error) {
	if n < 0 || n > maxList {
		return 0, invalid("limit", "1 to %d, or 0 for %d", maxList, standard)
	}
	if n == 0 {
		return standard, nil
	}
	return int(n), nil
}

// policyInUse is what this replica decides by. That nobody has applied a policy yet is an
// answer; that this replica has not read the one there is, is an outage.
func (c *ControlPlane) policyInUse(ctx context.Context) (*policy.Snapshot, error) {
	if s := c.policies.snapshot(); s != nil {
		return s, nil
	}
	if _, err := c.cfg.Policies.Head(ctx); errors.Is(err, policy.ErrNoPolicy) {
		return nil, err
	}
	return nil, fmt.Errorf("%w: no policy is loaded", ErrUnavailable)
}

// policyError tells an outage of the log from what it or the rules of policies said.
func policyError(doing string, err error) error {
	var faults policy.Faults
	var field *quota.FieldError
	for _, said := range []error{policy.ErrNoPolicy, policy.ErrNoVersion, policy.ErrNoOverride, policy.ErrConflict} {
		if errors.Is(err, said) {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	if errors.As(err, &faults) || errors.As(err, &field) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return outage(doing, err)
}

// ApplyPolicy makes a whole policy the current version, or changes nothing.
func (c *ControlPlane) ApplyPolicy(ctx context.Context, m *pb.ApplyPolicyRequest) (*pb.ApplyPolicyReply, error) {
	var files []policy.File
	for _, f := range m.GetFiles() {
		files = append(files, policy.File{Name: f.GetName(), Text: []byte(f.GetText())})
	}
	doc, err := policy.Parse(files, c.desk.Now())
	var faults policy.Faults
	if errors.As(err, &faults) {
		return nil, faults // as they are: every line begins with its file and line
	}
	if err != nil {
		return nil, policyError("read policy", err)
	}
	reply := &pb.ApplyPolicyReply{}
	head, before, err := c.newestPolicy(ctx)
	if err != nil {
		return nil, err
	}
	now := c.desk.Now()
	after := doc.Keeping(head.Overrides, now)
	if before != nil {
		before = before.Keeping(head.Overrides, now) // that one has expired is not this change's doing
	}
	for _, w := range after.Warnings {
		reply.Warnings = append(reply.Warnings, w.Error())
	}
	for _, change := range policy.Diff(before, after) {
		reply.Changes = append(reply.Changes, change.String())
	}
	reply.Warnings = append(reply.Warnings, c.governed(head)...)
	if m.GetDryRun() {
		reply.Version, reply.Changed = head.Version, head.Sum != doc.Sum()
		return reply, nil
	}
	reply.Version, reply.Changed, err = policy.Apply(ctx, c.cfg.Policies, doc, policy.SourceCLI, m.GetWho(), m.GetWhy())
	if err != nil {
		return nil, policyError("apply policy", err)
	}
	c.adopt(ctx, reply.Version)
	return reply, nil
}

// governed warns of a change by hand where a policy directory makes the versions.
func (c *ControlPlane) governed(head policy.Record) []string {
	if c.cfg.PolicyDir == "" && head.Source != policy.SourceDir {
		return nil
	}
	return []string{"a policy directory makes the versions here: what is changed by hand is lost when its files change; change them too"}
}

// newestPolicy reads what a change is compared with; before the first version that is nothing.
func (c *ControlPlane) newestPolicy(ctx context.Context) (policy.Record, *policy.Document, error) {
	head, err := c.cfg.Policies.Head(ctx)
	if errors.Is(err, policy.ErrNoPolicy) {
		return policy.Record{}, nil, nil
	}
	if err != nil {
		return policy.Record{}, nil, policyError("read the newest policy", err)
	}
	doc, err := head.Document()
	if err != nil {
		return policy.Record{}, nil, fmt.Errorf("read policy version %d: %w", head.Version, err)
	}
	return head, doc, nil
}

// adopt takes a version into use at once. It is in force already: if this fails, the next look
// at the log tries again.
func (c *ControlPlane) adopt(ctx context.Context, version int64) {
	if err := c.policies.refresh(ctx); err != nil {
		c.cfg.Log.Warn("policy applied but not in use here yet", "version", version, "err", err)
	}
}

// RollbackPolicy applies an older version again, as a new one.
func (c *ControlPlane) RollbackPolicy(ctx context.Context, m *pb.RollbackPolicyRequest) (*pb.ApplyPolicyReply, error) {
	if m.GetTo() < 1 {
		return nil, invalid("to", "a version of 1 or more")
	}
	head, before, err := c.newestPolicy(ctx)
	if err != nil {
		return nil, err
	}
	reply := &pb.ApplyPolicyReply{Warnings: c.governed(head)}
	reply.Version, reply.Changed, err = policy.Rollback(ctx, c.cfg.Policies, m.GetTo(), c.desk.Now(), m.GetWho(), m.GetWhy())
	if err != nil {
		return nil, policyError("roll back policy", err)
	}
	newest, after, err := c.newestPolicy(ctx)
	if err != nil {
		return nil, err
	}
	if before != nil && newest.Version != head.Version { // that one has expired is not this change's doing
		before = before.Keeping(head.Overrides, c.desk.Now())
	}
	for _, change := range policy.Diff(before, after) {
		reply.Changes = append(reply.Changes, change.String())
	}
	c.adopt(ctx, reply.Version)
	return reply, nil
}

// GetPolicy returns one version of the policy, or the newest.
func (c *ControlPlane) GetPolicy(ctx context.Context, m *pb.GetPolicyRequest) (*pb.GetPolicyReply, error) {
	var r policy.Record
	var err error
	switch {
	case m.GetVersion() < 0:
		return nil, invalid("version", "1 or more, or 0 for the newest")
	case m.GetVersion() == 0:
		r, err = c.cfg.Policies.Head(ctx)
	default:
		r, err = c.cfg.Policies.Get(ctx, m.GetVersion())
	}
	if err != nil {
		return nil, policyError("read policy", err)
	}
	reply := &pb.GetPolicyReply{Version: versionMessage(r), Text: r.Text}
	for _, o := range r.Overrides {
		reply.Overrides = append(reply.Overrides, commandMessage(o))
	}
	return reply, nil
}

// ListPolicies lists versions, newest first.
func (c *ControlPlane) ListPolicies(ctx context.Context, m *pb.ListPoliciesRequest) (*pb.ListPoliciesReply, error) {
	limit, err := limitOf(m.GetLimit(), policyPage)
	if err != nil {
		return nil, err
	}
	records, err := c.cfg.Policies.History(ctx, limit)
	if err != nil {
		return nil, policyError("list policies", err)
	}
	reply := &pb.ListPoliciesReply{}
	for _, r := range records {
		reply.Versions = append(reply.Versions, versionMessage(r))
	}
	return reply, nil
}

func versionMessage(r policy.Record) *pb.PolicyVersion {
	return &pb.PolicyVersion{Version: r.Version, AtUs: micros(r.At), Source: string(r.Source), Who: r.Who, Why: r.Why, Sum: r.Sum}
}

// ruleUnlisted decides about a tenant whom policy does not admit.
const ruleUnlisted = "unlisted_tenants"

// ExplainPolicy says which rule decides a key's limit, and why the others do not.
func (c *ControlPlane) ExplainPolicy(ctx context.Context, m *pb.ExplainPolicyRequest) (*pb.ExplainPolicyReply, error) {
	key, err := keyOf(m.GetKey())
	if err != nil {
		return nil, err
	}
	s, err := c.policyInUse(ctx)
	if err != nil {
		return nil, err
	}
	now := c.desk.Now()
	lines, err := s.Explain(key, now)
	if errors.Is(err, policy.ErrUnknownTenant) { // an answer too: this rule decides
		return &pb.ExplainPolicyReply{Lines: []string{fmt.Sprintf("every take is refused as %s: %v", quota.UnknownTenant, err)},
			Rule: ruleUnlisted, PolicyVersion: s.Version}, nil
	}
	if err != nil {
		return nil, err
	}
	dim, _ := s.Dimension(key.Dimension)
	terms, match, err := s.Resolve(key, dim.Moment(now))
	if err != nil {
		return nil, err
	}
	return &pb.ExplainPolicyReply{Lines: lines, Limit: limitNumber(terms.Limit), Budget: limitNumber(terms.Budget), Rate: terms.RateText(),
		Rule: string(match.Rule), PolicyVersion: s.Version}, nil
}

// grants reads what a query finds, page by page, until each says enough.
func (c *ControlPlane) grants(ctx context.Context, q ledger.GrantQuery, each func(ledger.Grant) bool) error {
	q.Limit = adminPage
	for {
		found, err := c.cfg.Reader.Grants(ctx, q)
		if err != nil {
			return outage("list leases", err)
		}
		for _, g := range found {
			if !each(g) {
				return nil
			}
		}
		if len(found) < adminPage {
			return nil
		}
		q.Before = found[len(found)-1].ID
	}
}

// ListLeases lists grants, newest first: live ones unless all are asked for.
func (c *ControlPlane) ListLeases(ctx context.Context, m *pb.ListLeasesRequest) (*pb.ListLeasesReply, error) {
	limit, err := limitOf(m.GetLimit(), adminPage)
	if err != nil {
		return nil, err
	}
	q := ledger.GrantQuery{Tenant: m.GetTenant(), Dimension: m.GetDimension()}
	if len(m.GetAgent()) > 0 {
		if q.Agent, err = idOf("agent", m.GetAgent()); err != nil {
			return nil, err
		}
	}
	if len(m.GetGrantId()) > 0 {
		if q.ID, err = idOf("grant_id", m.GetGrantId()); err != nil {
			return nil, err
		}
	} else if !m.GetAllStates() {
		q.States = []ledger.State{ledger.Live}
	}
	reply := &pb.ListLeasesReply{}
	err = c.grants(ctx, q, func(g ledger.Grant) bool {
		reply.Leases = append(reply.Leases, leaseMessage(g))
		return len(reply.Leases) < limit
	})
	return reply, err
}

func leaseMessage(g ledger.Grant) *pb.Lease {
	t := g.Tally()
	return &pb.Lease{
		GrantId: g.ID.Bytes(), Kind: g.Kind.String(), State: stateMessage(g.State), Key: keyMessage(g.Account.Key),
		Window: windowMessage(g.Account.Window), Agent: g.Agent.Bytes(), Region: g.Region, Asked: int64(g.Asked),
		Amount: int64(g.Amount), Reason: string(g.Reason), PolicyVersion: g.PolicyVersion, Generation: g.Generation,
		IssuedAtUs: micros(g.IssuedAt), ExpiresAtUs: micros(g.ExpiresAt), ClosesAtUs: micros(g.ClosesAt),
		RevokedAtUs: micros(g.RevokedAt), ConsumedReported: int64(t.Leased + t.Spent), Expired: int64(t.Expired),
		Returned: int64(t.Returned), Revoked: int64(t.Revoked), Outstanding: int64(t.Outstanding),
		Held: int64(t.Held), Uncertain: int64(t.Uncertain), Unleased: int64(t.Unleased), TtlUs: g.TTL.Microseconds(),
	}
}

// RevokeLeases revokes leases by id, or every live lease of a key. Who did it and why is in
// the journal's event of each.
func (c *ControlPlane) RevokeLeases(ctx context.Context, m *pb.RevokeLeasesRequest) (*pb.RevokeLeasesReply, error) {
	if err := checkNote("who", m.GetWho(), maxWho); err != nil {
		return nil, err
	}
	if err := checkNote("why", m.GetWhy(), maxWhy); err != nil {
		return nil, err
	}
	note := m.GetWho() + ": " + m.GetWhy()
	if (m.GetKey() == nil) == (len(m.GetGrantIds()) == 0) {
		return nil, invalid("grant_ids", "one or more, or else a key")
	}
	if m.GetKey() != nil {
		key, err := keyOf(m.GetKey())
		if err != nil {
			return nil, err
		}
		q := ledger.GrantQuery{Key: key, States: []ledger.State{ledger.Live}}
		n, err := c.desk.revoke(ctx, c.cfg.Reader, q, note, func(ledger.Grant) bool { return true })
		return &pb.RevokeLeasesReply{Revoked: int32(n)}, err
	}
	if len(m.GetGrantIds()) > MaxItems {
		return nil, invalid("grant_ids", "at most %d", MaxItems)
	}
	var found []ledger.Grant
	for _, raw := range m.GetGrantIds() {
		id, err := idOf("grant_ids", raw)
		if err != nil {
			return nil, err
		}
		grants, err := c.cfg.Reader.Grants(ctx, ledger.GrantQuery{ID: id})
		if err != nil {
			return nil, outage("find leases", err)
		}
		found = append(found, grants...)
	}
	reply := &pb.RevokeLeasesReply{}
	for len(found) > 0 {
		part := found[:min(revokeTx, len(found))]
		found = found[len(part):]
		n, err := c.desk.revokeGrants(ctx, part, note)
		if err != nil {
			return nil, err
		}
		reply.Revoked += int32(n)
	}
	return reply, nil
}

// checkNote holds a change to a name and a reason.
func checkNote(field, s string, most int) error {
	bad := strings.TrimSpace(s) == "" || len(s) > most || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl)
	if bad {
		return invalid(field, "1 to %d bytes of text on one line, without control characters", most)
	}
	return nil
}
