package main

import (
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/homeward-io/homeward"
)

func TestAGreetingIsMadeOnce(t *testing.T) {
	h, err := homeward.Open(t.Context(), homeward.Embedded(t.TempDir()))
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close(t.Context())) }()
	s := httptest.NewServer(api(h))
	defer s.Close()
	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](s.Client(), s.URL+greet)
	ask := func(key, who string) (string, error) {
		r := connect.NewRequest(wrapperspb.String(who))
		r.Header().Set("Idempotency-Key", key)
		reply, err := client.CallUnary(t.Context(), r)
		if err != nil {
			return "", err
		}
		return reply.Msg.GetValue(), nil
	}
	for range 2 {
		said, err := ask("g-1", "Ada")
		require.NoError(t, err)
		require.Equal(t, "Hello, Ada. You are number 1.", said)
	}
	_, err = ask("g-1", "Bob")
	require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(err))
	for range 2 {
		_, err = ask("g-2", "")
		require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
	}
}
