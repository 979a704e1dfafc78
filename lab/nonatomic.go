package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/lab/plot"
)

// nonatomic lets callers crash between counting and setting the end of a count.
var nonatomic = Experiment{
	Name:  "nonatomic",
	Does:  "INCR then EXPIRE with a crash between them at one in ten of 200 users, against one script",
	Takes: 4 * time.Second,
	Run: func(ctx context.Context, progress func(string)) (any, bool, error) {
		rows, err := runNonatomic(ctx, progress, 200)
		return rows, true, err
	},
	Claims: []Claim{
		{Row: "INCR, then EXPIRE", Column: "without_ttl", Min: 20, Max: 20, Reference: "20"},
		{Row: "INCR, then EXPIRE", Column: "still_refused", Min: 20, Max: 20},
		{Row: "one script", Column: "without_ttl", Reference: "0"},
		{Row: "one script", Column: "still_refused"},
	},
	Explains: "200 users ask once; at one in ten the caller crashes after its first command. " +
		"A count whose end was never set stays for ever, and its user is refused for ever, also when everyone else's window has long ended.",
	Plot: func(t *Table) plot.Plot {
		b := t.bars("Of 200 users, with a crash at every tenth", "users", "without_ttl", nil)
		b.Series[0].Name = "counts that never end"
		refused := t.bars("", "", "still_refused", nil).Series[0]
		refused.Name = "users refused after the window has ended"
		b.Series = append(b.Series, refused)
		return b
	},
}

// A NonatomicRow is what crashes left behind.
type NonatomicRow struct {
	Mode         string `json:"mode"`
	Keys         int    `json:"keys"`
	WithoutTTL   int    `json:"without_ttl" unit:"keys"`
	StillRefused int    `json:"still_refused" unit:"users"`
}

// nonatomicLimit is what each user may: little, so that it is soon used up.
var nonatomicLimit = sluice.Limit{Tokens: 5, Per: time.Second, Algorithm: sluice.FixedWindow}

// A caller asks for a user and says whether that is allowed; a caller that
// crashes ends as soon as its first command is done.
type asker func(user string, crash bool) (allowed bool, err error)

func runNonatomic(ctx context.Context, progress func(string), users int) ([]NonatomicRow, error) {
	var rows []NonatomicRow
	for _, mode := range []struct {
		name string
		ask  func(context.Context, *local) asker
	}{{"INCR, then EXPIRE", twoCommands}, {"one script", oneScript}} {
		progress(mode.name)
		server, err := startLocal(ctx)
		if err != nil {
			return nil, err
		}
		row, err := crashes(ctx, server, mode.ask(ctx, server), users)
		server.close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mode.name, err)
		}
		row.Mode = mode.name
		rows = append(rows, row)
	}
	return rows, nil
}

// twoCommands counts in one command and sets the end of a new count in another.
func twoCommands(ctx context.Context, server *local) asker {
	return func(user string, crash bool) (bool, error) {
		c := server.client
		n, err := c.Do(ctx, c.B().Incr().Key(user).Build()).AsInt64()
		if err == nil && n == 1 && !crash {
			err = c.Do(ctx, c.B().Expire().Key(user).Seconds(1).Build()).Error()
		}
		return n <= nonatomicLimit.Tokens, err
	}
}

// oneScript does both at once: there is nothing between that a crash could meet.
func oneScript(ctx context.Context, server *local) asker {
	return func(user string, _ bool) (bool, error) { return take(ctx, server.store, user, nonatomicLimit) }
}

// crashes lets each user ask once, some of them with a crash, and looks at what
// is left. Then every user uses up the limit, and asks again when the window is
// over.
func crashes(ctx context.Context, server *local, ask asker, users int) (row NonatomicRow, err error) {
	each := func(times int, crash func(i int) bool, answer func(allowed bool)) {
		for i := 0; i < users && err == nil; i++ {
			for range times {
				var allowed bool
				if allowed, err = ask(fmt.Sprintf("user-%03d", i), crash(i)); err != nil {
					return
				}
				answer(allowed)
			}
		}
	}
	never, ignore := func(int) bool { return false }, func(bool) {}
	each(1, func(i int) bool { return i%10 == 9 }, ignore)
	if err != nil {
		return row, err
	}
	if row.Keys, err = server.size(ctx); err != nil {
		return row, err
	}
	if row.WithoutTTL, err = withoutTTL(server.Redis); err != nil {
		return row, err
	}
	each(int(nonatomicLimit.Tokens), never, ignore)
	sleep(ctx, 2*nonatomicLimit.Per)
	each(1, never, func(allowed bool) {
		if !allowed {
			row.StillRefused++
		}
	})
	return row, err
}

// size returns the number of keys.
func (l *local) size(ctx context.Context) (int, error) {
	n, err := l.client.Do(ctx, rueidis.Completed(l.client.B().Dbsize().Build())).AsInt64()
	return int(n), err
}
