//go:build unix

package pgserver

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

func TestNewestMajorComesFirst(t *testing.T) {
	t.Parallel()
	got := newestFirst([]string{
		"/opt/homebrew/opt/postgresql/bin",
		"/usr/lib/postgresql/9.6/bin",
		"/usr/lib/postgresql/15/bin",
		"/usr/pgsql-17/bin",
		"/opt/homebrew/opt/postgresql@16/bin",
		"/Applications/Postgres.app/Contents/Versions/latest/bin",
		"/Applications/Postgres.app/Contents/Versions/18/bin",
		"/usr/lib/postgresql/99999999999999999999/bin",
	})
	want := []string{
		"/Applications/Postgres.app/Contents/Versions/18/bin",
		"/usr/pgsql-17/bin",
		"/opt/homebrew/opt/postgresql@16/bin",
		"/usr/lib/postgresql/15/bin",
		"/usr/lib/postgresql/9.6/bin",
		"/opt/homebrew/opt/postgresql/bin",
		"/Applications/Postgres.app/Contents/Versions/latest/bin",
		"/usr/lib/postgresql/99999999999999999999/bin",
	}
	if !slices.Equal(got, want) {
		t.Errorf("order\n %s\nwant\n %s", strings.Join(got, "\n "), strings.Join(want, "\n "))
	}
}

// fakeBinaries makes files that look like the programs; find does not run them.
func fakeBinaries(t *testing.T, dir string, names ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBinariesAreFoundInOrder(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	named := fakeBinaries(t, root+"/named", "initdb", "postgres")
	onPath := fakeBinaries(t, root+"/path", "initdb", "postgres")
	old := fakeBinaries(t, root+"/pkg/9/bin", "initdb", "postgres")
	fresh := fakeBinaries(t, root+"/pkg/17/bin", "initdb", "postgres")
	client := fakeBinaries(t, root+"/pkg/18/bin", "psql")
	half := fakeBinaries(t, root+"/pkg/19/bin", "initdb")
	links := root + "/links" // one link is enough: both programs are looked for at its end
	if err := os.Mkdir(links, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(old+"/initdb", links+"/initdb"); err != nil {
		t.Fatal(err)
	}
	globs := []string{root + "/pkg/*/bin"}
	for name, c := range map[string]struct{ explicit, path, want string }{
		"named wins":           {named, onPath, named},
		"then the path":        {"", client + ":" + onPath, onPath},
		"then the newest":      {"", client + "::" + half, fresh},
		"a link is followed":   {"", links, old},
		"a link may be named":  {links, onPath, old},
		"no path but packages": {"", "", fresh},
	} {
		if got, err := find(c.explicit, c.path, globs); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
	for _, bad := range []string{half, client, root + "/nowhere"} {
		_, err := find(bad, onPath, globs)
		if want := "use PostgreSQL binaries in " + bad + ": initdb and postgres must both be there"; err == nil || err.Error() != want {
			t.Errorf("error = %v\n want   %s", err, want)
		}
	}
}

func TestNoBinariesSaysWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := find("", t.TempDir(), []string{t.TempDir() + "/*/bin"})
	if !errors.Is(err, ErrNoBinaries{}) {
		t.Fatalf("error = %v, want ErrNoBinaries", err)
	}
	for _, want := range []string{"apt-get install postgresql", "brew install postgresql", BinEnv, "--database-url"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestConnectionStringsKeepEveryName(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir := "/" + rapid.StringMatching(`[a-z '"\\=%/]*`).Draw(t, "dir")
		name := rapid.StringMatching(`[a-zA-Z0-9 '"\\=%/?&@:#-]+`).Draw(t, "name")
		for _, dsn := range []string{
			socketDSN(dir),
			"postgres://someone:secret@db.example:6543/first?sslmode=disable&dbname=second",
		} {
			changed, err := withDatabase(dsn, name)
			if err != nil {
				t.Fatal(err)
			}
			before, err := pgx.ParseConfig(dsn)
			if err != nil {
				t.Fatalf("%s: %v", dsn, err)
			}
			after, err := pgx.ParseConfig(changed)
			if err != nil {
				t.Fatalf("%s: %v", changed, err)
			}
			if after.Database != name {
				t.Fatalf("%s names database %q, want %q", changed, after.Database, name)
			}
			if after.Host != before.Host || after.Port != before.Port || after.User != before.User || after.Password != before.Password {
				t.Fatalf("%s goes elsewhere than %s", changed, dsn)
			}
		}
		if got, err := pgx.ParseConfig(socketDSN(dir)); err != nil || got.Host != dir {
			t.Fatalf("host %q, %v; want %q", got.Host, err, dir)
		}
	})
}

func TestImpossibleNamesAreRefusedWithoutTheSecret(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dsn, name string }{
		{"host=/tmp", ""},
		{"host=/tmp", "a\x00b"},
		{"postgres://u:secret@h:port/x", "a"},
	} {
		got, err := CreateDatabase(t.Context(), c.dsn, c.name, "")
		if err == nil {
			t.Errorf("(%q, %q) gave %q", c.dsn, c.name, got)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("error %q tells the password", err)
		}
	}
}

func TestMajorVersionIsRead(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": "15",
		"postgres (PostgreSQL) 18.3\n":                           "18",
		"postgres (PostgreSQL) 19beta1\n":                        "19",
		"something else\n":                                       "something else",
	} {
		if got := majorOf(answer); got != want {
			t.Errorf("majorOf(%q) = %q, want %q", answer, got, want)
		}
	}
}
