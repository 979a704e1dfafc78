package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"

	"github.com/sluice-limiter/sluice/servers"
)

// Machine says in a line what is measured on.
func Machine(ctx context.Context) string {
	parts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if model := processor(); model != "" {
		parts[0] += " of " + model
	}
	parts = append(parts, runtime.GOOS+"/"+runtime.GOARCH, runtime.Version())
	if version := redisVersion(ctx); version != "" {
		parts = append(parts, "redis-server "+version)
	}
	return strings.Join(parts, ", ")
}

// processor returns the processor's name, "" where the system does not tell it.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

func redisVersion(ctx context.Context) string {
	path, err := servers.Find("redis-server", "redis-server")
	if err != nil {
		return ""
	}
	text, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return ""
	}
	if found := regexp.MustCompile(`\bv=(\S+)`).FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return ""
}
