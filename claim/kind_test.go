package claim

import (
	"encoding/binary"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The check value alone makes no stamp: another kind of UUID that has it is opaque.
func TestAStampIsAUUIDOfItsKind(t *testing.T) {
	for _, change := range []func(*uuid.UUID){
		func(id *uuid.UUID) { id[6] = id[6]&0x0f | 0x40 },
		func(id *uuid.UUID) { id[8] = id[8]&0x3f | 0xc0 },
		func(id *uuid.UUID) { id[stampCode], id[stampCode+1] = 0, 0 },
	} {
		id, err := newStamp(7, nil)
		require.NoError(t, err)
		_, ok := readStamp(&id)
		require.True(t, ok)
		change(&id)
		binary.BigEndian.PutUint32(id[stampCheck:], stampCheckValue(&id))
		_, ok = readStamp(&id)
		require.False(t, ok)
	}
}
