package wireproxy

import (
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// nameless is a statement that has neither a name nor a word, or that the client
// never prepared.
const nameless = "sql:"

// statement is what the proxy knows about one SQL text.
type statement struct {
	name string
	ends bool // it ends the transaction block that it is executed in
}

// read names an SQL text; see the package comment.
func read(sql string) statement {
	name, body := leading(sql)
	words := strings.FieldsFunc(strings.ToLower(body), func(r rune) bool { return r < 'a' || r > 'z' })
	s := statement{name: nameless}
	if len(words) > 0 {
		s.name += words[0]
		switch words[0] {
		case "commit", "end", "abort":
			s.ends = true
		case "rollback":
			// ROLLBACK [WORK | TRANSACTION] TO SAVEPOINT does not.
			s.ends = !slices.Contains(words[1:], "to")
		}
	}
	if name != "" {
		s.name = name
	}
	return s
}

// leading reads the comments in front of an SQL text: the name given there, or
// "", and the text behind them.
func leading(sql string) (name, body string) {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f\v;(")
		switch {
		case strings.HasPrefix(sql, "--"):
			line, rest, _ := strings.Cut(sql, "\n")
			if given, ok := strings.CutPrefix(strings.TrimSpace(line[2:]), "name:"); ok && name == "" {
				// Only the first word: some tools write more behind it.
				if words := strings.Fields(given); len(words) > 0 {
					name = words[0]
				}
			}
			sql = rest
		case strings.HasPrefix(sql, "/*"):
			sql = sql[blockComment(sql):]
		default:
			return name, sql
		}
	}
}

// blockComment is the length of the comment that sql begins with. They nest.
func blockComment(sql string) int {
	depth := 0
	for i := 0; i+1 < len(sql); {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i += 2
		case "*/":
			depth--
			i += 2
			if depth == 0 {
				return i
			}
		default:
			i++
		}
	}
	return len(sql)
}

// session is one connection's prepared statements and portals, by their names
// on the wire. A Parse or Bind that the database refuses stays known here, which
// does no harm: executing it fails too.
type session struct {
	prepared map[string]statement
	portals  map[string]statement
}

func newSession() *session {
	return &session{prepared: make(map[string]statement), portals: make(map[string]statement)}
}

// follow takes note of one message. It returns the statement that the message
// executes, if it does.
func (s *session) follow(msg pgproto3.FrontendMessage) (executes statement, ok bool) {
	switch m := msg.(type) {
	case *pgproto3.Parse:
		s.prepared[m.Name] = read(m.Query)
	case *pgproto3.Bind:
		st, known := s.prepared[m.PreparedStatement]
		if !known {
			st = statement{name: nameless}
		}
		s.portals[m.DestinationPortal] = st
	case *pgproto3.Close:
		if m.ObjectType == 'S' {
			delete(s.prepared, m.Name)
		} else {
			delete(s.portals, m.Name)
		}
	case *pgproto3.Execute:
		st, known := s.portals[m.Portal]
		if !known {
			st = statement{name: nameless}
		}
		return st, true
	case *pgproto3.Query:
		s.deallocate(m.String)
		return read(m.String), true
	}
	return statement{}, false
}

// deallocate follows DEALLOCATE [PREPARE] {name | ALL} and DISCARD ALL.
func (s *session) deallocate(sql string) {
	_, body := leading(sql)
	words := strings.Fields(strings.TrimRight(strings.TrimSpace(body), ";"))
	if len(words) < 2 {
		return
	}
	last := words[len(words)-1]
	all := strings.EqualFold(last, "all")
	switch verb := strings.ToLower(words[0]); {
	case all && (verb == "deallocate" || verb == "discard"):
		clear(s.prepared)
	case verb != "deallocate":
	case strings.HasPrefix(last, `"`):
		delete(s.prepared, strings.ReplaceAll(strings.Trim(last, `"`), `""`, `"`))
	default:
		delete(s.prepared, strings.ToLower(last))
	}
}
