package agent

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// The names of the keys that were hot are kept on disk, so that the next start has leases of them
// before callers are sent to it. They are names only: what is left of each the ledger says.

// hotFile is the file in Config.StateDir: a line as keptFile has it, and then a JSON list.
var hotFile = keptFile{name: "hot", is: "hot keys", most: 1 << 20}

// maxHot is how many keys are kept, the hottest.
const maxHot = 256

// keptHot keeps the names of hot keys on disk.
type keptHot struct {
	dir    string // empty: nothing is kept
	maxAge time.Duration
	log    *slog.Logger
}

// load returns the keys that were kept, or none if they cannot be believed.
func (h *keptHot) load(now time.Time) []quota.Key {
	if h.dir == "" {
		return nil
	}
	var keys []quota.Key
	_, body, err := hotFile.read(h.dir, now, h.maxAge)
	if err == nil && body != nil {
		keys, err = readHot(body)
	}
	if err != nil {
		h.log.Warn("ignoring the hot keys on disk", "file", hotFile.in(h.dir), "cause", err)
		return nil
	}
	return keys
}

// keep writes the keys. None at all are no news: an agent that was not called since its start
// knows nothing better than what it was started with.
func (h *keptHot) keep(now time.Time, keys []quota.Key) {
	if h.dir == "" || len(keys) == 0 {
		return
	}
	body, err := writeHot(keys)
	if err == nil {
		err = hotFile.write(h.dir, now, body)
	}
	if err != nil {
		h.log.Warn("the hot keys could not be kept on disk", "file", hotFile.in(h.dir), "cause", err)
	}
}

// hotKey is how a key is written.
type hotKey struct {
	Tenant    string `json:"tenant"`
	Dimension string `json:"dimension"`
}

func writeHot(keys []quota.Key) ([]byte, error) {
	list := make([]hotKey, 0, len(keys))
	for _, k := range keys {
		list = append(list, hotKey(k))
	}
	return json.Marshal(list)
}

// readHot reads what writeHot wrote.
func readHot(body []byte) ([]quota.Key, error) {
	var list []hotKey
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("read the hot keys: %w", err)
	}
	if len(list) > maxHot {
		return nil, fmt.Errorf("%d hot keys are too many", len(list))
	}
	keys := make([]quota.Key, 0, len(list))
	for _, k := range list {
		if err := quota.Key(k).Validate(); err != nil {
			return nil, fmt.Errorf("read the hot keys: %w", err)
		}
		keys = append(keys, quota.Key(k))
	}
	return keys, nil
}
