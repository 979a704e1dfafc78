package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sluice-limiter/sluice/policy"
)

// stored returns a tenant as it stands in the table, or with past in the history:
// the key of which the hash that is shown was given, or the reverse. A tenant
// that is not there stays as it is.
func (d *ruleDesk) stored(ctx context.Context, tenant string, past bool) (string, error) {
	shown := d.shown("tenant", tenant)
	secret := shown != tenant || strings.HasPrefix(tenant, "key:") // as hashes begin
	if d.config == nil || tenant == "" || tenant == policy.AnyValue || !secret {
		return tenant, nil
	}
	all, err := d.Tenants(ctx, past)
	if err != nil {
		return "", err
	}
	same := slices.DeleteFunc(all, func(other string) bool { return d.shown("tenant", other) != shown })
	switch len(same) {
	case 0:
		return tenant, nil
	case 1:
		return same[0], nil
	}
	return "", errors.New("this tenant stands there twice, as a key and as the hash of it: sluice rules list without tenant= shows both, and sluice rules delete -id takes one away")
}
