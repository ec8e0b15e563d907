package world

import (
	"bytes"
	"os"
	"testing"
)

func TestTheSameSeedIsTheSameHistory(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		var first, second bytes.Buffer
		a, b := Run(seed, 2000, &first), Run(seed, 2000, &second)
		if a.Digest != b.Digest || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
		if os.Getenv("SHOW") != "" {
			os.Stderr.Write(first.Bytes())
		}
		if a.Fault != nil {
			t.Errorf("seed %d: %v", seed, a.Fault)
		}
	}
}
