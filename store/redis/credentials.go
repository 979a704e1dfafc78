package redis

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// credentials say who a connection belongs to. The password is read anew for
// every connection, so that it can be changed while the program runs.
type credentials struct {
	user     string
	password func() (string, error) // nil: none
}

func (c *credentials) literal(password string) {
	c.password = func() (string, error) { return password, nil }
}

// from reads the password from a file or the environment.
func (c *credentials) from(parameter, name string) {
	if parameter == "password_env" {
		c.password = func() (string, error) {
			if value, ok := os.LookupEnv(name); ok {
				return value, nil
			}
			return "", fmt.Errorf("redis: password_env: %s is not set", name)
		}
		return
	}
	c.password = func() (string, error) { return readSecret(name) }
}

// maxSecret bounds a password's file, which might be any file by mistake.
const maxSecret = 64 << 10

func readSecret(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("redis: password_file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("redis: password_file: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" || len(text) > maxSecret {
		return "", fmt.Errorf("redis: password_file: %s: %w", name, errSecret)
	}
	return password, nil
}

var errSecret = errors.New("want one line that holds the password")

// read returns the present user and password.
func (c *credentials) read() (user, password string, err error) {
	if c.password != nil {
		password, err = c.password()
	}
	return c.user, password, err
}
