package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/ledgertest"
)

// lockedBuffer is a stream that a test reads while a command writes it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// until polls a condition for at most a minute.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// devRun is a `quotalease dev` that a test started.
type devRun struct {
	out, err   lockedBuffer
	agent      string // http address
	server     string
	controlPid int
	agentPid   int
	stop       context.CancelFunc
	ended      chan int
}

func startDev(t *testing.T, dsn string) *devRun {
	t.Helper()
	d := &devRun{ended: make(chan int, 1)}
	sh := &shell{
		in: strings.NewReader(""), out: &d.out, err: &d.err, now: time.Now,
		getenv: func(name string) string { return map[string]string{databaseEnv: dsn}[name] },
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.stop = cancel
	t.Cleanup(cancel)
	free := "127.0.0.1:0"
	go func() {
		d.ended <- run(ctx, sh, []string{"dev", "--control-grpc", free, "--control-http", free, "--agent-grpc", free, "--agent-http", free})
	}()
	until(t, "dev to be up", func() bool {
		select {
		case code := <-d.ended:
			t.Fatalf("dev ended with %d:\n%s", code, d.err.String())
		default:
		}
		return strings.Contains(d.out.String(), "ledger verify")
	})
	banner := d.out.String()
	found := regexp.MustCompile(`agent +http://(\S+) .*pid (\d+)\n +control plane +\S+ +gRPC (\S+) +pid (\d+)`).FindStringSubmatch(banner)
	if found == nil {
		t.Fatalf("the banner tells no addresses:\n%s", banner)
	}
	d.agent, d.server = found[1], found[3]
	d.agentPid, _ = strconv.Atoi(found[2])
	d.controlPid, _ = strconv.Atoi(found[4])
	return d
}

// take posts to /v1/take and returns status, headers and the answer.
func (d *devRun) take(t *testing.T, body string) (int, http.Header, map[string]any) {
	t.Helper()
	return d.post(t, "take", body)
}

func (d *devRun) post(t *testing.T, what, body string) (int, http.Header, map[string]any) {
	t.Helper()
	resp, err := http.Post("http://"+d.agent+"/v1/"+what, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return resp.StatusCode, resp.Header, answer
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestDevAnswersLikeTheReadmeSays(t *testing.T) {
	t.Parallel()
	d := startDev(t, ledgertest.DB(t))
	const key = `"tenant":"hobbyist","dimension":"report_export"`
	d.walkReadme(t)
	status, header, answer := d.take(t, `{`+key+`}`)
	retry, err := strconv.Atoi(header.Get("Retry-After"))
	if status != 429 || answer["reason"] != "exhausted" || err != nil || retry < 1 || retry > 86400 ||
		!strings.Contains(header.Get("RateLimit"), "r=0") || !strings.Contains(header.Get("RateLimit-Policy"), "q=10") {
		t.Errorf("the 429: %d %v %v", status, header, answer)
	}
	if status, _, answer := d.take(t, `{"tenant":"acme","dimension":"report_exprot"}`); status != 400 || answer["field"] != "dimension" {
		t.Errorf("a dimension that does not exist: %d %v", status, answer)
	}
	for field, body := range map[string]string{
		"tenant": `{"dimension":"report_export"}`,
		"cost":   `{"tenant":"acme","dimension":"report_export","cost":-1}`,
	} {
		if status, _, answer := d.take(t, body); status != 400 || answer["field"] != field {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	if status, _, answer := d.take(t, `{"tenant":"acme","dimension":"report_export","cost":99999999999999999999}`); status != 400 || answer["field"] != "cost" {
		t.Errorf("a huge cost: %d %v", status, answer)
	}
	d.checkOtherKinds(t)
	c := console{env: map[string]string{serverEnv: d.server}}
	var usage string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(usage)
		}
	})
	until(t, "the agent's report", func() bool { // within a ttl
		r := c.run(t, "usage", "hobbyist", "-o", "json")
		r.expect(t, exitDone)
		usage = r.out
		return strings.Contains(usage, `"settled": 10`)
	})
	d.end(t)
}

// checkOtherKinds asks for a rate, and for slots, after what the README does.
func (d *devRun) checkOtherKinds(t *testing.T) {
	t.Helper()
	d.take(t, `{"tenant":"hobbyist","dimension":"api_calls","cost":3}`)
	if status, header, answer := d.take(t, `{"tenant":"hobbyist","dimension":"api_calls","cost":3}`); status != 429 ||
		answer["reason"] != "exhausted" || header.Get("Retry-After") == "" {
		t.Errorf("a rate: %d %v %v", status, header, answer)
	}
	if _, _, answer := d.take(t, `{"tenant":"acme","dimension":"llm_tokens","cost":0}`); answer["remaining"] != 999_260.0 {
		t.Errorf("after the settlement: %v", answer)
	}
	slot := func(what, id string, want int) {
		t.Helper()
		if status, _, answer := d.post(t, what, `{"tenant":"hobbyist","dimension":"batch_jobs","id":"`+id+`"}`); status != want {
			t.Errorf("%s %s: %d %v, want %d", what, id, status, answer, want)
		}
	}
	slot("acquire", "job-3", 200)
	slot("acquire", "job-4", 429)
	if status, _, answer := d.post(t, "release", `{"tenant":"hobbyist","id":"job-3"}`); status != 200 {
		t.Errorf("release: %d %v", status, answer)
	}
	slot("acquire", "job-4", 200)
}

// end stops dev as Ctrl-C would, and sees that nothing is left.
func (d *devRun) end(t *testing.T) {
	t.Helper()
	d.stop()
	if code := <-d.ended; code != exitDone {
		t.Errorf("dev ended with %d:\n%s", code, d.err.String())
	}
	for _, pid := range []int{d.agentPid, d.controlPid} {
		if alive(pid) {
			t.Errorf("process %d outlives dev", pid)
		}
	}
}

func TestKilledControlPlaneUnderLoad(t *testing.T) {
	t.Parallel()
	dsn := ledgertest.DB(t)
	d := startDev(t, dsn)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var mu sync.Mutex
	allowed, statuses := 0, map[int]int{}
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				status, _, _ := d.take(t, `{"tenant":"acme","dimension":"report_export"}`)
				mu.Lock()
				statuses[status]++
				if status == 200 {
					allowed++
				}
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return allowed }
	until(t, "some takes", func() bool { return count() > 50 })
	if err := syscall.Kill(d.controlPid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the control plane's return", func() bool { return strings.Contains(d.err.String(), "control plane is back") })
	before := count()
	until(t, "takes after its return", func() bool { return count() > before+100 || count() >= 1000 })
	close(stop)
	wg.Wait()
	d.stop()
	if code := <-d.ended; code != exitDone {
		t.Errorf("dev ended with %d:\n%s", code, d.err.String())
	}
	for status := range statuses {
		if status != 200 && status != 429 && status != 503 {
			t.Errorf("status %d under load", status)
		}
	}
	if allowed > 1000 {
		t.Errorf("%d allowed of 1000", allowed)
	}
	r := console{env: map[string]string{databaseEnv: dsn}}.run(t, "ledger", "verify")
	r.expect(t, exitDone)
	wantText(t, "ledger verify", r.out, "0 differences")
}
