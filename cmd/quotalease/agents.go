package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

type agentView struct {
	Incarnation   string     `json:"incarnation"`
	Name          string     `json:"name"`
	Region        string     `json:"region"`
	StartedAt     *time.Time `json:"started_at"`
	LastSeen      *time.Time `json:"last_seen"`
	PolicyVersion int64      `json:"policy_version"`
	LiveLeases    int64      `json:"live_leases"`
	Outstanding   int64      `json:"outstanding"`
}

func newAgentView(a *pb.Agent) agentView {
	return agentView{
		Incarnation: idText(a.GetIncarnation()), Name: a.GetName(), Region: a.GetRegion(),
		StartedAt: instant(a.GetStartedAtUs()), LastSeen: instant(a.GetLastSeenUs()),
		PolicyVersion: a.GetPolicyVersion(), LiveLeases: a.GetLiveLeases(), Outstanding: a.GetOutstanding(),
	}
}

func newAgentsCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "agents",
		Short: "List the agents that were seen lately",
		Long: `Agents lists who asks for leases: each start of an agent is a new incarnation. It shows
when it was last seen, which policy it follows and how many units it may still spend.`,
		Example: `  quotalease agents`,
		Args:    arguments(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			reply, err := ask(cmd.Context(), sh, "list agents", pb.AdminServiceClient.ListAgents, &pb.ListAgentsRequest{})
			if err != nil {
				return err
			}
			return list(sh, each(reply.GetAgents(), newAgentView), "agents", 0, func(views []agentView) *table {
				t := newTable(text("NAME"), text("REGION"), text("INCARNATION"), text("STARTED"), text("LAST SEEN"),
					number("POLICY"), number("LEASES"), number("OUTSTANDING"))
				for _, v := range views {
					t.add(v.Name, v.Region, v.Incarnation, utc(v.StartedAt), utc(v.LastSeen),
						strconv.FormatInt(v.PolicyVersion, 10), grouped(&v.LiveLeases), grouped(&v.Outstanding))
				}
				return t
			})
		},
	}
}
