package audit

import (
	"context"
	"errors"

	"github.com/google/uuid"
)

// ErrNoObject: there is no object of that name.
var ErrNoObject = errors.New("audit: there is no such object")

// Objects are the bucket of segments. Implementations are safe for concurrent use.
type Objects interface {
	// Put makes an object durable before it returns. It replaces an existing object, which
	// has the same content, since a segment's name contains its digest.
	Put(ctx context.Context, name string, data []byte) error
	// Get reads an object, at most its first limit bytes if limit is above 0;
	// [ErrNoObject].
	Get(ctx context.Context, name string, limit int64) ([]byte, error)
	// List calls each for the objects with names that begin with prefix, in any order, until
	// it returns an error.
	List(ctx context.Context, prefix string, each func(name string) error) error
}

// headGuess is how much of an object is read for its envelope: a filter of 50,000 keys and
// as many objects takes 170 KB, a usual segment's 60 KB.
const headGuess = 96 << 10

// readHead reads the manifest of an object, and no more bytes than needed.
func readHead(ctx context.Context, o Objects, name string, trust Trust, of uuid.UUID) (Segment, error) {
	for limit := int64(headGuess); ; limit *= 4 {
		data, err := o.Get(ctx, name, limit)
		if err != nil {
			return Segment{}, err
		}
		s, err := openHead(name, data, trust, of)
		if !errors.Is(err, errShort) {
			return s, err
		}
		if int64(len(data)) < limit {
			_, _, err := open(name, data, trust, of)
			return s, err
		}
	}
}

// readAll reads and verifies a whole object.
func readAll(ctx context.Context, o Objects, name string, trust Trust, of uuid.UUID) (Segment, []Entry, error) {
	data, err := o.Get(ctx, name, 0)
	if err != nil {
		return Segment{}, nil, err
	}
	return open(name, data, trust, of)
}

// damaged reports whether err proves that an object is not the segment that was signed.
// Other errors prove nothing.
func damaged(err error) bool {
	return errors.Is(err, ErrChanged) || errors.Is(err, ErrUnknownKey) || errors.Is(err, ErrMoved)
}
