package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"
)

// plan is what to run.
type plan struct {
	scenes []scene
	keys   int // of the memory scene; 0: it is left out
	rounds int
	span   time.Duration
}

const memoryScene = "memory"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	pattern := flags.String("run", "", "regexp: only these scenes, by their names; that of memory is called "+memoryScene)
	rounds := flags.Int("rounds", 5, "rounds, 1 or more, of which the median counts")
	span := flags.Duration("time", 500*time.Millisecond, "how long each measurement takes, 1ms or more")
	keys := flags.Int("keys", 1_000_000, "keys in use in the scene of memory, 1 or more")
	file := flags.String("json", "", "file to write everything to")
	pageFile := flags.String("html", "", "file to write a report with charts to")
	from := flags.String("from", "", "file that -json wrote, to show instead of measuring")
	told := flags.String("tell", "", "file of quotalease bench -o json: write it and this run into README.md and PERFORMANCE.md")
	at := flags.String("at", "", "version that -tell tells of")
	_ = flags.Parse(args) // it exits
	which, err := regexp.Compile(*pattern)
	if err != nil {
		return fmt.Errorf("read -run: %w", err)
	}
	if *rounds < 1 || *keys < 1 || *span < time.Millisecond || flags.NArg() > 0 {
		return fmt.Errorf("read flags: -rounds and -keys are 1 or more, -time is 1ms or more, and there are no arguments")
	}
	r := &report{}
	if *from != "" {
		err = load(*from, r)
	} else {
		r, err = planned(which, *rounds, *span, *keys).run(func(what string) { fmt.Fprintln(os.Stderr, what) })
	}
	if err != nil {
		return err
	}
	if *file != "" {
		if err := r.save(*file); err != nil {
			return err
		}
	}
	if *pageFile != "" {
		if err := toFile(*pageFile, r.writePage); err != nil {
			return err
		}
	}
	if *told != "" {
		return r.tell(*told, *at)
	}
	return r.write(os.Stdout)
}

// planned is what a pattern names.
func planned(which *regexp.Regexp, rounds int, span time.Duration, keys int) plan {
	p := plan{rounds: rounds, span: span}
	for _, s := range scenes() {
		if which.MatchString(s.name) {
			p.scenes = append(p.scenes, s)
		}
	}
	if which.MatchString(memoryScene) {
		p.keys = keys
	}
	return p
}

// run plays every scene; tell hears what is going on.
func (p plan) run(tell func(string)) (*report, error) {
	r := &report{When: time.Now(), Machine: thisMachine(), Rounds: p.rounds, Span: p.span.String()}
	for _, s := range p.scenes {
		tell(s.name)
		results, err := play(s, subjects(), p.rounds, p.span)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		r.Results = append(r.Results, results...)
	}
	var err error
	if r.Figures, err = judge(figures(), r.Results); err != nil || p.keys == 0 {
		return r, err
	}
	for _, s := range stores() {
		tell(fmt.Sprintf("%s: %d keys in %s", memoryScene, p.keys, s.name))
		w, err := weigh(s, p.keys, p.rounds)
		if err != nil {
			return nil, err
		}
		r.Weights = append(r.Weights, w)
	}
	more, err := judgeMemory(r.Weights)
	r.Figures = append(r.Figures, more...)
	return r, err
}

// toFile writes a file.
func toFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
