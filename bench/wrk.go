package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// wrk asks for as many requests as a server answers over some connections, and
// returns how many that is in a second.
func wrk(path, url string, connections int, d time.Duration) (float64, error) {
	text, err := exec.Command(path, "-t1", fmt.Sprintf("-c%d", connections), fmt.Sprintf("-d%.0fs", d.Seconds()), url).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("wrk: %w: %s", err, text)
	}
	return parseWrk(string(text))
}

// parseWrk reads wrk's report. A report of anything but answers 200 is an error.
func parseWrk(report string) (float64, error) {
	rate := 0.0
	for line := range strings.Lines(report) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "Requests/sec":
			var err error
			if rate, err = strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil {
				return 0, fmt.Errorf("wrk: %w", err)
			}
		case "Non-2xx or 3xx responses", "Socket errors":
			return 0, fmt.Errorf("wrk: %s:%s", name, value)
		}
	}
	if rate <= 0 {
		return 0, errors.New("wrk: no requests answered")
	}
	return rate, nil
}
