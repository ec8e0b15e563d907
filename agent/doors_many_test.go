package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/quotalease/quotalease/agent/door"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// postMany asks over HTTP, with a take as the only one of many.
func (w *world) postMany(what, body string) told {
	w.t.Helper()
	if what != "take" {
		return w.post(what, body)
	}
	all := w.postAll(body)
	if len(all) != 1 {
		w.t.Fatalf("%s: %d results", body, len(all))
	}
	return all[0]
}

// postAll asks for many takes over HTTP.
func (w *world) postAll(bodies ...string) (all []told) {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.http.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/takes", strings.NewReader(`{"takes":[`+strings.Join(bodies, ",")+`]}`)))
	var many struct{ Results []json.RawMessage }
	if err := json.Unmarshal(rec.Body.Bytes(), &many); err != nil || rec.Code != 200 {
		w.t.Fatalf("%s: %d %s", bodies, rec.Code, rec.Body)
	}
	for i, result := range many.Results {
		var problem struct{ Status int }
		if err := json.Unmarshal(result, &problem); err != nil {
			w.t.Fatal(err)
		}
		if problem.Status == 0 {
			problem.Status = 200
		}
		all = append(all, w.read(bodies[i], problem.Status, result))
	}
	return all
}

// callMany asks over gRPC, with a take as the only one of many.
func (w *world) callMany(what, body string) told {
	w.t.Helper()
	if what != "take" {
		return w.call(what, body)
	}
	all, err := w.callAll(w.t.Context(), body)
	if err != nil || len(all) != 1 {
		w.t.Fatalf("%s: %d results, %v", body, len(all), err)
	}
	return all[0]
}

// callAll asks for many takes over gRPC.
func (w *world) callAll(ctx context.Context, bodies ...string) (all []told, err error) {
	w.t.Helper()
	req := &pb.TakeManyRequest{}
	for _, body := range bodies {
		var take pb.TakeRequest
		if err := protojson.Unmarshal([]byte(body), &take); err != nil {
			w.t.Fatalf("%s: %v", body, err)
		}
		req.Takes = append(req.Takes, &take)
	}
	reply, err := w.grpc.TakeMany(ctx, req)
	for i, result := range reply.GetResults() {
		var v told
		switch f := result.GetFault(); {
		case f != nil:
			v.Outcome, v.Field, v.Detail, v.RetryAfterMs = outcomes[codes.Code(f.GetCode())], f.GetField(), f.GetAllowed(), f.GetRetryAfterMs()
		default:
			v.answer(result.GetAnswer())
			v.Outcome = "allowed"
			if !v.Allowed {
				v.Outcome = "denied"
				if take := req.GetTakes()[i]; take.Cost != nil && take.GetCost() == 0 {
					v.Outcome = "peeked"
				}
			}
		}
		all = append(all, v)
	}
	return all, err
}

// Each of many takes has an answer of its own, in its place: what is wrong with one, or denied, is
// nothing to the others.
func TestManyTakesAreAnsweredEachByItself(t *testing.T) {
	t.Parallel()
	bodies := []string{
		of + `"exports","cost":4}`, of + `"exports","cost":11}`, of + `"expotrs"}`, `{"dimension":"exports"}`,
		of + `"views","id":"a"}`, of + `"views","id":"a"}`, does + `"export"}`, several + `[{"dimension":"payments","cost":101}]}`,
		`{"tenant":"other","dimension":"exports","cost":10}`, of + `"exports","cost":0}`,
	}
	want := []string{
		"allowed exports", "denied too_large exports", "bad dimension: one that policy defines: calls, exports, jobs, payments, tokens, views",
		"bad tenant: 1 to 256 bytes of UTF-8 without control characters", "allowed views", "allowed views", "allowed exports",
		"denied too_large payments", "allowed exports", "allowed exports",
	}
	for name, ask := range map[string]func(w *world) []told{
		"http": func(w *world) []told { return w.postAll(bodies...) },
		"grpc": func(w *world) []told {
			all, err := w.callAll(w.t.Context(), bodies...)
			if err != nil {
				t.Error(err)
			}
			return all
		},
	} {
		inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
			all := ask(w)
			if len(all) != len(want) {
				t.Fatalf("%s: %d results, want %d", name, len(all), len(want))
			}
			for i, v := range all {
				if got := v.String(); !strings.HasPrefix(got, want[i]) {
					t.Errorf("%s %s: %q, want %q", name, bodies[i], got, want[i])
				}
			}
			// What was allowed was charged, once.
			for key, left := range map[string]string{`{"tenant":"acme","dimension":"exports","cost":0}`: "allowed exports 4/10", `{"tenant":"other","dimension":"exports","cost":0}`: "peeked exhausted exports 0/10"} {
				if got := w.post("take", key).String(); got != left {
					t.Errorf("%s: afterwards %q, want %q", name, got, left)
				}
			}
		})
	}
}

func TestTooManyTakesAreRefused(t *testing.T) {
	t.Parallel()
	inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
		for _, n := range []int{0, door.MaxMany + 1} {
			_, err := w.callAll(t.Context(), slices.Repeat([]string{of + `"exports"}`}, n)...)
			var v told
			if v.judge(t, err); v.String() != "bad takes: a list of 1 to 100 requests" {
				t.Errorf("%d takes: %s", n, v)
			}
		}
		if got := w.post("take", of+`"exports","cost":0}`).String(); got != "allowed exports 10/10" {
			t.Errorf("afterwards %q", got)
		}
		all, err := w.callAll(t.Context(), slices.Repeat([]string{of + `"views"}`}, door.MaxMany)...)
		if err != nil || len(all) != door.MaxMany || all[door.MaxMany-1].String() != "allowed views 0/-1" {
			t.Errorf("as many as may be: %d results, %v", len(all), err)
		}
	})
}

// Takes of keys that have no lease yet wait together, and no longer than one of them would.
func TestManyTakesWaitTogether(t *testing.T) {
	t.Parallel()
	inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
		w.up.lie(200 * time.Millisecond)
		timed := func(ask func() []told) ([]told, time.Duration) {
			began := time.Now()
			return ask(), time.Since(began)
		}
		_, one := timed(func() []told { return []told{w.call("take", `{"tenant":"first","dimension":"tokens"}`)} })
		var bodies []string
		for i := range door.MaxMany {
			bodies = append(bodies, fmt.Sprintf(`{"tenant":"t-%d","dimension":"tokens"}`, i))
		}
		cold, together := timed(func() []told { all, _ := w.callAll(t.Context(), bodies...); return all })
		warm, atOnce := timed(func() []told { return w.postAll(bodies...) })
		if one < 200*time.Millisecond || together > 2*one || atOnce != 0 {
			t.Errorf("one took %s, many together %s, and with units in hand %s", one, together, atOnce)
		}
		if len(cold) != len(bodies) || len(warm) != len(bodies) {
			t.Fatalf("%d and %d results, want %d", len(cold), len(warm), len(bodies))
		}
		for i, v := range append(cold, warm...) {
			if v.Outcome != "allowed" {
				t.Errorf("%s: %s", bodies[i%len(bodies)], v)
			}
		}
	})
}

// Who waits is answered before the caller's own time is over, so that the answers of the others
// are not lost.
func TestManyTakesAreAnsweredInTime(t *testing.T) {
	t.Parallel()
	inWorld(t, doorsPolicy, func(t *testing.T, w *world) {
		if v := w.call("take", of+`"tokens"}`); v.Outcome != "allowed" {
			t.Fatal(v)
		}
		w.up.lie(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		all, err := w.callAll(ctx, of+`"tokens"}`, `{"tenant":"other","dimension":"tokens"}`)
		if err != nil || len(all) != 2 || all[0].Outcome != "allowed" || all[1].String() != "denied cold tokens 0/100000" {
			t.Errorf("%v, %v", all, err)
		}
	})
}
