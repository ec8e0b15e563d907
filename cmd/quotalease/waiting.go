package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// waitingView is a caller who waits its turn. takes is what its operation costs by the policy in
// use, and empty where that has no such operation any more.
type waitingView struct {
	Tenant    string     `json:"tenant"`
	Operation string     `json:"operation"`
	Place     int64      `json:"place"` // callers before it
	Times     int64      `json:"times"`
	Takes     []takeView `json:"takes"`
	Since     *time.Time `json:"since"`
	AskedAt   *time.Time `json:"asked_at"`
	AskAgain  *time.Time `json:"ask_again"` // as it would be told at its place now
	AskBy     *time.Time `json:"ask_by"`    // then it loses the place
	ExpiresAt *time.Time `json:"expires_at"`
	Ticket    string     `json:"ticket"`
}

type takeView struct {
	Dimension string `json:"dimension"`
	Cost      int64  `json:"cost"`
}

func newTakeView(t *pb.Take) takeView { return takeView{t.GetDimension(), t.GetCost()} }

func newWaitingView(w *pb.Waiting) waitingView {
	return waitingView{
		Tenant: w.GetTenant(), Operation: w.GetOperation(), Place: w.GetPlace(), Times: w.GetTimes(), Takes: each(w.GetTakes(), newTakeView),
		Since: instant(w.GetSinceUs()), AskedAt: instant(w.GetAskedAtUs()), AskAgain: instant(w.GetAskAgainUs()),
		AskBy: instant(w.GetAskByUs()), ExpiresAt: instant(w.GetExpiresAtUs()), Ticket: idText(w.GetTicketId()),
	}
}

// costs writes what a caller waits for.
func (v waitingView) costs() string {
	all := make([]string, len(v.Takes))
	for i, t := range v.Takes {
		all[i] = fmt.Sprintf("%s %s", t.Dimension, grouped(&t.Cost))
	}
	return strings.Join(all, ", ")
}

func newLedgerWaitingCommand(sh *shell) *cobra.Command {
	var request pb.ListWaitingRequest
	cmd := &cobra.Command{
		Use:   "waiting",
		Short: "List the callers who wait their turn",
		Long: `Waiting lists who was denied an operation that policy lets wait (on_deny: defer), line by
line: what each waits for, how many are before it, since when it waits, when it was told to
ask again, and when its ticket is too old. Who has not asked 15 seconds after there was to be
room (ask_by in json) loses the place. The work itself is in a queue of the caller's own.
Listing them moves nobody.`,
		Example: "  quotalease ledger waiting\n  quotalease ledger waiting --tenant acme --operation start_export -o json",
		Args:    arguments(0, 0, "none, callers are chosen by flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := positive("--limit", int64(request.GetLimit())); err != nil {
				return err
			}
			reply, err := ask(cmd.Context(), sh, "list who waits", pb.AdminServiceClient.ListWaiting, &request)
			if err != nil {
				return err
			}
			return list(sh, each(reply.GetWaiting(), newWaitingView), "callers in line", request.GetLimit(), waitingTable)
		},
	}
	cmd.Flags().StringVar(&request.Tenant, "tenant", "", "only this tenant's")
	cmd.Flags().StringVar(&request.Operation, "operation", "", "only of this operation")
	limitFlag(cmd, &request.Limit, 1000)
	return cmd
}

func waitingTable(views []waitingView) *table {
	t := newTable(text("TENANT"), text("OPERATION"), number("PLACE"), text("TAKES"), text("SINCE"), text("ASKS AGAIN"), text("EXPIRES"), text("TICKET"))
	for _, v := range views {
		t.add(v.Tenant, v.Operation, strconv.FormatInt(v.Place, 10), v.costs(), utc(v.Since), utc(v.AskAgain), utc(v.ExpiresAt), v.Ticket)
	}
	return t
}
