// Command judge judges a run of TestNemesis by its files, and prints the verdict:
//
//	go run ./e2e/history/judge bin/nemesis/postgresql-7
//
// Its exit code is not 0 if a promise was broken, or if the files could not be read.
package main

import (
	"encoding/json"
	"errors"
	"log"
	"os"

	"github.com/homeward-io/homeward/e2e/history"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal("judge: ", err)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("name the directory of one run")
	}
	v, _, err := history.JudgeFiles(args[0])
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(v); err != nil {
		return err
	}
	if !v.OK() {
		return errors.New("a promise was broken")
	}
	return nil
}
