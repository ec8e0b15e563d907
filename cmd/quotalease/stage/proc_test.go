package stage

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const role = "QUOTALEASE_TEST_ROLE"

// TestMain makes this test binary play the children, too.
func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "child": // as the program's commands do: stops, with success, when standard input ends
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(Listening + "grpc=127.0.0.1:1 http=127.0.0.1:2")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "long": // a line that no reader keeps, then more than a pipe holds
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 1<<20))
		fmt.Fprintln(os.Stderr, strings.Repeat("y\n", 1<<19))
		fmt.Println(Listening + "grpc=127.0.0.1:1")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(Listening)
		select {}
	case "failing":
		fmt.Fprintln(os.Stderr, "no such luck")
		os.Exit(2)
	case "parent": // starts a child, tells its pid, and waits to be killed
		p, err := Spawn(os.Args[0], "child", []string{role + "=child"}, nil)
		if err != nil {
			panic(err)
		}
		if _, err := p.Ready(context.Background()); err != nil {
			panic(err)
		}
		fmt.Println(Listening + "child=" + strconv.Itoa(p.Pid()))
		select {}
	}
	os.Exit(0)
}

func spawn(t *testing.T, as string) *Proc {
	t.Helper()
	p, err := Spawn(os.Args[0], as, []string{role + "=" + as}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestAChildDoesNotOutliveItsParent(t *testing.T) {
	t.Parallel()
	parent := spawn(t, "parent")
	told, err := parent.Ready(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(told["child"])
	if err != nil || syscall.Kill(child, 0) != nil {
		t.Fatalf("no child: %v %v", told, err)
	}
	parent.Kill()
	ctx := patient(t)
	for syscall.Kill(child, 0) == nil && running(child) {
		if ctx.Err() != nil {
			t.Fatalf("child %d lives on", child)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// running tells a live process from one that only waits to be reaped, where /proc can say.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !os.IsNotExist(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

func TestAChildThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := spawn(t, "failing").Ready(patient(t))
	if err == nil || !strings.Contains(err.Error(), "no such luck") || !strings.Contains(err.Error(), "exit status 2") {
		t.Fatalf("got %v", err)
	}
}

func TestALongLineDoesNotStallTheChild(t *testing.T) {
	t.Parallel()
	if _, err := spawn(t, "long").Ready(patient(t)); err != nil {
		t.Fatal(err)
	}
}

func TestStopIsGracefulThenForceful(t *testing.T) {
	t.Parallel()
	child := spawn(t, "child")
	if addresses, err := child.Ready(patient(t)); err != nil || addresses["grpc"] != "127.0.0.1:1" || addresses["http"] != "127.0.0.1:2" {
		t.Fatalf("%v, %v", addresses, err)
	}
	child.Stop(time.Minute)
	if child.err != nil {
		t.Errorf("the child that stops by itself ended with %v", child.err)
	}
	stubborn := spawn(t, "stubborn")
	if _, err := stubborn.Ready(patient(t)); err != nil {
		t.Fatal(err)
	}
	stubborn.Stop(10 * time.Millisecond)
	select {
	case <-stubborn.Done():
	default:
		t.Fatal("the stubborn child lives on")
	}
}
