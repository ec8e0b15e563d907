package bench
import ("testing";"context";"regexp";"time";"fmt";"os";"runtime/pprof";"strconv")
func TestProf(t *testing.T){
 re:=regexp.MustCompile(os.Getenv("RUN"))
 rounds,_:=strconv.Atoi(os.Getenv("ROUNDS")); if rounds==0 {rounds=3}
 f,_:=os.Create("/tmp/prof/cpu.out"); defer f.Close()
 var started bool
 r,err:=Run(context.Background(),Options{DatabaseURL: os.Getenv("DSN"), Run:re,Rounds:rounds,Time:time.Second,Say:func(s string){ if !started {started=true; pprof.StartCPUProfile(f)} }})
 pprof.StopCPUProfile()
 if err!=nil{t.Fatal(err)}
 for _,x:=range r.Results{fmt.Printf("%s | %s: %.0f/s p50 %.2f p99 %.2f cpu %.1f\n",x.Scene,x.Subject,x.Median.PerSecond,x.Median.P50ms,x.Median.P99ms,x.Median.CPUus)}
 for _,x:=range r.Figures{ fmt.Printf("%s: %+v\n", "fig", x)}
}
