package strictyaml

import (
	"slices"
	"strings"
)

func contains(words []string, s string) bool { return slices.Contains(words, s) }

// list writes words as "a, b or c".
func list(words []string) string {
	switch n := len(words); n {
	case 0:
		return "none"
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
}

// hint says which of the known words was probably meant, or else names them
// all.
func hint(s string, known []string) string {
	if word := Closest(s, known); word != "" {
		return ": did you mean " + word + "?"
	}
	return ": want " + list(known)
}

// Closest returns the word that was probably meant by one that is not known;
// "" if none is close.
func Closest(s string, known []string) string {
	best, least := "", 3
	if len(s) > 60 {
		return ""
	}
	for _, word := range known {
		d := distance(strings.ToLower(s), strings.ToLower(word))
		// Two slips in a word of three letters are another word.
		if d < least && d*2 < max(len(word), len(s)) {
			best, least = word, d
		}
	}
	return best
}

// distance counts the slips between two words: letters left out, put in,
// changed, or swapped with the next (the optimal string alignment distance).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
