package rules

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-limiter/sluice/policy"
)

// TableOptions say where rows come from and where they go. URL, Current and
// Publish are needed.
type TableOptions struct {
	// URL is that of the database, see [CheckURL].
	URL string
	// Poll is the time between looks at the table without a notification; 0
	// means 30 s.
	Poll time.Duration
	// Settle is the least time between two fetches; 0 means 50 ms. A change that
	// comes alone is fetched at once, those of a storm together.
	Settle time.Duration
	// Snapshot is a file that keeps the rows for a start without the database;
	// "": none.
	Snapshot string
	// Current returns the set in force and Publish puts another in force,
	// which differs from a current one in its rows. If the limits changed in
	// between, Publish takes over the rows alone. They are called by the
	// goroutine that loads or runs.
	Current func() *policy.Set
	Publish func(*policy.Set)
	// Value returns what limits see of an attribute's value, such as the hash
	// of a secret; nil: the value.
	Value func(attribute, text string) string
	// Log is told what becomes of the database and of bad rows; nil: nobody is.
	Log *slog.Logger
}

// A Table keeps the rows of a set as those of the table rate_limit_rule in
// PostgreSQL. It hears of changes by LISTEN and looks at the table now and then.
// While the database is away, the last rows stay. Its life is NewTable, Load,
// Run; Close ends one that never ran. Status, Look and Reload may be called
// from many goroutines.
type Table struct {
	o      TableOptions
	source *place
	log    *slog.Logger

	conn    *pgx.Conn // nil: not connected
	deaf    bool      // a standby tells nobody of changes
	columns columns
	reader  rowReader
	skew    time.Duration // the database's clock less ours
	pending pending
	expiry  expiries
	told    map[int64]string // of bad rows, by their number
	pollAt  time.Time
	retryAt time.Time
	retry   time.Duration
	looked  time.Time // when the table was last looked at as a whole
	looks   int64     // how often
	uneven  bool      // rows share an id
	fetched time.Time // when anything was last fetched
	keeper  *keeper

	note   chan struct{} // somebody asks to look
	reload atomic.Bool   // values changed: what is known is worth nothing
	status statusBook
}

const (
	defaultTablePoll   = 30 * time.Second
	defaultTableSettle = 50 * time.Millisecond
	// lookGap is the least time between looks at the whole table that
	// messages ask for: they cost the database a scan.
	lookGap = 500 * time.Millisecond
	// fetchTimeout bounds questions about some rows, loadTimeout those about
	// all.
	fetchTimeout = 10 * time.Second
	loadTimeout  = 2 * time.Minute
	firstRetry   = 100 * time.Millisecond
	lastRetry    = 5 * time.Second
)

// NewTable returns a table that is not connected yet. The error is about the
// URL.
func NewTable(o TableOptions) (*Table, error) {
	source, err := parseDatabase(o.URL)
	if err != nil {
		return nil, err
	}
	o.Poll, o.Settle = orDefault(o.Poll, defaultTablePoll), orDefault(o.Settle, defaultTableSettle)
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Table{
		o: o, source: source, log: log.With(slog.String("database", source.name)),
		reader: rowReader{value: o.Value}, told: make(map[int64]string), note: make(chan struct{}, 1),
	}
	if o.Snapshot != "" {
		t.keeper = newKeeper(o.Snapshot, source.name, t.log)
	}
	return t, nil
}

// Load publishes the rows for the first time: those of the database or, if it
// does not answer before ctx ends, those of the snapshot. Without either the
// set stays as it is, the log says why, and Run goes on trying.
func (t *Table) Load(ctx context.Context) {
	err := t.connect(ctx)
	if err == nil {
		return
	}
	t.lose(err)
	if t.keeper != nil {
		t.restore()
	}
}

// Run follows the table until ctx ends.
func (t *Table) Run(ctx context.Context) {
	var keeping sync.WaitGroup
	if t.keeper != nil {
		keeping.Go(func() { t.keeper.run(ctx) })
	}
	defer keeping.Wait()
	defer t.Close()
	for ctx.Err() == nil {
		t.expire(time.Now())
		if err := t.turn(ctx); err != nil && ctx.Err() == nil {
			t.lose(err)
		}
	}
}

// turn does what is due, or waits until something is.
func (t *Table) turn(ctx context.Context) error {
	now := time.Now()
	switch {
	case t.conn == nil && !now.Before(t.retryAt):
		return t.connect(ctx)
	case t.conn == nil:
		t.sleep(ctx, earliest(t.retryAt, t.expires()))
		return nil
	case !now.Before(t.pollAt), t.pending.due(now):
		return t.refresh(ctx)
	}
	return t.listen(ctx, earliest(t.pollAt, t.pending.at, t.expires()))
}

// earliest returns the first of some times that are not zero.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, at := range times {
		if first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// Look asks for a look at the table, as a message or an operator does. It
// returns at once; that several ask costs no more than that one does.
func (t *Table) Look() {
	select {
	case t.note <- struct{}{}:
	default:
	}
}

// Reload asks for all rows anew: what Value returns has changed.
func (t *Table) Reload() {
	t.reload.Store(true)
	t.Look()
}

// Close ends the connection of a table that does not run.
func (t *Table) Close() {
	if t.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// A connection that cannot say goodbye is closed all the same.
	_ = t.conn.Close(ctx)
	t.conn = nil
}

// connect opens a connection, listens, and looks at what changed meanwhile.
func (t *Table) connect(ctx context.Context) error {
	conn, err := t.source.connect(ctx)
	if err != nil {
		return err
	}
	t.conn = conn
	asking, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	t.deaf = false
	if _, err := conn.Exec(asking, "LISTEN rate_limit_rule"); hasCode(err, readOnly) {
		t.deaf = true
	} else if err != nil {
		return err
	}
	t.pending = pending{}
	if err := t.refreshAll(ctx); err != nil {
		return err
	}
	t.retry = 0
	t.log.Info("rules connected", slog.Int("rows", t.o.Current().RowCount()), slog.Bool("notifies", t.columns.notifies))
	return nil
}

// lose gives up a connection; the rows stay.
func (t *Table) lose(err error) {
	t.Close()
	t.retry = min(max(2*t.retry, firstRetry), lastRetry)
	t.retryAt = time.Now().Add(t.retry/2 + rand.N(t.retry))
	if t.status.failed(err, time.Now()) {
		t.log.Warn("rules cannot be read from the database: the last ones stay in force", slog.Any("error", err))
	}
}

// listen waits for notifications, for whoever asks, or until a time.
func (t *Table) listen(ctx context.Context, until time.Time) error {
	waiting, stop := context.WithDeadline(ctx, until)
	defer stop()
	asked := make(chan bool, 1)
	go func() {
		select {
		case <-t.note:
			stop()
			asked <- true
		case <-waiting.Done():
			asked <- false
		}
	}()
	n, err := t.conn.WaitForNotification(waiting)
	stop()
	now := time.Now()
	if <-asked {
		t.ask(now)
	}
	if n != nil {
		t.hear(n.Payload, now)
	}
	if err != nil && waiting.Err() != nil && !t.conn.IsClosed() {
		return nil // nobody said anything
	}
	return err
}

// hear notes what a notification is about.
func (t *Table) hear(payload string, now time.Time) {
	if !t.pending.note(payload, later(now, t.fetched.Add(t.o.Settle))) {
		t.ask(now)
	}
}

// ask notes that the whole table is to be looked at.
func (t *Table) ask(now time.Time) {
	t.pending.everything(later(now, t.looked.Add(lookGap)))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sleep waits without a connection.
func (t *Table) sleep(ctx context.Context, until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-t.note:
		// Everything is looked at once there is a connection.
	}
}
