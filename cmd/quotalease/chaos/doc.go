// Package chaos plays rounds of real faults on real processes: two control plane replicas and
// three agents of the product as it is built, on a private Postgres, and once more through
// pgbouncer in transaction mode. Everything here is test code, for Linux.
//
// While callers take over HTTP, agents, replicas and Postgres are killed and stopped by
// signals, and connections between them hang, are refused, or are cut in the middle of a
// COMMIT by a proxy: before it, in it, and after it but before its answer. A round's plan comes
// from one seed, which is printed; what the processes make of it is up to the machine. Then
// the recorded history, every take with its answer, is held against the ledger.
//
// Postgres is durable (fsync is on), so that whatever it acknowledged survives its kill. Every
// process listens on loopback or a Unix socket and ends with the test, however that ends:
// children stop when their standard input does, and what is stopped by SIGSTOP is continued by
// a process of its own. On a violation the logs and the history are kept and named.
//
//	go test ./cmd/quotalease/chaos -v -chaos.for=5m -chaos.seed=1
//
// Promises, and the tests that guard them:
//
//   - Callers are never allowed more than the limit of an exact or hard key, and the limit and
//     its budget of a bounded one. No grant or spend that was acknowledged is lost, nothing is
//     charged that nobody took, and `ledger verify` finds no difference. Once faults end,
//     nothing stays out, and every key with room is served by every agent. (TestRealFaults)
//   - All of this holds through pgbouncer in transaction mode. (TestO9TransactionPooling)
//   - While Postgres hangs, callers are answered in time and never denied, and neither
//     connections nor goroutines pile up. (TestO2StoreHangsUnderLoad)
//   - One connection serves a whole replica. (TestO8OneConnectionServesAll)
//   - Of several hosts the primary is found, also after a failover. (TestO1FailoverToTheOtherHost)
//   - Each broken promise would be noticed. (TestTheModelNoticesEachBrokenPromise)
//   - A seed gives one plan, and each kind of fault its share. (TestASeedGivesOnePlan)
//   - A COMMIT is found in what a client sends, however it is sent and arrives.
//     (TestCommitIsFoundInTheStream)
package chaos
