package pgserver

// BinEnv names the environment variable that holds the folder of the server binaries.
const BinEnv = "QUOTALEASE_PG_BIN"

// Config says what to start. The zero Config is a temporary, undurable server for tests. The
// binaries are those in $QUOTALEASE_PG_BIN, else on the PATH, else in the usual places of
// packages, newest major version first.
type Config struct {
	// Dir keeps the database between runs, and is always durable. It must be empty, new or
	// made by an earlier Start. Empty means a temporary folder that Stop removes.
	Dir string
	// Durable makes commits survive a crash of the machine. False trades that for speed and
	// is meant for tests; a named Dir ignores it.
	Durable bool
	// Download allows fetching the binaries when none are installed. It is never done as root.
	Download bool
	// Log receives a line for each step that takes time; nil drops them.
	Log func(string)
}

func (c Config) log(line string) {
	if c.Log != nil {
		c.Log(line)
	}
}

// ErrNoBinaries reports that no PostgreSQL server is installed here and none may be fetched.
type ErrNoBinaries struct{}

func (ErrNoBinaries) Error() string {
	return "no PostgreSQL server binaries were found: install them (apt-get install postgresql, or " +
		"brew install postgresql), name their folder in " + BinEnv + ", or pass --database-url"
}
