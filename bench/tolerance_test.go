package main

import (
	"strings"
	"testing"
)

func TestCPUSeconds(t *testing.T) {
	const info = "# CPU\r\nused_cpu_sys:1.500000\r\nused_cpu_user:2.250000\r\nused_cpu_sys_children:7.0\r\n"
	if got, err := cpuSeconds(info); err != nil || got != 3.75 {
		t.Errorf("cpuSeconds = %g, %v, want 3.75", got, err)
	}
	for _, bad := range []string{"", strings.Replace(info, "2.25", "x", 1)} {
		if got, err := cpuSeconds(bad); err == nil {
			t.Errorf("cpuSeconds(%q) = %g, want an error", bad, got)
		}
	}
}
