package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quotalease/quotalease/controlplane/policy"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// maxReply leaves room for the largest policy and what comes with it.
const maxReply = policy.MaxTotalBytes + 1<<20

// method is a method expression, e.g. pb.AdminServiceClient.ListUsage.
type method[Request, Reply any] func(pb.AdminServiceClient, context.Context, *Request, ...grpc.CallOption) (*Reply, error)

// ask sends one request to the control plane. doing says in an error what was asked for.
func ask[Request, Reply any](ctx context.Context, sh *shell, doing string, m method[Request, Reply], request *Request) (*Reply, error) {
	conn, err := grpc.NewClient(sh.server,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)))
	if err != nil {
		return nil, misuse("--server: %s: %w", sh.server, err)
	}
	defer conn.Close()
	var reply *Reply
	var trailer metadata.MD // there is one only where somebody answered
	waiting := func() string { return fmt.Sprintf("%s: waiting for the control plane at %s", doing, sh.server) }
	err = sh.narrate(waiting, func() error {
		bounded, cancel := context.WithTimeout(ctx, sh.timeout)
		defer cancel()
		reply, err = m(pb.NewAdminServiceClient(conn), bounded, request, grpc.Trailer(&trailer))
		return err
	})
	if err != nil {
		return nil, sh.answered(ctx, doing, err, len(trailer) > 0)
	}
	return reply, nil
}

// answered turns a status into words and an exit code. A typed refusal is an answer; silence
// is an outage, and so is the answer of one who is there and cannot reach the ledger.
func (sh *shell) answered(ctx context.Context, doing string, err error, there bool) error {
	s := status.Convert(err)
	said := strings.TrimPrefix(s.Message(), doing+": ") // the other side may name the act as well
	gap := " "
	if strings.Contains(said, "\n") {
		gap = "\n" // the faults of policy files, each on a line of its own
	}
	err = fmt.Errorf("%s:%s%s", doing, gap, said)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	case s.Code() == codes.Unavailable && there:
		return outage(err, fmt.Sprintf("The control plane at %s is there and cannot work: see that its Postgres runs and in its log whether it reaches it.", sh.server))
	case s.Code() == codes.Unavailable:
		return outage(err, fmt.Sprintf("The control plane at %s gives no answer: start one with quotalease controlplane or"+
			" quotalease dev, name another with --server.", sh.server))
	case s.Code() == codes.DeadlineExceeded:
		return outage(err, fmt.Sprintf("The control plane at %s gave no answer within %s: try again with a longer --timeout;"+
			" a change that was asked for may have been made.", sh.server, sh.timeout))
	case s.Code() == codes.Unimplemented:
		return fmt.Errorf("%w\nWhat listens at %s is no control plane of this version: name another with --server", err, sh.server)
	case s.Code() == codes.NotFound:
		return &absentError{err}
	}
	return err
}

// absentError is the control plane's word that something does not exist.
type absentError struct{ error }

func (e *absentError) Unwrap() error { return e.error }
