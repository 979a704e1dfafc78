package lab

import "github.com/sluice-limiter/sluice/lab/plot"

// plotHotkey draws what a decision costs and how exact it is, a bar for each row.
func plotHotkey(t *Table) plot.Plot {
	calls := t.bars("Calls to Redis for a decision on one hot key", "calls a decision", "calls_per_decision", nil)
	calls.Values.Log = true
	exact := t.bars("Admitted, against what an exact limiter would have admitted in the same time", "ratio; exact is 1", "admitted_ratio", nil)
	for row := range t.Cells {
		name := cellText(t.Cells[row][t.column("variant")])
		if name == ours {
			name += ", tolerance " + plot.Number(100*t.Number(row, "tolerance")) + "%"
		}
		calls.Labels[row], exact.Labels[row] = name, name
	}
	return plot.Stack{calls, exact}
}
