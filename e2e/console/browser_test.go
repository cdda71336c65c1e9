// Package console drives the operators' console of a running demo in a real browser, the
// way a person would, and makes the pictures of the docs.
package console

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const (
	// browserEnv is for a missing browser: "required" makes it a failure.
	browserEnv = "HOMEWARD_TEST_BROWSER"
	// picturesEnv names the directory that the pictures of the docs are written to.
	picturesEnv = "HOMEWARD_PICTURES"
	// patience bounds the wait for what a page is to show; it is there in a second.
	patience = 30 * time.Second
)

// findBrowser skips the test where there is none.
func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const missing = "no Chromium was found: apt-get install chromium"
	if os.Getenv(browserEnv) == "required" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// tab is one tab of a browser, for one test.
type tab struct {
	*testing.T
	*noted
	ctx  context.Context
	home string // the console's URL
}

// noted is everything that a page did and should not have done.
type noted struct {
	mu       sync.Mutex
	home     string
	faults   []string
	requests int
}

// of is the tab in the hands of a part of the test.
func (b *tab) of(t *testing.T) *tab {
	one := *b
	one.T = t
	return &one
}

// open starts a browser for as long as the test runs.
func open(t *testing.T, home string) *tab {
	t.Helper()
	ctx, stop := chromedp.NewExecAllocator(t.Context(),
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(findBrowser(t)), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()))...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	home = strings.TrimSuffix(home, "/")
	b := &tab{T: t, noted: &noted{home: home}, ctx: ctx, home: home}
	require.NoError(t, chromedp.Listen(ctx, b.note))
	b.size(1120, 780)
	return b
}

// note records the browser's errors and requests.
func (b *noted) note(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.requests++
		if u, err := url.Parse(ev.Request.URL); err != nil || u.Scheme+"://"+u.Host != b.home {
			b.faults = append(b.faults, "sent a request to another host: "+ev.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, "exception: "+ev.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if ev.Type == runtime.ConsoleAPICalledTypeError || ev.Type == runtime.ConsoleAPICalledTypeWarning {
			b.faults = append(b.faults, fmt.Sprint("console: ", ev.Type))
		}
	case *cdplog.EventEntryAdded:
		if ev.Entry.Level == cdplog.EntryLevelError || ev.Entry.Level == cdplog.EntryLevelWarning {
			b.faults = append(b.faults, "log: "+ev.Entry.Text+" "+ev.Entry.URL)
		}
	}
}

// clean requires that nothing was noted, and forgets it.
func (b *tab) clean() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b, b.faults)
	require.NotZero(b, b.requests)
	b.faults = nil
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b, chromedp.Do(ctx, steps...))
}

func (b *tab) visit(path string) { b.Helper(); b.do(chromedp.Navigate(b.home + path)) }

// says evaluates JavaScript in the page.
func says[T any](b *tab, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(b, err, expression)
	return v
}

// text is "" while the browser is on its way to another page.
func (b *tab) text() string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body?.innerText ?? ""`))
	if err != nil && strings.Contains(err.Error(), "navigated or closed") {
		return ""
	}
	require.NoError(b, err)
	return text
}

// shows waits until the page has every text, without being loaded again.
func (b *tab) shows(texts ...string) {
	b.Helper()
	last := ""
	for until := time.Now().Add(patience); time.Now().Before(until); {
		last = b.text()
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(last, text) }) {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond): // the page changes by its own clock
		case <-b.ctx.Done():
		}
	}
	require.FailNow(b, "the page does not show it", "%q in:\n%s", texts, last)
}

// finds loads a page until it has every text: what all viewers share is seconds old.
func (b *tab) finds(path string, texts ...string) {
	b.Helper()
	for until := time.Now().Add(patience); ; {
		b.visit(path)
		last := b.text()
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(last, text) }) {
			return
		}
		require.True(b, time.Now().Before(until), "%q in:\n%s", texts, last)
	}
}

func (b *tab) size(width, height int64) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// set calls a command of the browser's own protocol.
func set[P any](b *tab, c cdp.Command[P, cdp.Empty], p P) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, p)
		return err
	}))
}

// prefers sets a preference of the reader.
func (b *tab) prefers(name, value string) {
	b.Helper()
	set(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: name, Value: value}}})
}

// scripts turns JavaScript on or off.
func (b *tab) scripts(on bool) {
	b.Helper()
	set(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
}

// fits requires that nothing has to be scrolled sideways.
func (b *tab) fits(what string) {
	b.Helper()
	require.LessOrEqual(b, says[int](b, "document.documentElement.scrollWidth"), says[int](b, "window.innerWidth"), "%s is wider than the screen", what)
}

// picture writes what the tab shows to the docs, if pictures were requested.
func (b *tab) picture(name string) {
	b.Helper()
	dir := os.Getenv(picturesEnv)
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(b, err)
	require.NoError(b, os.MkdirAll(dir, 0o755))
	require.NoError(b, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}
