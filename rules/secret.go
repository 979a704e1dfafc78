package rules

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
)

// A secret reads a password anew for every connection, so that it can be changed
// while the program runs; nil: there is none, or it stands in the URL.
type secret func() (string, error)

// cutSecret takes password_file and password_env out of the parameters of a
// URL.
func cutSecret(values url.Values) (secret, error) {
	file, env := values.Get("password_file"), values.Get("password_env")
	values.Del("password_file")
	values.Del("password_env")
	switch {
	case values.Has("password"):
		return nil, errors.New("a password does not stand in a parameter: use password_file or password_env")
	case file != "" && env != "":
		return nil, errors.New("the password is given twice: want one of password_file and password_env")
	case env != "":
		return func() (string, error) {
			if value, ok := os.LookupEnv(env); ok {
				return value, nil
			}
			return "", fmt.Errorf("password_env: %s is not set", env)
		}, nil
	case file != "":
		return func() (string, error) { return readSecret(file) }, nil
	}
	return nil, nil
}

// maxSecret bounds a password's file, which might be any file by mistake.
const maxSecret = 64 << 10

func readSecret(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("password_file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("password_file: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" || len(text) > maxSecret {
		return "", fmt.Errorf("password_file: %s: want one line that holds the password", name)
	}
	return password, nil
}

var errEscape = errors.New("a password's @, /, ?, # and % must be written %40, %2F, %3F, %23 and %25; or give it with password_file or password_env")

// splitURL reads a URL without repeating it in an error, since it may hold a
// password.
func splitURL(text string) (*url.URL, url.Values, error) {
	u, err := url.Parse(text)
	// An @ that is not before the host shows that a password was cut.
	if err != nil || strings.Contains(u.Path+u.RawQuery, "@") {
		return nil, nil, errEscape
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return nil, nil, errEscape
	}
	for name, all := range values {
		if len(all) != 1 || all[0] == "" {
			return nil, nil, fmt.Errorf("parameter %s: want one value", name)
		}
	}
	return u, values, nil
}
