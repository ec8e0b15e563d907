package main

import (
	"fmt"
	"io"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/spf13/cobra"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

type leaseView struct {
	GrantID          string     `json:"grant_id"`
	Kind             string     `json:"kind"`
	State            string     `json:"state"`
	Tenant           string     `json:"tenant"`
	Dimension        string     `json:"dimension"`
	Window           windowView `json:"window"`
	Agent            string     `json:"agent"`
	Region           string     `json:"region"`
	Asked            int64      `json:"asked"`
	Amount           int64      `json:"amount"`
	Reason           string     `json:"reason"`
	PolicyVersion    int64      `json:"policy_version"`
	Generation       int64      `json:"generation"`
	TTLSeconds       float64    `json:"ttl_seconds"`
	IssuedAt         *time.Time `json:"issued_at"`
	ExpiresAt        *time.Time `json:"expires_at"`
	ClosesAt         *time.Time `json:"closes_at"`
	RevokedAt        *time.Time `json:"revoked_at"`
	ConsumedReported int64      `json:"consumed_reported"`
	Outstanding      int64      `json:"outstanding"`
	Held             int64      `json:"held"`
	Uncertain        int64      `json:"uncertain"`
	Unleased         int64      `json:"unleased"`
	Expired          int64      `json:"expired"`
	Returned         int64      `json:"returned"`
	Revoked          int64      `json:"revoked"`
}

func newLeaseView(l *pb.Lease) leaseView {
	return leaseView{
		GrantID: idText(l.GetGrantId()), Kind: l.GetKind(), State: stateName(l.GetState()),
		Tenant: l.GetKey().GetTenant(), Dimension: l.GetKey().GetDimension(), Window: newWindowView(l.GetWindow()),
		Agent: idText(l.GetAgent()), Region: l.GetRegion(), Asked: l.GetAsked(), Amount: l.GetAmount(), Reason: l.GetReason(),
		PolicyVersion: l.GetPolicyVersion(), Generation: l.GetGeneration(), TTLSeconds: seconds(l.GetTtlUs()),
		IssuedAt: instant(l.GetIssuedAtUs()), ExpiresAt: instant(l.GetExpiresAtUs()),
		ClosesAt: instant(l.GetClosesAtUs()), RevokedAt: instant(l.GetRevokedAtUs()),
		ConsumedReported: l.GetConsumedReported(), Outstanding: l.GetOutstanding(), Held: l.GetHeld(),
		Uncertain: l.GetUncertain(), Unleased: l.GetUnleased(), Expired: l.GetExpired(),
		Returned: l.GetReturned(), Revoked: l.GetRevoked(),
	}
}

func stateName(s pb.GrantState) string {
	switch s {
	case pb.GrantState_GRANT_STATE_LIVE:
		return "live"
	case pb.GrantState_GRANT_STATE_CLOSED:
		return "closed"
	case pb.GrantState_GRANT_STATE_FINAL:
		return "final"
	case pb.GrantState_GRANT_STATE_DENIED:
		return "denied"
	case pb.GrantState_GRANT_STATE_CANCELLED:
		return "cancelled"
	}
	return "unknown"
}

// idText writes an id of the wire; what is none stays visible as hex.
func idText(id []byte) string {
	if u, err := uuid.FromBytes(id); err == nil {
		return u.String()
	}
	return fmt.Sprintf("%x", id)
}

func readID(field, s string) ([]byte, error) {
	u, err := uuid.FromString(s)
	if err != nil {
		return nil, misuse("%s: %q; allowed: a UUID, as quotalease lease list shows them", field, s)
	}
	return u.Bytes(), nil
}

func newLeaseCommand(sh *shell) *cobra.Command {
	return group("lease", "List, show and revoke leases",
		`A lease is an amount of one quota that an agent may spend on its own until it expires.`,
		`  quotalease lease list --tenant acme
  quotalease lease revoke --tenant acme --dimension report_export --why "key was stolen"`,
		newLeaseListCommand(sh), newLeaseShowCommand(sh), newLeaseRevokeCommand(sh))
}

func newLeaseListCommand(sh *shell) *cobra.Command {
	var request pb.ListLeasesRequest
	var agent string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List live leases, newest first",
		Long: `List shows who holds what: the units that each lease was granted, what reports say was
used of it, and what is still outstanding. With --all-states it shows the records of
closed leases, denials, spends and operators' adjustments too.`,
		Example: "  quotalease lease list --tenant acme --dimension report_export\n  quotalease lease list --all-states --limit 20",
		Args:    arguments(0, 0, "none, leases are chosen by flags"),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := positive("--limit", int64(request.GetLimit())); err != nil {
				return err
			}
			if agent != "" {
				if request.Agent, err = readID("--agent", agent); err != nil {
					return err
				}
			}
			reply, err := ask(cmd.Context(), sh, "list leases", pb.AdminServiceClient.ListLeases, &request)
			if err != nil {
				return err
			}
			return list(sh, each(reply.GetLeases(), newLeaseView), "leases", request.GetLimit(), func(views []leaseView) *table {
				return leaseTable(views, sh.zonesFor(cmd.Context()))
			})
		},
	}
	cmd.Flags().StringVar(&request.Tenant, "tenant", "", "only this tenant's")
	cmd.Flags().StringVar(&request.Dimension, "dimension", "", "only of this dimension")
	cmd.Flags().StringVar(&agent, "agent", "", "only of this incarnation of an agent, see quotalease agents")
	cmd.Flags().BoolVar(&request.AllStates, "all-states", false, "records in every state, not live leases only")
	limitFlag(cmd, &request.Limit, 1000)
	return cmd
}

func leaseTable(views []leaseView, z zones) *table {
	t := newTable(text("GRANT"), text("KIND"), text("STATE"), text("TENANT"), text("DIMENSION"), text("REGION"),
		number("AMOUNT"), number("USED"), number("OUTSTANDING"), text("EXPIRES"))
	for _, v := range views {
		t.add(v.GrantID, v.Kind, v.State, v.Tenant, v.Dimension, v.Region,
			grouped(&v.Amount), grouped(&v.ConsumedReported), grouped(&v.Outstanding), z.local(v.Dimension, v.ExpiresAt))
	}
	return t
}

func newLeaseShowCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show all that the ledger records of one lease",
		Long:    `Show prints a grant's terms, its answer, its times, and where its units are now.`,
		Example: `  quotalease lease show 0193776e-1c00-7000-8000-000000000001`,
		Args:    arguments(1, 1, "the id of a grant"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := readID("ID", args[0])
			if err != nil {
				return err
			}
			request := &pb.ListLeasesRequest{GrantId: id, AllStates: true}
			reply, err := ask(cmd.Context(), sh, "show lease", pb.AdminServiceClient.ListLeases, request)
			if err != nil {
				return err
			}
			if len(reply.GetLeases()) == 0 {
				return fmt.Errorf("show lease: the ledger has no grant %s", args[0])
			}
			view := newLeaseView(reply.GetLeases()[0])
			return sh.show(view, func(w io.Writer) error {
				return leaseSheet(view, sh.zonesFor(cmd.Context())).write(w)
			})
		},
	}
}

// leaseSheet is one lease from top to bottom.
func leaseSheet(v leaseView, z zones) *table {
	t := newTable(text(""), text(""))
	at := func(i *time.Time) string { return z.local(v.Dimension, i) }
	t.add("grant", v.GrantID)
	t.add("kind", v.Kind)
	t.add("state", v.State)
	t.add("tenant", v.Tenant)
	t.add("dimension", v.Dimension)
	t.add("window", at(v.Window.Start))
	t.add("until", at(v.Window.End))
	t.add("agent", v.Agent)
	t.add("region", v.Region)
	t.add("reason", v.Reason)
	t.add("policy version", grouped(&v.PolicyVersion))
	t.add("generation", grouped(&v.Generation))
	t.add("ttl", lasting(int64(v.TTLSeconds*1e6)))
	t.add("issued", at(v.IssuedAt))
	t.add("expires", at(v.ExpiresAt))
	t.add("closes", at(v.ClosesAt))
	t.add("revoked at", at(v.RevokedAt))
	for _, n := range []struct {
		name  string
		units int64
	}{
		{"asked", v.Asked}, {"amount", v.Amount}, {"consumed_reported", v.ConsumedReported},
		{"outstanding", v.Outstanding}, {"held", v.Held}, {"uncertain", v.Uncertain}, {"unleased", v.Unleased},
		{"expired", v.Expired}, {"returned", v.Returned}, {"revoked", v.Revoked},
	} {
		t.add(n.name, grouped(&n.units))
	}
	return t
}

func newLeaseRevokeCommand(sh *shell) *cobra.Command {
	var by author
	var key pb.Key
	cmd := &cobra.Command{
		Use:   "revoke ID... | --tenant T --dimension D",
		Short: "Take leases back before they expire",
		Long: `Revoke tells agents to stop spending leases: those that are named, or every live lease of
one tenant in one dimension. What an agent has not heard of stays spendable for at most
one ttl, and stays charged until the agent's last word or the lease's close.

It does not stop the tenant: agents ask for new leases at once. To stop one, set its limit
to 0 with an override and apply the policy, which takes its leases back too.`,
		Example: `  quotalease lease revoke 0193776e-1c00-7000-8000-000000000001 --why "agent was lost"
  quotalease lease revoke --tenant acme --dimension report_export --why "key was stolen"`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &pb.RevokeLeasesRequest{}
			byKey := key.GetTenant() != "" || key.GetDimension() != ""
			switch {
			case byKey == (len(args) > 0):
				return misuseOf(cmd, "which leases: allowed: either ids, or --tenant with --dimension")
			case byKey && (key.GetTenant() == "" || key.GetDimension() == ""):
				return misuse("--tenant, --dimension: allowed: both or neither")
			case byKey:
				request.Key = &key
			}
			for _, arg := range args {
				id, err := readID("ID", arg)
				if err != nil {
					return err
				}
				request.GrantIds = append(request.GrantIds, id)
			}
			if err := by.settle(sh); err != nil {
				return err
			}
			request.Who, request.Why = by.who, by.why
			return revoke(cmd, sh, request)
		},
	}
	cmd.Flags().StringVar(&key.Tenant, "tenant", "", "this tenant's leases; with --dimension")
	cmd.Flags().StringVar(&key.Dimension, "dimension", "", "leases of this dimension; with --tenant")
	by.flags(cmd)
	return cmd
}

func revoke(cmd *cobra.Command, sh *shell, request *pb.RevokeLeasesRequest) error {
	reply, err := ask(cmd.Context(), sh, "revoke leases", pb.AdminServiceClient.RevokeLeases, request)
	if err != nil {
		return err
	}
	view := struct {
		Revoked int32 `json:"revoked"`
	}{reply.GetRevoked()}
	err = sh.show(view, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "revoked %s\n", count(int(view.Revoked), "lease"))
		return err
	})
	switch {
	case err != nil:
		return err
	case view.Revoked == 0 && request.GetKey() == nil:
		return misuse("revoke leases: none of these is a live lease, see quotalease lease list")
	case request.GetKey() != nil:
		sh.note("this does not stop the tenant: agents ask for new leases; a limit of 0 does")
	}
	return nil
}
