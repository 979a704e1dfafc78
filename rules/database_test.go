package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestURL(t *testing.T) {
	for _, url := range []string{
		"postgres://localhost/x", "postgresql://u:p@h:5433/x?sslmode=require", "postgres://u@h1:5432,h2:5432/x?target_session_attrs=read-write",
		"postgres://u@h/x?password_file=f", "postgres://u@h/x?password_env=V&search_path=limits",
	} {
		if err := CheckURL(url); err != nil {
			t.Errorf("CheckURL(%q) = %v", url, err)
		}
	}
	for url, want := range map[string]string{
		"":                                 "it must begin with postgres://",
		"mysql://u:hidden@h/x":             "it must begin with postgres://",
		"postgres://u:hid/den@h/x":         "must be written %40",
		"postgres://u:hidden%@h/x":         "must be written %40",
		"postgres://u:hid#den@h/x":         "must be written %40",
		"postgres://u@h/x?password=hidden": "use password_file or password_env",
		"postgres://u@h/x?password_file=f&password_env=e": "given twice",
		"postgres://u:hidden@h/x?password_env=e":          "given twice",
		"postgres://u:hidden@h/x?sslmode=perhaps":         "sslmode",
		"postgres://u:hidden@h/x?sslmode=":                "parameter sslmode: want one value",
		"postgres://u:hidden@h:none/x":                    "",
	} {
		err := CheckURL(url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hid") {
			t.Errorf("CheckURL(%q) = %v, want %q and no password", url, err, want)
		}
	}
}

// The password is read for each connection and never told.
func TestPasswordFromFileAndEnvironment(t *testing.T) {
	d := migrated(t)
	d.add("a", "r", 5)
	p := sharedServer(t)
	file := filepath.Join(t.TempDir(), "password")
	bare := strings.Replace(d.url, ":"+p.Password+"@", "@", 1)
	if err := os.WriteFile(file, []byte("wrong-word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLUICE_TEST_PASSWORD", p.Password)
	byEnv := load(t, bare+"&password_env=SLUICE_TEST_PASSWORD", nil)
	defer byEnv.table.Close()
	if byEnv.capacity("a", "r") != 5 {
		t.Errorf("no rows with the password of the environment:\n%s", byEnv.log)
	}
	i := follow(t, bare+"&password_file="+file, nil)
	if s := i.table.Status(); !s.Stale || strings.Contains(s.Problem+i.log.String(), "wrong-word") {
		t.Errorf("status %+v with a wrong password, want a stale one that does not repeat it", s)
	}
	if err := os.WriteFile(file, []byte(p.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	i.wants("a", "r", 5)
}

// No URL, however broken, makes an error that tells the password in it.
func FuzzURL(f *testing.F) {
	f.Add("postgres://", "h/x?sslmode=require")
	f.Add("kafka://", "h:1,g/t?user=u&sasl=plain")
	f.Add("postgres://", "h:1/x?password_file=f&connect_timeout=a")
	f.Fuzz(func(t *testing.T, scheme, rest string) {
		const secret = "s3cr3tw0rd"
		if strings.Contains(rest, secret) || strings.Contains(scheme, secret) {
			return
		}
		url := scheme + "u:" + secret + "@" + rest
		for _, err := range []error{CheckURL(url), CheckMessages(url)} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: %v", url, err)
			}
		}
	})
}
