package main

import (
	"strings"
	"testing"
)

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"-h"}, {"--help"}} {
		out, errs := wantRun(t, 0, "sluice serve", "", args...)
		for _, want := range []string{"validate", "check", "replay", "version", "curl -i http://127.0.0.1:8080/"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s", args, want, out)
			}
		}
		if errs != "" {
			t.Errorf("%v: stderr %q", args, errs)
		}
	}
	wantRun(t, 2, "", "Usage:")
	for _, c := range commands() {
		for _, args := range [][]string{{c.name, "-h"}, {c.name, "--help"}, {"help", c.name}, {c.name, "word", "-h"}} {
			out, errs := wantRun(t, 0, "Usage: sluice "+c.name, "", args...)
			if errs != "" || strings.HasSuffix(out, "Flags:\n") {
				t.Errorf("%v: stderr %q, stdout %q", args, errs, out)
			}
		}
	}
	wantRun(t, 0, "  -c FILE", "", "check", "-h")
	wantRun(t, 0, "Usage: sluice replay -c FILE LOG...\n       sluice replay -suggest KEY [-c FILE] LOG...\n", "", "replay", "-h")
	wantRun(t, 0, "-window TIME", "", "replay", "-h")
	wantRun(t, 0, "(default 2m)\n", "", "replay", "-h")
	wantRun(t, 0, "Usage:\n  sluice serve", "", "help", "help")
}

func TestUnknownCommand(t *testing.T) {
	wantRun(t, 2, "", `unknown command "serv": did you mean serve?`, "serv")
	wantRun(t, 2, "", `unknown command "Replay": did you mean replay?`, "Replay")
	wantRun(t, 2, "", `unknown command "xyzzy"`+"\nRun sluice help", "xyzzy")
	wantRun(t, 2, "", `unknown command "chek": did you mean check?`, "help", "chek")
}

func TestMisuse(t *testing.T) {
	log := file(t, "a.log", "")
	for _, tt := range []struct{ want, args string }{
		{"flag provided but not defined: -foo", "serve -foo"},
		{"name the file with -c", "serve sluice.yaml"},
		{"-log \"xml\": want text or json", "serve -log xml"},
		{"-level \"loud\": want debug, info, warn or error", "serve -level loud"},
		{"-listen is for the demo", "serve -c x.yaml -listen :1"},
		{"no file is named", "validate"},
		{"name it with -c", "check tenant=a"},
		{"flag needs an argument: -c", "check -c"},
		{"want name=value", "check -c x.yaml tenant"},
		{"tenant is given twice", "check -c x.yaml tenant=a tenant=b"},
		{"n=x: want a whole number", "check -c x.yaml n=x"},
		{"n=-1: want a whole number", "check -c x.yaml n=-1"},
		{"no log is named; - is standard input", "replay -c x.yaml"},
		{"or let -suggest KEY propose limits", "replay " + log},
		{"-plot shows what limits did", "replay -suggest ip -plot x.svg " + log},
		{"-top shows what limits did", "replay -suggest ip -top 10 " + log},
		{"-share is for -suggest", "replay -c x.yaml -share 3 " + log},
		{"-per is for -suggest", "replay -c x.yaml -per 1m " + log},
		{"want a percentage", "replay -suggest ip -share 100 " + log},
		{"want name=attribute", "replay -suggest ip -field client " + log},
		{`unexpected "now"`, "version now"},
		{"no command is named: there is migrate", "rules"},
		{`unknown command "migrat": did you mean migrate?`, "rules migrat"},
		{`unexpected "now"`, "rules migrate now"},
		{"no database is named: want -c FILE or -url URL", "rules migrate"},
		{"-c and -url both name a database", "rules migrate -c x.yaml -url postgres://h/x"},
		{"one experiment at a time, not 2", "lab outage hotkey"},
		{`unknown experiment "hot": sluice lab lists them`, "lab hot"},
		{"-plot is for one experiment", "lab all -plot x.svg"},
	} {
		out, errs := wantRun(t, 2, "", tt.want, strings.Fields(tt.args)...)
		if out != "" || strings.Count(errs, "\n") != 2 || !strings.Contains(errs, " -h for help") {
			t.Errorf("%s: stdout %q, stderr %q: want two lines, the second how to get help", tt.args, out, errs)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, word := range []string{"version", "--version", "-version", "-v"} {
		wantRun(t, 0, "sluice ", "", word)
	}
}

func TestFlagsMayFollowWords(t *testing.T) {
	p := program{}
	f := p.flags("x", "", "")
	c, json := f.String("c", "", ""), f.Bool("json", false, "")
	words, code, done := p.parse(f, []string{"a", "-c", "file", "-", "b=c", "--json", "--", "-d", "--json"})
	if done || code != 0 || strings.Join(words, " ") != "a - b=c -d --json" || *c != "file" || !*json {
		t.Errorf("words %v, code %d, done %v, -c %q, -json %v", words, code, done, *c, *json)
	}
}
