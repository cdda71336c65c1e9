package node

import (
	"maps"
	"slices"
	"strings"
)

// didYouMean is what to say of a name that is close to one of candidates; "" where none is.
func didYouMean(name string, candidates []string) string {
	if near := nearest(name, candidates); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// nearest is the candidate that name is a slip of; "" for none. Case, dots and underscores
// do not count, and a name without a dot may be the last part of one. A third of the letters
// may be wrong: with more it is another word.
func nearest(name string, candidates []string) (near string) {
	best := len(letters(name))/3 + 1
	for _, c := range candidates {
		d := distance(letters(name), letters(c))
		if last := c[strings.LastIndexByte(c, '.')+1:]; last != c && !strings.Contains(name, ".") {
			d = min(d, distance(letters(name), letters(last))+1)
		}
		if d < best {
			near, best = c, d
		}
	}
	return near
}

// among are the settings that name may be a slip of. Each of several providers has those that
// one has.
func among(name string, allowed []string) []string {
	parts := strings.SplitN(name, ".", 3)
	if parts[0] != "providers" || len(parts) < 3 {
		return allowed
	}
	var of []string
	for _, k := range allowed {
		if setting, ok := strings.CutPrefix(k, "provider."); ok {
			of = append(of, parts[0]+"."+parts[1]+"."+setting)
		}
	}
	return of
}

// letters are what counts of a name.
func letters(name string) string {
	return strings.NewReplacer(".", "", "_", "").Replace(strings.ToLower(name))
}

// distance is how many letters are to be added, removed or replaced to make b of a
// (Levenshtein's).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := left
			if a[i] != b[j] {
				replaced++
			}
			left = row[j+1]
			row[j+1] = min(replaced, left+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// variablesOf are the variables that a command reads: those of its settings, of secrets, and
// of the node to ask.
func variablesOf(settings []string) []string {
	all := append(slices.Sorted(maps.Keys(secretNames)), NodeAddress)
	for _, s := range settings {
		all = append(all, envPrefix+strings.ToUpper(strings.ReplaceAll(s, ".", "__")))
	}
	return all
}
