package redis

import (
	_ "embed"
	"strings"

	"github.com/redis/rueidis"
)

//go:embed take.lua
var takeText string

// flaggedScript says in its first line that it writes. A server of version 7
// or later then refuses it as a whole where it may not write: on a replica, or
// when memory is full. Without that line calls that happen to write nothing
// would still be answered there, from data that nobody keeps, and a call of
// several keys could end halfway.
var (
	flaggedScript = rueidis.NewLuaScript("#!lua\n" + takeText)
	plainScript   = rueidis.NewLuaScript(takeText)
)

// takesNoFlags says whether an error is that of a server before version 7 about
// the script's first line, before anything was run. From then on the store sends
// the script without it.
func (s *Store) takesNoFlags(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	if !ok || !strings.HasPrefix(answer.Error(), "ERR Error compiling script") {
		return false
	}
	return s.script.CompareAndSwap(flaggedScript, plainScript)
}
