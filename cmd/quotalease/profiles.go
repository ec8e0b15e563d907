package main

import (
	"net/http"
	"net/http/pprof"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/quotalease/quotalease/agent/answer"
)

const profilesPath = "/debug/pprof/"

// pprofFlag adds --pprof, which says whether a process shows what it does.
func pprofFlag(flags *pflag.FlagSet, on *bool) {
	flags.BoolVar(on, "pprof", false, "serve Go's profiles at "+profilesPath+" of the HTTP address, to this machine alone")
}

// withProfiles serves Go's profiles beside a process's own pages, if they are on. They tell what
// callers send, and making one takes processor time, so whoever is not on this machine is refused
// whatever else it may ask.
func withProfiles(on bool, next http.Handler) http.Handler {
	if !on {
		return next
	}
	mux := http.NewServeMux()
	mux.HandleFunc(profilesPath, pprof.Index)
	mux.HandleFunc(profilesPath+"cmdline", pprof.Cmdline)
	mux.HandleFunc(profilesPath+"profile", pprof.Profile)
	mux.HandleFunc(profilesPath+"symbol", pprof.Symbol)
	mux.HandleFunc(profilesPath+"trace", pprof.Trace)
	local := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !peer.Addr().Unmap().IsLoopback() {
			answer.Refuse(w, http.StatusForbidden, "", "profiles are for this machine alone")
			return
		}
		mux.ServeHTTP(w, r)
	})
	all := http.NewServeMux()
	all.Handle(profilesPath, local)
	all.Handle("/", next)
	return all
}
