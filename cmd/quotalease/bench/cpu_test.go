package bench

import (
	"os"
	"testing"
	"time"
)

func TestAProcessIsReadWhateverItsName(t *testing.T) {
	t.Parallel()
	const rest = " S 77 1 1 0 -1 4194560 0 0 0 0 150 50 30 20 20 0 1 0 100 0 0"
	for _, name := range []string{"(postgres)", "(a b)", "((a) 9 9 9 ()", "()"} {
		got, err := readStat([]byte("123 " + name + rest))
		if want := (stat{77, 2 * time.Second, 500 * ms}); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	for _, line := range []string{"", "1 (x) S 1", "1 (x) S a b c d e f g h i j k l m n o p"} {
		if got, err := readStat([]byte(line)); err == nil {
			t.Errorf("%q: %+v, want an error", line, got)
		}
	}
}

func FuzzReadStat(f *testing.F) {
	f.Add([]byte("1 (x) S 7 1 1 0 -1 4194560 0 0 0 0 150 50 30 20 20"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if got, err := readStat(line); err != nil && got != (stat{}) {
			t.Errorf("%q: both %+v and %v", line, got, err)
		}
	})
}

func TestProcessorTimeIsThatOfTheServer(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	before, err := serverCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for after := before; after < before+tick; { // until a tick of ours shows
		for i := range 1 << 20 {
			sum += i
		}
		if after, err = serverCPU(os.Getpid()); err != nil || after < before {
			t.Fatalf("%v after %v, %v", after, before, err)
		}
	}
	if _, err := serverCPU(1 << 30); err == nil {
		t.Error("a process that is not there has used something")
	}
}
