package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// written is a log that may be read while it is written.
type written struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// following runs a verifier of an API key file in a bubble.
func following(t *testing.T, text string, test func(t *testing.T, v *Verifier, path string, log *written)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		path := file(t, "keys", text)
		var log written
		v, err := New(Config{KeysFile: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go v.Run(ctx)
		test(t, v, path, &log)
		cancel()
		synctest.Wait()
	})
}

// later lets the follower look once more.
func later() {
	time.Sleep(lookEvery)
	synctest.Wait()
}

func TestFilesAreFollowed(t *testing.T) {
	t.Parallel()
	const fresh = "fresh-key-0123456789abcdef"
	following(t, hashOf(acmeKey)+" acme\n", func(t *testing.T, v *Verifier, path string, log *written) {
		later()
		somebody(t, v, from("192.0.2.7", "X-Api-Key", acmeKey), "acme")
		if log.String() != "" {
			t.Errorf("nothing changed, yet the log says %s", log)
		}
		rewrite(t, path, hashOf(fresh)+" acme\n")
		later()
		somebody(t, v, from("192.0.2.7", "X-Api-Key", fresh), "acme")
		nobody(t, v, from("192.0.2.7", "X-Api-Key", acmeKey), "the API key is not known")
	})
}

func TestABadFileChangesNothing(t *testing.T) {
	t.Parallel()
	following(t, hashOf(acmeKey)+" acme\n", func(t *testing.T, v *Verifier, path string, log *written) {
		rewrite(t, path, "my-secret-key acme\n")
		later()
		later()
		somebody(t, v, from("192.0.2.7", "X-Api-Key", acmeKey), "acme")
		if n := strings.Count(log.String(), "line 1: no hash"); n != 1 || strings.Contains(log.String(), "my-secret") {
			t.Errorf("the fault is said %d times: %s", n, log)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		later()
		somebody(t, v, from("192.0.2.7", "X-Api-Key", acmeKey), "acme")
		rewrite(t, path, "")
		later()
		nobody(t, v, from("192.0.2.7", "X-Api-Key", acmeKey), "the API key is not known")
	})
}

// Whatever the file: what is read are hashes and tenants that could be, and no line is repeated.
func FuzzKeysFile(f *testing.F) {
	for _, seed := range []string{"", "# x\n", hashOf("x") + " acme\n", hashOf("x") + "  a b\r\n\r\n", "x y\n", hashOf("x"), strings.Repeat("0", 64) + " \x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := parseKeys([][]byte{text})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") || len(err.Error()) > 150 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if len(table) > bytes.Count(text, []byte("\n"))+1 {
			t.Fatalf("%q: %d keys", text, len(table))
		}
		for hash, tenant := range table {
			if quota.ValidateTenant(tenant) != nil || len(hash) != sha256.Size {
				t.Fatalf("%q: %x is %q's", text, hash, tenant)
			}
		}
	})
}
