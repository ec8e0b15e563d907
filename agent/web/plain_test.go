package web

import (
	"reflect"
	"testing"

	"github.com/quotalease/quotalease/agent/door"
)

// plainBodies are bodies that are read plainly, or nearly.
var plainBodies = []string{
	`{"tenant":"acme","dimension":"calls"}`, `{"tenant":"acme","dimension":"calls","cost":0}`,
	" {\n\"tenant\" : \"acme\" ,\t\"operation\":\"export\",\"times\":2,\"ticket\":\"t\"\r} ", `{"id":"","tenant":"a","cost":9007199254740991}`,
	`{"cost":9007199254740992}`, `{"cost":00}`, `{"cost":01}`, `{"cost":1e3}`, `{"cost":1.0}`, `{"cost":-1}`, `{"cost":}`, `{"times":0}`, `{"cost":99999999999999999999}`,
	`{"tenant":"a","tenant":"b"}`, `{"Tenant":"a"}`, `{"tenant":"a\u0062"}`, `{"tenant":"ä"}`, "{\"tenant\":\"a\tb\"}", "{\"tenant\":\"\x7f\"}", `{"tenant":"a"}}`, `{"tenant":"a"`, `{"tenant":"a",}`,
	`{}`, `{"tenant"}`, `{"takes":[]}`, `{"caller":{}}`, `{"tenant":null}`, `null`, ``, `{"tenant":"a"} x`, `{"cost":1 2}`, `{"cost":"1"}`,
}

// FuzzPlainBodies: what is read plainly is read as readObject reads it, and never what that refuses.
func FuzzPlainBodies(f *testing.F) {
	for _, body := range plainBodies {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var plainly, got, want door.Request
		read := readPlain(body, &plainly)
		err := readObject(body, "body", "", inTurnFields(&want))
		if read && (err != nil || !reflect.DeepEqual(plainly, want)) {
			t.Fatalf("%q: plainly %+v, otherwise %+v, %v", body, plainly, want, err)
		}
		if again := readTake(body, "body", &got); (again == nil) != (err == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %+v, %v; want %+v, %v", body, got, again, want, err)
		}
	})
}

func TestOrdinaryBodiesAreReadPlainly(t *testing.T) {
	t.Parallel()
	for i, body := range plainBodies {
		if got, want := readPlain([]byte(body), new(door.Request)), i < 4; got != want {
			t.Errorf("%q is read plainly: %v, want %v", body, got, want)
		}
	}
}
