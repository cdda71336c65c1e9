package region

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/google/uuid"
)

// Node is one live member, as it last described itself.
type Node struct {
	// Deployment is the random id of the rows that it acts on.
	Deployment uuid.UUID
	// Name is unique in the deployment.
	Name   string
	Region string
	// RPCAddr is the host:port of its [Handler].
	RPCAddr string
	Version string
	// Draining: it still answers, but callers should prefer other nodes.
	Draining bool
	// UnreadySince is when it said that it cannot record a charge, as this process heard it; zero:
	// it can. Callers should prefer other nodes.
	UnreadySince time.Time
	// Self: it is this process's own node.
	Self bool
	// Versions is what it has read.
	Versions Versions
}

// Versions names the versions in which a node has last read the rows that all nodes follow. A node
// that sees another version than its own reads, too. What it reads counts, and an announcement
// decides nothing. 0: it has announced none.
type Versions struct {
	// Epoch is that of the table of regions.
	Epoch uint64
	// Restore is the mark of the row of restores, see [claim.Restore.Mark].
	Restore uint64
}

// The parts of a node's metadata. With seven bytes of header and lengths they stay below the
// 512 bytes that memberlist carries with a member.
const (
	// maxRPCAddr is the longest RPC address, in bytes: a DNS name may have 253
	// characters, but none in use comes near 200.
	maxRPCAddr = 255
	// maxVersion is the longest version, in bytes: a tag and a commit.
	maxVersion = 64
	// versionsSize is the size of [Versions], in bytes.
	versionsSize = 16
	// idSize is the size of a deployment's id, in bytes.
	idSize = len(uuid.UUID{})
)

const (
	metaFormat   = 1
	metaDraining = 1 << 0
	metaUnready  = 1 << 1
)

var errMeta = errors.New("not a Homeward node's metadata")

// encodeMeta writes format, flags, then region, address, version, Versions and the deployment, each
// after a byte with its length. Later versions append fields, which older readers skip; a change of
// meaning needs a new format.
func encodeMeta(n Node) ([]byte, error) {
	if !ValidName(n.Region) {
		return nil, fmt.Errorf("region %q is not a region name", n.Region)
	}
	if err := checkRPCAddr(n.RPCAddr); err != nil {
		return nil, err
	}
	if len(n.Version) > maxVersion {
		return nil, fmt.Errorf("version is longer than %d bytes", maxVersion)
	}
	var flags byte
	if n.Draining {
		flags |= metaDraining
	}
	if !n.UnreadySince.IsZero() {
		flags |= metaUnready
	}
	b := []byte{metaFormat, flags}
	for _, s := range []string{n.Region, n.RPCAddr, n.Version} {
		b = append(append(b, byte(len(s))), s...)
	}
	b = append(b, versionsSize)
	b = binary.BigEndian.AppendUint64(b, n.Versions.Epoch)
	b = binary.BigEndian.AppendUint64(b, n.Versions.Restore)
	return append(append(b, byte(idSize)), n.Deployment[:]...), nil
}

// decodeMeta reads what a node says, and hears it at the given time.
func decodeMeta(name string, b []byte, now time.Time) (Node, error) {
	if len(b) < 2 || b[0] != metaFormat {
		return Node{}, errMeta
	}
	n := Node{Name: name, Draining: b[1]&metaDraining != 0}
	if b[1]&metaUnready != 0 {
		n.UnreadySince = now
	}
	rest := b[2:]
	for _, to := range []*string{&n.Region, &n.RPCAddr, &n.Version} {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return Node{}, fmt.Errorf("%w: cut short", errMeta)
		}
		*to, rest = string(rest[1:1+int(rest[0])]), rest[1+int(rest[0]):]
	}
	if len(rest) < 1+versionsSize+1+idSize || rest[0] != versionsSize || int(rest[1+versionsSize]) != idSize {
		return Node{}, fmt.Errorf("%w: cut short", errMeta)
	}
	n.Versions = Versions{binary.BigEndian.Uint64(rest[1:]), binary.BigEndian.Uint64(rest[9:])}
	copy(n.Deployment[:], rest[1+versionsSize+1:])
	if !ValidName(n.Region) {
		return Node{}, fmt.Errorf("%w: region %q", errMeta, n.Region)
	}
	if err := checkRPCAddr(n.RPCAddr); err != nil {
		return Node{}, fmt.Errorf("%w: %w", errMeta, err)
	}
	if len(n.Version) > maxVersion {
		return Node{}, fmt.Errorf("%w: version too long", errMeta)
	}
	return n, nil
}

// rank orders nodes for callers: lower ones are preferred.
func (n *Node) rank() int {
	switch {
	case !n.UnreadySince.IsZero():
		return 2
	case n.Draining:
		return 1
	}
	return 0
}

func checkRPCAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "" || port == "0" || len(addr) > maxRPCAddr {
		return fmt.Errorf("RPC address %q is not a host:port that others can dial", addr)
	}
	return nil
}
