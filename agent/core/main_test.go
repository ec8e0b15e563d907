package core

import (
	"fmt"
	"os"
	"reflect"
	"testing"
)

// TestMain looks at what all keys share that need nothing of their own: whatever the tests did, it
// is still all zero. Somebody who wrote to it would have changed every such key.
func TestMain(m *testing.M) {
	code := m.Run()
	if !reflect.DeepEqual(*noRare, rare{shared: true}) || noRest != (leaseRest{}) {
		fmt.Printf("what keys share was written to: %+v, %+v\n", *noRare, noRest)
		code = 1
	}
	os.Exit(code)
}
