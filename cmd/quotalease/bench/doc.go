// Package bench measures the whole on a real Postgres, beside what anybody could do with the same
// server in the same run.
package bench
