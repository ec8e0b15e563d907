package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/quotalease/quotalease/agent/web"
	"github.com/quotalease/quotalease/cmd/quotalease/stage"
)

// doors are the two listeners of a serving process.
type doors struct {
	grpc, http net.Listener
}

// openDoors listens on both addresses, or on none. needs is as in listenAddr.
func openDoors(ctx context.Context, grpcAddr, httpAddr, needs string) (doors, error) {
	g, err := listen(ctx, "--grpc", grpcAddr, needs)
	if err != nil {
		return doors{}, err
	}
	h, err := listen(ctx, "--http", httpAddr, needs)
	if err != nil {
		_ = g.Close()
		return doors{}, err
	}
	return doors{grpc: g, http: h}, nil
}

// announce tells on standard output where the process listens, for people and for dev and
// demo, which read it.
func (d doors) announce(w io.Writer) {
	fmt.Fprintf(w, "%sgrpc=%s http=%s\n", stage.Listening, d.grpc.Addr(), d.http.Addr())
}

// stopping is how long open calls may go on after the doors were closed.
const stopping = 3 * time.Second

// serve answers on both doors until ctx ends, then lets open calls finish. answer serves gRPC
// on a listener until its context ends.
func (d doors) serve(ctx context.Context, answer func(context.Context, net.Listener) error, h http.Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages := &http.Server{
		Handler: h, ReadHeaderTimeout: web.ReadHeaderTimeout, ReadTimeout: web.ReadTimeout,
		WriteTimeout: web.WriteTimeout, IdleTimeout: web.IdleTimeout, MaxHeaderBytes: web.MaxHeaderBytes,
	}
	var group errgroup.Group
	group.Go(func() error {
		defer cancel()
		return answer(ctx, d.grpc)
	})
	group.Go(func() error {
		defer cancel()
		if err := pages.Serve(d.http); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		graceful, done := context.WithTimeout(context.WithoutCancel(ctx), stopping)
		defer done()
		if pages.Shutdown(graceful) != nil {
			return pages.Close()
		}
		return nil
	})
	return group.Wait()
}

// logger writes a serving process's log as text lines.
func (sh *shell) logger() *slog.Logger { return slog.New(slog.NewTextHandler(sh.err, nil)) }

// stopWithStdin adds the hidden flag by which dev and demo make sure that their children end
// with them, and returns what gives a context that ends so.
func (sh *shell) stopWithStdin(cmd *cobra.Command) func(context.Context) (context.Context, context.CancelFunc) {
	var on bool
	cmd.Flags().BoolVar(&on, stage.StopWithStdin[2:], false, "stop when standard input ends")
	_ = cmd.Flags().MarkHidden(stage.StopWithStdin[2:])
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		if on {
			// Nobody can wait for a read of standard input; it ends with the process.
			go func() {
				_, _ = io.Copy(io.Discard, sh.in)
				cancel()
			}()
		}
		return ctx, cancel
	}
}
