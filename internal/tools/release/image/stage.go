package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// stage is what the last stage of the Dockerfile says of the image.
type stage struct {
	user       string
	entrypoint []string
	labels     map[string]string
}

// copied is the one COPY that the last stage may have: all that the stage before it has made,
// see rootfs.
const copied = "--from=build /rootfs/ /"

// readStage reads the last stage. args are the values of its ARGs. What an image made
// without an engine would lack is an error.
func readStage(r io.Reader, args map[string]string) (stage, error) {
	file, err := parser.Parse(r)
	if err != nil {
		return stage{}, err
	}
	nodes := file.AST.Children
	last := 0
	for i, n := range nodes {
		if strings.EqualFold(n.Value, "from") {
			last = i
		}
	}
	s := stage{labels: map[string]string{}}
	declared := map[string]bool{}
	expand := func(text string) string {
		return os.Expand(strings.Trim(text, `"`), func(name string) string {
			if !declared[name] {
				err = fmt.Errorf("line with $%s: the last stage declares no ARG %s", name, name)
			}
			return args[name]
		})
	}
	for i, n := range nodes[last:] {
		words := wordsOf(n)
		switch name := strings.ToUpper(n.Value); {
		case name == "FROM" && i == 0 && words[0] == "scratch":
		case name == "ARG":
			for _, w := range words {
				arg, _, _ := strings.Cut(w, "=")
				declared[arg] = true
			}
		case name == "COPY" && strings.Join(append(n.Flags, words...), " ") == copied:
		case name == "USER" && len(words) == 1:
			s.user = expand(words[0])
		case name == "ENTRYPOINT" && n.Attributes["json"]:
			s.entrypoint = words
		case name == "LABEL" && len(words)%3 == 0: // name, value, "="
			for l := range slices.Chunk(words, 3) {
				s.labels[l[0]] = expand(l[1])
			}
		default:
			return s, fmt.Errorf("Dockerfile, line %d: an image without an engine cannot have %q in its last stage", n.StartLine, n.Original)
		}
		if err != nil {
			return s, fmt.Errorf("Dockerfile: %w", err)
		}
	}
	if s.user == "" || s.entrypoint == nil || len(s.labels) == 0 {
		text, _ := json.Marshal(s.labels)
		return s, fmt.Errorf("Dockerfile: the last stage needs USER, ENTRYPOINT and LABEL; it has %q, %q, %s", s.user, s.entrypoint, text)
	}
	return s, nil
}

func wordsOf(n *parser.Node) (words []string) {
	for next := n.Next; next != nil; next = next.Next {
		words = append(words, next.Value)
	}
	return words
}
