package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// A place is where the table of rules is.
type place struct {
	config   *pgx.ConnConfig
	password secret
	name     string // without anything secret
}

// connectTimeout bounds an attempt to connect, unless the URL says connect_timeout.
const connectTimeout = 5 * time.Second

// CheckURL reports what is wrong with the URL of a database for [NewTable],
// without looking at the files that it names.
func CheckURL(text string) error {
	_, err := parseDatabase(text)
	return err
}

// parseDatabase reads a URL as PostgreSQL's own programs do, and password_file
// and password_env besides.
func parseDatabase(text string) (*place, error) {
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return nil, errors.New("rules: url: it must begin with postgres://, as in postgres://USER@HOST:5432/DATABASE?password_file=FILE")
	}
	u, values, err := splitURL(text)
	if err != nil {
		return nil, fmt.Errorf("rules: url: %w", err)
	}
	d := &place{}
	if d.password, err = cutSecret(values); err != nil {
		return nil, fmt.Errorf("rules: url: %w", err)
	}
	literal, has := u.User.Password()
	if has && d.password != nil {
		return nil, errors.New("rules: url: the password is given twice: want one of the URL, password_file and password_env")
	}
	u.RawQuery = values.Encode()
	if d.config, err = pgx.ParseConfig(u.String()); err != nil {
		if has && strings.Contains(err.Error(), literal) {
			return nil, errors.New("rules: url: a parameter is wrong, or a file that it names cannot be read")
		}
		return nil, fmt.Errorf("rules: url: %w", err)
	}
	if d.config.ConnectTimeout == 0 {
		d.config.ConnectTimeout = connectTimeout
	}
	if d.config.RuntimeParams["application_name"] == "" {
		d.config.RuntimeParams["application_name"] = "sluice"
	}
	d.name = fmt.Sprintf("%s:%d/%s", d.config.Host, d.config.Port, d.config.Database)
	return d, nil
}

// settings returns what a connection is made with now.
func (d *place) settings() (*pgx.ConnConfig, error) {
	c := d.config.Copy()
	if d.password == nil {
		return c, nil
	}
	var err error
	c.Password, err = d.password()
	return c, err
}

// connect returns a connection.
func (d *place) connect(ctx context.Context) (*pgx.Conn, error) {
	c, err := d.settings()
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, c)
}
