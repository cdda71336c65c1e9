package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/homeward-io/homeward/internal/embedded"
)

// StoreDir is where the demo keeps its store within its --data directory.
const StoreDir = "store"

// OpenStopped opens the store that a demo with these settings has left in its --data
// directory, for a person's tools. It makes none where there is none, and fails
// while the demo runs. The caller must close it.
func OpenStopped(data string, s Settings) (*embedded.DB, error) {
	dir := filepath.Join(data, StoreDir)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.IsDir():
		return nil, fmt.Errorf("%s holds no store of a demo; name the directory that homeward demo --data was given", data)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", data, err)
	}
	var regions []embedded.Region
	for _, r := range s.Regions {
		regions = append(regions, embedded.Region{Name: r.Name, Code: r.Code})
	}
	return embedded.Open(embedded.Config{Dir: dir, Regions: regions, Policy: s.Policy})
}
