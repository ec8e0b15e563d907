package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// wire is a codec for callers who have written their messages beforehand and look at no more of
// the answers than they must, so that the processor is the server's as far as it can be.
type wire struct{}

func (wire) Name() string { return "proto" }

func (wire) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (wire) Unmarshal(data mem.BufferSlice, v any) error {
	into := v.(*[]byte)
	*into = append((*into)[:0], data.Materialize()...)
	return nil
}

// calling is one kind of call, with the messages that it is made with.
type calling struct {
	method   string
	messages [][]byte
	per      int // decisions of one call
	allowed  func(answer []byte) bool
	answer   proto.Message // to show one that is not what it should be
}

// startsWith is an answer of which the first field says yes.
func startsWith(first ...byte) func([]byte) bool {
	return func(answer []byte) bool { return bytes.HasPrefix(answer, first) }
}

// callers share connections to one server.
type callers struct {
	conns   []*grpc.ClientConn
	answers [][]byte // of each caller, the last one
}

func dial(address string, workers int) (*callers, error) {
	list := &callers{answers: make([][]byte, workers)}
	for range connections {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire{}), grpc.WaitForReady(true)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect to %s: %w", address, err), list.close())
		}
		list.conns = append(list.conns, conn)
	}
	return list, nil
}

// ask sends one of a call's messages, and holds its answer to be a yes.
func (c *callers) ask(ctx context.Context, worker int, what *calling, at int) error {
	answer := &c.answers[worker]
	if err := c.conns[worker%len(c.conns)].Invoke(ctx, what.method, &what.messages[at], answer); err != nil {
		return fmt.Errorf("call %s: %w", what.method, err)
	}
	if what.allowed(*answer) {
		return nil
	}
	reply := what.answer.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(*answer, reply); err != nil {
		return fmt.Errorf("call %s: read the answer: %w", what.method, err)
	}
	return fmt.Errorf("call %s: not allowed: %v", what.method, reply)
}

func (c *callers) close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}
