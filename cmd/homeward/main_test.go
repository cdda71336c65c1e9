package main

import (
	"os"
	"testing"

	"github.com/homeward-io/homeward/internal/localdb/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }
