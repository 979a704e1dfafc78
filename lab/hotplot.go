package lab

import (
	"errors"
	"fmt"
	"html"
	"strings"
)

// plotHotkey draws what a decision costs and how exact it is, a bar for each row,
// as an SVG that needs nothing else.
func plotHotkey(rows any) ([]byte, error) {
	all, ok := rows.([]HotkeyRow)
	if !ok {
		return nil, errors.New("not the rows of hotkey")
	}
	const (
		label, bar, value = 230, 260, 70 // widths
		line, top         = 26, 44
	)
	panel := bar + value
	width, height := label+2*panel+20, top+line*len(all)+10
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", width, height)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	for i, title := range []string{"calls to Redis a decision", "admitted, against the exact limiter"} {
		fmt.Fprintf(&s, `<text x="%d" y="24" font-weight="bold">%s</text>`+"\n", label+i*panel, title)
	}
	most := [2]float64{1e-9, 1}
	for _, r := range all {
		most[0], most[1] = max(most[0], r.CallsPerDecision), max(most[1], r.AdmittedRatio)
	}
	for i, r := range all {
		y, name, colour := top+i*line, r.Variant, "#b08020"
		if r.Variant == ours {
			name, colour = fmt.Sprintf("%s, tolerance %g%%", ours, 100*r.Tolerance), "#2060a0"
		}
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", label-10, y+14, html.EscapeString(name))
		for j, v := range []float64{r.CallsPerDecision, r.AdmittedRatio} {
			x, long := label+j*panel, v/most[j]*bar
			fmt.Fprintf(&s, `<rect x="%d" y="%d" width="%.1f" height="18" fill="%s"/>`, x, y, max(long, 1), colour)
			fmt.Fprintf(&s, `<text x="%.1f" y="%d">%.4f</text>`+"\n", float64(x)+long+6, y+14, v)
		}
	}
	exact := float64(label+panel) + bar/most[1]
	fmt.Fprintf(&s, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="black" stroke-dasharray="3"/>`+"\n</svg>\n", exact, top-6, exact, height-6)
	return []byte(s.String()), nil
}
