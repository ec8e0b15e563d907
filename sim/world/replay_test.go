package world
import ("testing";"os";"strconv")
func TestShow(t *testing.T) {
	n, _ := strconv.ParseUint(os.Getenv("SEED"),10,64)
	if n == 0 { return }
	r := Run(n, 10000, os.Stdout)
	t.Log(r.Fault)
}
