package identity

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
)

// API keys are looked up by their plain SHA-256. A slow or a keyed hash protects secrets that can
// be guessed; a key that no less than minKey random characters make up cannot be, so who reads
// the file has nothing to try. A keyed hash would add a second secret that every agent must hold
// beside the file, where who reads one reads both. The lookup is by the hash: how long it takes
// depends on what the caller sent and not on how much of it is right, since nobody can choose
// keys by the beginning of their hashes.
type keyTable map[[sha256.Size]byte]string

const (
	minKey = 20 // characters; a shorter key could be guessed, and never passes
	maxKey = 512
)

// parseKeys reads lines of a hash in hexadecimal, a space and a tenant. Empty lines and those that
// begin with # are comments. What a bad line holds is not repeated: it may be a key.
func parseKeys(texts [][]byte) (keyTable, error) {
	table := keyTable{}
	n := 0
	for line := range bytes.Lines(texts[0]) {
		n++
		text := strings.TrimRight(string(line), " \t\r\n")
		if text == "" || text[0] == '#' {
			continue
		}
		digits, tenant, _ := strings.Cut(text, " ")
		var hash [sha256.Size]byte
		if len(digits) != hex.EncodedLen(len(hash)) {
			return nil, fmt.Errorf("line %d: no hash; allowed: 64 hexadecimal digits, a space, a tenant", n)
		}
		if _, err := hex.Decode(hash[:], []byte(digits)); err != nil {
			return nil, fmt.Errorf("line %d: no hash; allowed: 64 hexadecimal digits, a space, a tenant", n)
		}
		tenant = strings.TrimLeft(tenant, " \t")
		var field *quota.FieldError
		if err := quota.ValidateTenant(tenant); errors.As(err, &field) {
			return nil, fmt.Errorf("line %d: no tenant; allowed: %s", n, field.Allowed)
		}
		if _, twice := table[hash]; twice {
			return nil, fmt.Errorf("line %d: this key's hash was given before; allowed: one tenant a key", n)
		}
		table[hash] = tenant
	}
	return table, nil
}

func (t keyTable) tenant(key string) (string, error) {
	if len(key) >= minKey && len(key) <= maxKey {
		if tenant, ok := t[sha256.Sum256([]byte(key))]; ok {
			return tenant, nil
		}
	}
	return "", refused(Unknown, "the API key is not known")
}
