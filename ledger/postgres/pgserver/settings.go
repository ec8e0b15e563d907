//go:build unix

package pgserver

import (
	"strings"
)

const (
	// superuser owns the cluster and is the only role in it.
	superuser = "quotalease"
	// port only names the socket file: nothing listens on TCP.
	port = "5432"
)

// childEnv is all that the children see of our environment: a stray PGDATA, LC_ALL or TZ of
// the caller must not reach them.
func childEnv(binDir string) []string {
	return []string{"LC_ALL=C", "TZ=UTC", "PATH=" + binDir + ":/usr/bin:/bin"}
}

// initdbArgs makes a cluster whose only door is the socket. Whoever may enter the socket's
// folder (mode 0700) is trusted, so there is no password to keep.
func initdbArgs(data string, durable bool) []string {
	args := []string{
		"-D", data, "-U", superuser, "-E", "UTF8", "--locale=C",
		"--auth-local=trust", "--auth-host=reject",
	}
	if !durable {
		args = append(args, "--no-sync")
	}
	return args
}

// serverArgs are all our settings; postgresql.conf stays as initdb made it.
func serverArgs(data, socketDir string, durable bool) []string {
	settings := []string{
		"cluster_name=quotalease", // seen in the process list
		"listen_addresses=",
		"unix_socket_directories=" + quoteListItem(socketDir),
		"unix_socket_permissions=0700",
		"port=" + port,
		"max_connections=100",
		"shared_buffers=64MB",
		"logging_collector=off", // the log is our file, on stderr
		"log_destination=stderr",
	}
	safety := "on"
	if !durable {
		safety = "off"
	}
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		settings = append(settings, name+"="+safety)
	}
	args := []string{"-D", data}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// quoteListItem quotes one element of a list setting.
func quoteListItem(item string) string {
	return `"` + strings.ReplaceAll(item, `"`, `""`) + `"`
}

func socketDSN(socketDir string) string {
	return "host=" + quoteDSN(socketDir) + " port=" + port + " user=" + superuser + " dbname=postgres sslmode=disable"
}
