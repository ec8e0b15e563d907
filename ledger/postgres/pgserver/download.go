//go:build unix

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const (
	mavenCentral    = "https://repo1.maven.org/maven2"
	downloadVersion = embeddedpostgres.V18
)

// download returns the folder of fetched binaries, which are kept in the cache folder.
func download(ctx context.Context, cache, repository string, log func(string)) (string, error) {
	kept := filepath.Join(cache, "postgres-"+string(downloadVersion))
	if dir, ok := serverDir(filepath.Join(kept, "bin")); ok {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return "", fmt.Errorf("fetch PostgreSQL: %w", err)
	}
	log(fmt.Sprintf("no PostgreSQL is installed: fetching version %s into %s", downloadVersion, kept))
	var err error
	result := make(chan error, 1)
	go func() { result <- fetchInto(kept, repository) }()
	// The library takes no context. When ours ends, the fetch is left to run out: it has no
	// child and no lock, and whatever it completes is there for the next start.
	select {
	case err = <-result:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("fetch PostgreSQL (or install it, or pass --database-url): %w", err)
	}
	dir, ok := serverDir(filepath.Join(kept, "bin"))
	if !ok {
		return "", fmt.Errorf("fetch PostgreSQL: what came holds no initdb and postgres in %s/bin", kept)
	}
	return dir, nil
}

// fetchInto uses the library for what it knows best, finding and unpacking the archive. It can
// only do that as a part of starting a server, and its server listens on TCP and has an owner
// of its own; so it is given a data folder that holds nothing but a version, on which the
// start ends right after the unpacking. Its log of that stays in the temporary folder, under a
// name that it tells nobody.
func fetchInto(kept, repository string) (err error) {
	work, err := os.MkdirTemp(filepath.Dir(kept), "fetch-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	data := filepath.Join(work, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	major, _, _ := strings.Cut(string(downloadVersion), ".")
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major+"\n"), 0o600); err != nil {
		return err
	}
	unpacked := filepath.Join(work, "unpacked")
	library := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(downloadVersion).BinaryRepositoryURL(repository).Port(0).Logger(io.Discard).
		CachePath(filepath.Join(work, "archive")).RuntimePath(filepath.Join(work, "run")).
		BinariesPath(unpacked).DataPath(data))
	startErr := library.Start()
	if startErr == nil {
		return errors.Join(errors.New("the library started a server on an empty data folder"), library.Stop())
	}
	if _, ok := serverDir(filepath.Join(unpacked, "bin")); !ok {
		return startErr
	}
	if err := os.Rename(unpacked, kept); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil // if it existed, another process was first
}
