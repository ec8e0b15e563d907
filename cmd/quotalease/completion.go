package main

import (
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// words are the flags that take one of a few.
var words = map[string][]string{
	"output": {formatTable, formatJSON},
	"format": {"auto", "access-log", "csv"},
	"speed":  {"1", "60", "max"},
	"units":  {allUnits},
	"from":   {fromEnvoy},
	"class":  {"exact", "hard", "bounded", "best_effort"},

	"diff --from":     nil,
	"export --format": {formatCSV, formatJSON}, // of one command, where another has the name too
}

// onDisk are the flags that take a path, the only ones for which a shell should list files.
var onDisk = map[string]bool{"file": true, "trace": true, "policy-dir": true, "data-dir": true}

// roundHours is a duration of whole hours as Go writes it.
var roundHours = regexp.MustCompile(`^(\d+)h0m0s$`)

// complete tells shells what may follow, for a command and all below it: files only where a
// file is meant.
func complete(cmd *cobra.Command) {
	if name := cmd.Name(); name != "diff" && name != "replay" && name != "import" {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	each := func(f *pflag.Flag) {
		if f.Value.Type() == "duration" { // 720h, not 720h0m0s, in what --help prints
			f.DefValue = roundHours.ReplaceAllString(f.DefValue, "${1}h")
		}
		if onDisk[f.Name] {
			return
		}
		choices := words[f.Name]
		if own, ok := words[cmd.Name()+" --"+f.Name]; ok {
			choices = own
		}
		// The error says that the flag has a completion already, which none has.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
	}
	cmd.LocalNonPersistentFlags().VisitAll(each)
	cmd.PersistentFlags().VisitAll(each)
	for _, below := range cmd.Commands() {
		complete(below)
	}
}
