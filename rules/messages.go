package rules

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Messages are those of a Kafka topic by which others tell that rules changed.
// What a message holds is not read: it is only a reason to look.
type Messages struct {
	brokers  []string
	topic    string
	tls      bool
	user     string
	sasl     string
	password secret
	log      *slog.Logger
}

// CheckMessages reports what is wrong with a URL for [NewMessages], without
// looking at the files that it names.
func CheckMessages(text string) error {
	_, err := NewMessages(text, nil)
	return err
}

// NewMessages reads a URL such as kafka://HOST:9092,HOST:9092/TOPIC, or kafkas://
// for TLS. Its parameters are user, password_file or password_env, and sasl:
// plain, scram-sha-256 or scram-sha-512. Nothing is connected yet. A nil logger
// is told nothing.
func NewMessages(text string, log *slog.Logger) (*Messages, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Messages{log: log}
	rest, ok := strings.CutPrefix(text, "kafka://")
	if !ok {
		rest, m.tls = strings.CutPrefix(text, "kafkas://")
	}
	if !ok && !m.tls {
		return nil, badMessages("it must begin with kafka:// or kafkas://, as in kafka://HOST:9092/TOPIC")
	}
	address, query, _ := strings.Cut(rest, "?")
	hosts, topic, _ := strings.Cut(address, "/")
	if strings.Contains(rest, "@") {
		return nil, badMessages("no user stands before the hosts: use the parameters user and password_file or password_env")
	}
	if m.topic = topic; topic == "" || strings.ContainsAny(topic, "/ ") {
		return nil, badMessages("after the hosts stands the topic, as in kafka://HOST:9092/TOPIC")
	}
	if err := m.hosts(hosts); err != nil {
		return nil, err
	}
	return m, m.parameters(query)
}

func badMessages(format string, args ...any) error {
	return fmt.Errorf("rules: changed: "+format, args...)
}

func (m *Messages) hosts(text string) error {
	for host := range strings.SplitSeq(text, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(host, "9092")
		}
		if name, _, err := net.SplitHostPort(host); err != nil || name == "" {
			return badMessages("a host is missing, or not as in host or host:port")
		}
		m.brokers = append(m.brokers, host)
	}
	return nil
}

// mechanisms are the words of the parameter sasl.
var mechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

func (m *Messages) parameters(query string) (err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return badMessages("a parameter cannot be read: %% is written %%25 and & is written %%26")
	}
	if m.password, err = cutSecret(values); err != nil {
		return fmt.Errorf("rules: changed: %w", err)
	}
	m.user, m.sasl = values.Get("user"), values.Get("sasl")
	values.Del("user")
	values.Del("sasl")
	for name := range values {
		return badMessages("unknown parameter %q: there are user, password_file, password_env and sasl", name)
	}
	if (m.user == "") != (m.password == nil) || m.sasl != "" && m.user == "" {
		return badMessages("user and password_file or password_env belong together, and sasl needs both")
	}
	if m.sasl == "" {
		m.sasl = mechanisms[0]
	}
	if !slices.Contains(mechanisms, m.sasl) {
		return badMessages("sasl is %q: want %s", m.sasl, strings.Join(mechanisms, ", "))
	}
	return nil
}

// options returns what a client is made with.
func (m *Messages) options() []kgo.Opt {
	o := []kgo.Opt{
		kgo.SeedBrokers(m.brokers...),
		kgo.ConsumeTopics(m.topic),
		// What was said before does not matter: the table was read since.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.FetchMaxBytes(1 << 20),
		kgo.ClientID("sluice"),
	}
	if m.tls {
		o = append(o, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if m.user != "" {
		o = append(o, kgo.SASL(m.mechanism()))
	}
	return o
}

// mechanism reads the password anew for every connection.
func (m *Messages) mechanism() sasl.Mechanism {
	scrams := func(context.Context) (scram.Auth, error) {
		password, err := m.password()
		return scram.Auth{User: m.user, Pass: password}, err
	}
	switch m.sasl {
	case "scram-sha-256":
		return scram.Sha256(scrams)
	case "scram-sha-512":
		return scram.Sha512(scrams)
	}
	return plain.Plain(func(context.Context) (plain.Auth, error) {
		password, err := m.password()
		return plain.Auth{User: m.user, Pass: password}, err
	})
}

// Run calls look when messages came, until ctx ends. Brokers that are away are
// tried again and again; what was missed meanwhile is for the poll to find. The
// error says that no client could be made.
func (m *Messages) Run(ctx context.Context, look func()) error {
	t := &teller{log: m.log}
	client, err := kgo.NewClient(append(m.options(), kgo.WithHooks(t))...)
	if err != nil {
		return badMessages("%w", err)
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return nil
		}
		if !fetches.Empty() {
			look()
		}
		t.tell(problemOf(fetches))
	}
}

// A teller tells of errors, and not each time that one that goes on comes back.
type teller struct {
	log *slog.Logger

	mu   sync.Mutex
	told time.Time
}

// OnBrokerConnect implements [kgo.HookBrokerConnect]: a broker that cannot be
// reached is tried again without an error anywhere else.
func (t *teller) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	t.tell(err)
}

func (t *teller) tell(err error) {
	if err == nil || !t.due(time.Now()) {
		return
	}
	t.log.Warn("messages about rules cannot be read: changes are seen otherwise", slog.Any("error", err))
}

func (t *teller) due(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.told) < again {
		return false
	}
	t.told = now
	return true
}

// problemOf returns what went wrong with some fetches.
func problemOf(fetches kgo.Fetches) error {
	var errs []error
	fetches.EachError(func(_ string, _ int32, err error) { errs = append(errs, err) })
	return errors.Join(errs...)
}
