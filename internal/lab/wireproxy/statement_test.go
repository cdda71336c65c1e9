package wireproxy

import (
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

func TestStatementsAreNamedByTheirCommentsOrTheirFirstWord(t *testing.T) {
	for sql, want := range map[string]statement{
		"-- name: begin\nINSERT INTO claims":                     {name: "begin"},
		"\n\t-- why\n  --name:settle :one\nWITH x AS (SELECT 1)": {name: "settle"},
		"/* a /* nested */ one */ -- name: pin\nSELECT 1":        {name: "pin"},
		"-- name: first\n-- name: second\nSELECT 1":              {name: "first"},
		"-- name:\nSELECT 1":                                     {name: "sql:select"},
		"SELECT 1 -- name: behind":                               {name: "sql:select"},
		"-- another: name\r\nUPDATE t SET a = 1":                 {name: "sql:update"},
		"(select 1)":                                             {name: "sql:select"},
		"Commit;":                                                {name: "sql:commit", ends: true},
		"-- name: finish\nCOMMIT":                                {name: "finish", ends: true},
		"ROLLBACK":                                               {name: "sql:rollback", ends: true},
		"rollback transaction to savepoint a":                    {name: "sql:rollback"},
		"":                                                       {name: "sql:"},
		"/* unfinished":                                          {name: "sql:"},
		"-- only a comment":                                      {name: "sql:"},
		";begin isolation level serializable, read write":        {name: "sql:begin"},
		"-- name: of-two\nUPDATE t SET a = 1; UPDATE u SET a = 1": {name: "of-two"},
		"END":         {name: "sql:end", ends: true},
		"savepoint a": {name: "sql:savepoint"},
		"/* -- name: inside a block comment does not count */table": {name: "sql:table"},
	} {
		require.Equal(t, want, read(sql), "%q", sql)
	}
}

func TestExecutionsAreFollowedThroughPreparedStatementsAndPortals(t *testing.T) {
	s := newSession()
	silent := func(msg pgproto3.FrontendMessage) {
		t.Helper()
		_, executes := s.follow(msg)
		require.False(t, executes, "%T", msg)
	}
	executes := func(want string, msg pgproto3.FrontendMessage) {
		t.Helper()
		st, ok := s.follow(msg)
		require.True(t, ok)
		require.Equal(t, want, st.name)
	}
	silent(&pgproto3.Parse{Name: "s1", Query: "-- name: begin\nSELECT 1"})
	silent(&pgproto3.Parse{Name: "S2", Query: "-- name: settle\nSELECT 2"})
	silent(&pgproto3.Describe{ObjectType: 'S', Name: "s1"})
	silent(&pgproto3.Bind{PreparedStatement: "s1"})
	silent(&pgproto3.Bind{PreparedStatement: "S2", DestinationPortal: "p"})
	executes("begin", &pgproto3.Execute{})
	executes("settle", &pgproto3.Execute{Portal: "p"})
	executes("settle", &pgproto3.Execute{Portal: "p"}) // the next rows

	silent(&pgproto3.Close{ObjectType: 'P', Name: "p"})
	executes(nameless, &pgproto3.Execute{Portal: "p"})
	silent(&pgproto3.Close{ObjectType: 'S', Name: "s1"})
	silent(&pgproto3.Bind{PreparedStatement: "s1"})
	executes(nameless, &pgproto3.Execute{})

	stillKnown := func(name string) bool { _, ok := s.prepared[name]; return ok }
	executes("sql:deallocate", &pgproto3.Query{String: "deallocate s2"}) // folds to another name
	require.True(t, stillKnown("S2"))
	executes("sql:deallocate", &pgproto3.Query{String: `DEALLOCATE PREPARE "S2";`})
	require.False(t, stillKnown("S2"))
	for _, everything := range []string{"deallocate all", "DISCARD ALL;", "-- name: reset\nDeallocate Prepare All"} {
		silent(&pgproto3.Parse{Name: "s3", Query: "SELECT 3"})
		_, ok := s.follow(&pgproto3.Query{String: everything})
		require.True(t, ok)
		require.False(t, stillKnown("s3"), everything)
	}
}
