package rules

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// listenTo calls look for each change that a topic tells of.
func listenTo(t *testing.T, url string, log *book, look func()) {
	t.Helper()
	m, err := NewMessages(url, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.Run(ctx, look); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// broker starts a cluster in this process with a topic "rules" in it.
func broker(t *testing.T, o ...kfake.Opt) (url string, produce func(key, value string)) {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(2, "rules")}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	addr := strings.Join(c.ListenAddrs(), ",")
	return "kafka://" + addr + "/rules", func(key, value string) {
		t.Helper()
		client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		record := &kgo.Record{Topic: "rules", Key: []byte(key), Value: []byte(value)}
		if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// A message makes the instance look, whatever it says; the table alone says what
// is in force.
func TestMessagesMakeItLook(t *testing.T) {
	url, produce := broker(t)
	d := newDB(t, sharedServer(t))
	d.exec(tableSQL) // no trigger
	i := follow(t, d.url, nil)
	var looks atomic.Int64
	listenTo(t, url, i.log, func() { looks.Add(1); i.table.Look() })
	eventually(t, "the first message", func() bool {
		produce("shop-a", "")
		return looks.Load() > 0
	})
	d.add("shop-a", "r", 5)
	produce("shop-a", `{"tenant_id": "shop-a", "route_id": "r", "capacity": 1000000}`)
	i.wants("shop-a", "r", 5)
	d.exec("DELETE FROM rate_limit_rule")
	produce("", "\x00'; DROP TABLE rate_limit_rule; --")
	i.wants("shop-a", "r", 0)
}

func TestMessagesWithoutBroker(t *testing.T) {
	log := &book{}
	port := ownPort(t)
	listenTo(t, "kafka://"+port+"/rules", log, func() { t.Error("a look without a message") })
	eventually(t, "a line about the broker", func() bool { return log.count("messages about rules cannot be read") == 1 })
}

// ownPort is an address where nobody listens.
func ownPort(t *testing.T) string {
	t.Helper()
	p := newProxy(t, "127.0.0.1:1")
	p.l.Close()
	return p.addr
}

func TestMessagesURL(t *testing.T) {
	for _, url := range []string{
		"kafka://a/t", "kafka://a:9092,b:9093/t", "kafkas://a/t?user=u&password_env=X", "kafka://a/t?user=u&password_file=f&sasl=scram-sha-512",
	} {
		if err := CheckMessages(url); err != nil {
			t.Errorf("CheckMessages(%q) = %v", url, err)
		}
	}
	for url, want := range map[string]string{
		"":                            "it must begin with kafka://",
		"http://a/t":                  "it must begin with kafka://",
		"kafka://a":                   "stands the topic",
		"kafka:///t":                  "a host is missing",
		"kafka://u:hidden@a/t":        "no user stands before the hosts",
		"kafka://a/t?password=hidden": "a password does not stand in a parameter",
		"kafka://a/t?user=u":          "belong together",
		"kafka://a/t?password_env=X":  "belong together",
		"kafka://a/t?sasl=plain":      "sasl needs both",
		"kafka://a/t?user=u&password_env=X&sasl=oauth": "sasl is \"oauth\"",
		"kafka://a/t?tls=true":                         "unknown parameter \"tls\"",
	} {
		err := CheckMessages(url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("CheckMessages(%q) = %v, want %q", url, err, want)
		}
	}
}

func TestMessagesOverSASL(t *testing.T) {
	t.Setenv("SLUICE_TEST_PASSWORD", "word")
	t.Setenv("SLUICE_TEST_WRONG", "another")
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256"} {
		url, _ := broker(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "u", "word"))
		for _, word := range []string{"PASSWORD", "WRONG"} {
			m, err := NewMessages(url+"?user=u&password_env=SLUICE_TEST_"+word+"&sasl="+strings.ToLower(mechanism), nil)
			if err != nil {
				t.Fatal(err)
			}
			client, err := kgo.NewClient(m.options()...)
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Ping(t.Context()); (err == nil) != (word == "PASSWORD") {
				t.Errorf("%s with the %s: %v", mechanism, word, err)
			}
			client.Close()
		}
	}
}
