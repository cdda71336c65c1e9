package node

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
)

// StoreDir is the directory of the demo's store within its --data directory.
const StoreDir = "store"

// OpenStopped opens the store of a stopped demo with these settings, for an operator's
// tools, as [deployment.OpenStopped] does.
func OpenStopped(data string, s Settings) (deployment.Deployment, error) {
	c := embedded.Config{Dir: filepath.Join(data, StoreDir), Policy: s.Policy}
	for _, r := range s.Regions {
		c.Regions = append(c.Regions, claim.Region{Name: r.Name, Code: r.Code})
	}
	d, err := deployment.OpenStopped(c)
	if errors.Is(err, deployment.ErrNoStore) {
		return nil, fmt.Errorf("%s holds no store of a demo; name the directory that homeward demo --data was given", data)
	}
	return d, err
}
