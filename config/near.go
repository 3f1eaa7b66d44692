package config

import "strings"

// Nearest returns the candidate that a misspelt word most likely means, or "" when none is close. Case, dots, dashes and underscores do not
// count, and neither do leading dashes. A short word must be nearer: three letters with two changes are another word.
func Nearest(word string, candidates []string) string {
	n := len(plain(word))
	best, distance := "", max(1, min(2, n/4), n/5)+1
	for _, c := range candidates {
		if d := editDistance(plain(word), plain(c)); d < distance {
			best, distance = c, d
		}
	}
	return best
}

func plain(s string) string {
	return strings.NewReplacer("_", ".", "-", ".").Replace(strings.ToLower(strings.TrimLeft(s, "-")))
}

// editDistance counts inserted, removed, replaced and swapped neighbouring bytes (optimal string alignment).
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
