package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/archtest/marked"
	"github.com/homeward-io/homeward/internal/node"
)

// These tests run what readers paste, word for word but for the ports: those of a test's demo are
// free ones. A block that a test runs follows a comment with the test's name, by which the test
// takes it (package marked). TestBlocksAreRunOrMarked of internal/archtest sees to both.

// reader pastes lines of the docs beside a demo.
type reader struct {
	*started
	ports *strings.Replacer // of the docs, to those of the demo
}

// reads starts a demo with its data in ./homeward-data, in a directory of the test's own.
func reads(t *testing.T) *reader {
	needsShell(t)
	t.Chdir(t.TempDir())
	return readsHere(t)
}

func needsShell(t *testing.T) {
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not here: what readers paste cannot be run", tool)
		}
	}
}

// readsHere is reads in the working directory, with more flags.
func readsHere(t *testing.T, flags ...string) *reader {
	d := &reader{started: starts(t, append([]string{"demo", "--listen", "127.0.0.1:0", "--data", "./homeward-data"}, flags...)...)}
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	var to []string
	for _, line := range d.printed {
		for name, ports := range map[string][2]string{"us-east1": {"8081", "7081"}, "europe-west1": {"8082", "7082"}, "asia-northeast1": {"8083", "7083"}, "simulator (PSP)": {"8090", ""}} {
			if at := address.FindAllString(line, -1); strings.HasPrefix(line, "  "+name+" ") && len(at) == 2 {
				to = append(to, "127.0.0.1:"+ports[0], at[0])
				if ports[1] != "" {
					to = append(to, "127.0.0.1:"+ports[1], at[1])
				}
			}
		}
	}
	require.Len(t, to, 14, "%s", strings.Join(d.printed, "\n"))
	d.ports = strings.NewReplacer(to...)
	return d
}

// TestTheInstallLines does what docs/OPERATING.md has an operator do first, on a database that
// is there already, with the ports left free: what it prints of the settings is all of them.
func TestTheInstallLines(t *testing.T) {
	lines := marked.Blocks(t, "docs/OPERATING.md")[0]
	all := page(t, filepath.Join("..", "..", "docs", "node.yaml"))
	onlyWith(t)
	emptyDatabase(t)
	t.Chdir(t.TempDir())
	served := false
	for line := range strings.SplitSeq(lines, "\n") {
		line, _, _ = strings.Cut(line, "  #")
		line = strings.TrimSpace(line)
		switch name, rest, _ := strings.Cut(line, " "); name {
		case "go", "createdb": // the program and the database are here
		case "export":
			switch variable, _, _ := strings.Cut(rest, "="); variable {
			case node.DatabaseURL: // is that of the database
			case node.SealKeys:
				require.Equal(t, `HOMEWARD_SEAL_KEYS="$(homeward secrets key)"`, rest)
				t.Setenv(variable, strings.TrimSpace(does(t, "secrets", "key")))
			default:
				t.Errorf("%q: run this line, too", line)
			}
		case "cp":
			require.Equal(t, "docs/node.yaml .", rest)
			require.NoError(t, os.WriteFile("node.yaml", []byte(all), 0o600))
		case "homeward":
			args := quoted(rest)
			switch args[0] {
			case "simulator": // one that runs beside other tests would take their port
				require.Equal(t, []string{"simulator", "&"}, args)
			case "serve":
				require.Equal(t, []string{"serve", "--config", "node.yaml"}, args)
				for _, of := range []string{"API", "RPC", "GOSSIP"} {
					t.Setenv("HOMEWARD_"+of+"__LISTEN", "127.0.0.1:0")
				}
				s := serveHere(t, all)
				require.Contains(t, s.line, "in us-east1")
				s.stop()
				served = true
			default:
				does(t, args...)
			}
		default:
			t.Errorf("%q: run this line, too", line)
		}
	}
	require.True(t, served)
}

// quoted are the words of a command line, those between single quotes as one.
func quoted(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}

// numbered begins a line that a table explains, as in "# 4. A key that carries its home".
var numbered = regexp.MustCompile(`(?m)^# (\d+)\. .*$`)

// paste runs lines in one shell, and returns what each numbered part printed; "": what came
// before the first.
func (d *reader) paste(lines string) map[string]string {
	d.Helper()
	const mark = "\x1e"
	script := numbered.ReplaceAllString(d.ports.Replace(lines), "printf '"+mark+"%s"+mark+"' $1 # $0")
	ctx, cancel := context.WithTimeout(d.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-c", script)
	out, err := command.CombinedOutput()
	require.NoError(d, err, "%s", out)
	parts := strings.Split(string(out), mark)
	printed := map[string]string{"": parts[0]}
	for i := 1; i+1 < len(parts); i += 2 {
		printed[parts[i]] = parts[i+1]
	}
	return printed
}

// answered holds what lines have printed against the table below them: whatever is between
// backticks in the column of answers was printed, but for what … omits.
func (d *reader) answered(page string, printed map[string]string, least int) {
	d.Helper()
	rows := 0
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| (.*?) \| .* \|$`).FindAllStringSubmatch(page, -1) {
		text, ran := printed[row[1]]
		if !ran {
			continue
		}
		rows++
		for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			for part := range strings.SplitSeq(quoted[1], "…") {
				require.Contains(d, text, strings.TrimSpace(part), "line %s", row[1])
			}
		}
		require.True(d, strings.HasSuffix(text, "\n") || text == "", "line %s leaves the prompt behind what it printed: %q", row[1], text)
	}
	require.GreaterOrEqual(d, rows, least, "rows that explain lines")
}

func page(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// TestTheReadmesLines pastes what the README shows first: each answer is what its table says,
// and the demo prints the same lines with its own addresses.
func TestTheReadmesLines(t *testing.T) {
	onlyWith(t)
	readme := page(t, filepath.Join("..", "..", "README.md"))
	d := reads(t)
	lines := marked.Blocks(t, "README.md")[0]
	d.answered(readme, d.paste(lines), 5)
	printed := strings.Join(d.printed, "\n")
	order := regexp.MustCompile(`Idempotency-Key: (order-\w+)'`).FindStringSubmatch(printed)[1]
	for line := range strings.SplitSeq(lines, "\n") {
		if strings.HasPrefix(line, "curl") && !strings.Contains(line, "$KEY") {
			require.Contains(t, printed, d.ports.Replace(strings.ReplaceAll(line, "order-1'", order+"'")))
		}
	}
	d.stop()
}

// TestTheDemosLines pastes what docs/DEMO.md shows.
func TestTheDemosLines(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits as its reader does, for two minutes")
	}
	onlyWith(t)
	readme, demo := page(t, filepath.Join("..", "..", "README.md")), page(t, filepath.Join("..", "..", "docs", "DEMO.md"))
	d := reads(t)
	first := regexp.MustCompile("(?s)```sh\n(# 1\\..*?)\n```").FindStringSubmatch(readme)
	d.paste(first[1])
	blocks := marked.Blocks(t, "docs/DEMO.md")
	require.Len(t, blocks, 5, "requests, operators' commands, books, and two of the simulator")
	requests, operators, books := blocks[0], blocks[1], blocks[2]
	printed := d.paste(requests + "\nprintf '\\036CH\\036%s' $CH")
	d.answered(demo, printed, 4)

	commands := func(lines string, values ...string) string {
		var all strings.Builder
		for line := range strings.SplitSeq(lines, "\n") {
			if command, ok := strings.CutPrefix(line, "bin/homeward "); ok {
				all.WriteString(does(t, strings.Fields(strings.NewReplacer(values...).Replace(d.ports.Replace(command)))...))
			}
		}
		return all.String()
	}
	require.Contains(t, commands(operators, "$N", "order-1"), "charged once")
	d.stop()
	found11 := commands(books, "$CH", printed["CH"])
	for _, says := range []string{"balances proved from zero", " 0 failures", "suspense:acme"} {
		require.Contains(t, found11, says)
	}
	statement := strings.TrimSuffix(page(t, "statement.csv"), "\n")
	require.NoError(t, os.WriteFile("statement.csv", []byte(statement[:strings.LastIndex(statement, "\n")+1]), 0o600))
	code, said, _ := homeward(t, "reconcile", "--statement", "statement.csv", "--data", "./homeward-data")
	require.Equal(t, exitDiffers, code, fmt.Sprint("the page has the command name a missing refund\n", said))

	d = reads(t) // another demo: what follows would be missing in the statement
	for _, block := range blocks[3:] {
		if said := d.paste(block); strings.Contains(block, "hung-1") {
			require.Contains(t, said[""], "201 Created")
		}
	}
	d.stop()
}

// TestTheDemosEvents pastes what docs/DEMO.md shows of events, with the example's receiver.
func TestTheDemosEvents(t *testing.T) {
	onlyWith(t)
	needsShell(t)
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "bin", "sink"), "../../examples/sink")
	build.Env = append(build.Environ(), "CGO_ENABLED=0") // the race detector's tests have it
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Chdir(dir)
	blocks := marked.Blocks(t, "docs/DEMO.md")
	require.Len(t, blocks, 2, "the settings, and what follows the demo's start")
	(&reader{&started{T: t}, strings.NewReplacer()}).paste(blocks[0])
	d := readsHere(t, "--config", "events.yaml")

	// The receiver's port is a free one, and the command runs in this process.
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := free.Addr().String()
	require.NoError(t, free.Close())
	lines := strings.ReplaceAll(d.ports.Replace(blocks[1]), "127.0.0.1:9000", at)
	set, rest, _ := strings.Cut(lines, "\n")
	args, tee, _ := strings.Cut(strings.TrimPrefix(set, "bin/homeward "), " | tee ")
	require.NoError(t, os.WriteFile(tee, []byte(does(t, strings.Fields(args)...)), 0o600))
	const builds = "go build -o bin/sink ./examples/sink\n" // is done above, as this directory has no sources
	require.Contains(t, rest, builds+"export WEBHOOK_SECRET=")
	d.ports = strings.NewReplacer(builds, "")
	printed := d.paste(rest)[""]
	require.Contains(t, printed, `"status":"succeeded"`)
	require.Regexp(t, `"type":"charge.succeeded".*"order_id":"order-7"`, printed)
	d.stop()
}
