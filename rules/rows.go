package rules

import (
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-limiter/sluice/policy"
)

// A rowReader makes rows of what the database sends. It reads the bytes
// themselves: at 300,000 rows, scanning by reflection would take as long as all
// else together.
type rowReader struct {
	value   func(attribute, text string) string
	tenant  string // the last one, which is often the next
	hidden  string
	updated time.Time // the latest change that was seen
}

// The fields of columns.rows, in their order.
const (
	fieldID = iota
	fieldTenant
	fieldRoute
	fieldCapacity
	fieldRefill
	fieldLimit
	fieldPeriod
	fieldAlgorithm
	fieldExpires
	fieldSum
	fieldUpdated
	fields
)

// infinity bounds the timestamps that are looked at, in microseconds from epoch:
// 285 years.
const infinity = 9e15

// read makes a row of the values of one; nil is null.
func (r *rowReader) read(raw [][]byte) policy.Row {
	row := policy.Row{
		ID:        number(raw[fieldID]),
		Tenant:    r.tenantOf(string(raw[fieldTenant])),
		Route:     string(raw[fieldRoute]),
		Capacity:  number(raw[fieldCapacity]),
		Refill:    number(raw[fieldRefill]),
		Limit:     string(raw[fieldLimit]),
		Period:    string(raw[fieldPeriod]),
		Algorithm: string(raw[fieldAlgorithm]),
		Sum:       number(raw[fieldSum]),
	}
	if row.Route != policy.AnyValue && r.value != nil {
		row.Route = r.value("route", row.Route)
	}
	if raw[fieldExpires] != nil {
		row.Expires = time.UnixMicro(number(raw[fieldExpires]))
	}
	for i, name := range [...]string{"id", "tenant_id", "route_id", "capacity", "refill_per_second"} {
		if raw[i] == nil {
			row.Fault = name + " is null: want a value, for a tenant or a route * for any"
		}
	}
	r.see(raw[fieldUpdated])
	return row
}

// tenantOf returns a tenant as limits see it.
func (r *rowReader) tenantOf(text string) string {
	if text == policy.AnyValue || r.value == nil {
		return text
	}
	if text != r.tenant || r.hidden == "" {
		r.tenant, r.hidden = text, r.value("tenant", text)
	}
	return r.hidden
}

// see notes when a row was changed.
func (r *rowReader) see(raw []byte) {
	if raw == nil {
		return
	}
	micros := number(raw)
	if micros > infinity || micros < -infinity {
		return
	}
	if at := epoch.Add(time.Duration(micros) * time.Microsecond); at.After(r.updated) {
		r.updated = at
	}
}

// epoch is where the database's timestamps begin.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func number(raw []byte) int64 {
	if len(raw) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(raw))
}

// each calls f with every row of an answer.
func (r *rowReader) each(rows pgx.Rows, f func(policy.Row)) error {
	defer rows.Close()
	for rows.Next() {
		f(r.read(rows.RawValues()))
	}
	return rows.Err()
}
