//go:build unix

package pgserver

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// packageGlobs are the folders in which packages put server binaries. Most of them are on
// nobody's PATH.
var packageGlobs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/opt/homebrew/opt/postgresql/bin",
	"/usr/local/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// find returns a folder that holds initdb and postgres, or ErrNoBinaries. A folder that was
// named explicitly is never passed over for another.
func find(explicit, searchPath string, globs []string) (string, error) {
	if explicit != "" {
		dir, ok := serverDir(explicit)
		if !ok {
			return "", fmt.Errorf("use PostgreSQL binaries in %s: initdb and postgres must both be there", explicit)
		}
		return dir, nil
	}
	candidates := filepath.SplitList(searchPath)
	var packaged []string
	for _, glob := range globs {
		found, err := filepath.Glob(glob)
		if err != nil {
			return "", fmt.Errorf("look for PostgreSQL binaries in %s: %w", glob, err)
		}
		packaged = append(packaged, found...)
	}
	for _, candidate := range append(candidates, newestFirst(packaged)...) {
		if dir, ok := serverDir(candidate); ok {
			return dir, nil
		}
	}
	return "", ErrNoBinaries{}
}

// serverDir resolves links, because both programs look for their libraries and for each
// other next to their real place, and a link to one of them may stand alone in the PATH.
func serverDir(dir string) (string, bool) {
	if dir == "" {
		return "", false // an empty PATH element means the working folder: never run from there
	}
	initdb, err := filepath.EvalSymlinks(filepath.Join(dir, "initdb"))
	if err != nil {
		return "", false
	}
	real, err := filepath.Abs(filepath.Dir(initdb))
	if err != nil {
		return "", false
	}
	for _, name := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(real, name))
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			return "", false
		}
	}
	return real, true
}

var trailingVersion = regexp.MustCompile(`(\d+)(?:\.\d+)?$`)

// newestFirst orders .../<name with a version>/bin folders by major version. Versions are
// compared as numbers: as text, 9 would come before 17.
func newestFirst(binDirs []string) []string {
	sorted := slices.Clone(binDirs)
	slices.SortStableFunc(sorted, func(a, b string) int { return majorInPath(b) - majorInPath(a) })
	return sorted
}

// majorInPath is the version at the end of the folder's name, 0 if it has none.
func majorInPath(binDir string) int {
	match := trailingVersion.FindStringSubmatch(filepath.Base(filepath.Dir(binDir)))
	if match == nil {
		return 0
	}
	major, err := strconv.Atoi(match[1])
	if err != nil {
		return 0
	}
	return major
}
