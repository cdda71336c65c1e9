package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	generated = []string{"BENCHMARKS.md", "SIZING.md"}
	sentence  = regexp.MustCompile(`(?s).+?(?:[.?!](?:\s|$)|$)`)
	item      = regexp.MustCompile(`^(?:[-*]|\d+\.) `)
	target    = regexp.MustCompile(`^([a-z0-9-]+):.*## (.+)$`)
)

// pages are what people read outside of the code: sentences and cells of Markdown, the
// comments of docs/node.yaml, make help, and what alerts say.
func pages(root string) (all []piece, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"node_modules", "bin", "dist", "testdata"}, d.Name())):
			return fs.SkipDir
		case d.IsDir() || slices.Contains(generated, d.Name()):
			return nil
		}
		kind := ""
		switch {
		case filepath.Ext(name) == ".md":
			kind = "page"
		case name == "docs/node.yaml":
			kind = "setting"
		case name == "Makefile":
			kind = "target"
		case name == "monitoring/alerts.yaml":
			kind = "alert"
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		for _, p := range paragraphs(kind, string(text)) {
			for _, s := range sentence.FindAllString(p.text, -1) {
				if len(strings.Fields(s)) > 3 {
					all = append(all, piece{kind, fmt.Sprintf("%s:%d", name, p.line), s})
				}
			}
		}
		return err
	})
	return all, err
}

// paragraph is a run of text, and the line where it begins.
type paragraph struct {
	line int
	text string
}

// paragraphs are what is prose in a file of a kind: no code, no rules of tables.
func paragraphs(kind, text string) (all []paragraph) {
	fenced, open := false, false
	add := func(line int, text string, more bool) {
		if text = strings.TrimSpace(text); open && more && text != "" {
			all[len(all)-1].text += " " + text
		} else if text != "" {
			all = append(all, paragraph{line, text})
		}
		open = more && text != ""
	}
	for i, line := range strings.Split(text, "\n") {
		body := strings.TrimSpace(line)
		switch {
		case kind == "setting":
			comment, ok := strings.CutPrefix(body, "#")
			add(i+1, comment, ok)
		case kind == "target":
			if m := target.FindStringSubmatch(line); m != nil {
				add(i+1, m[2], false)
			}
		case kind == "alert":
			if _, summary, ok := strings.Cut(body, "summary: "); ok {
				add(i+1, strings.Trim(summary, "'"), false)
			}
		case strings.HasPrefix(body, "```"):
			fenced, open = !fenced, false
		case fenced, strings.HasPrefix(line, "    "), strings.HasPrefix(body, "<!--"), strings.HasPrefix(body, "| ---"), strings.HasPrefix(body, "|--"):
			open = false
		case strings.HasPrefix(body, "|"):
			for cell := range strings.SplitSeq(strings.Trim(body, "|"), " | ") {
				add(i+1, cell, false)
			}
		case strings.HasPrefix(body, "#"):
			open = false
		case item.MatchString(body):
			open = false
			add(i+1, item.ReplaceAllString(body, ""), true)
		default:
			add(i+1, body, true)
		}
	}
	return all
}
