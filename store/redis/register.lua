-- Says that an instance lives, and returns the ids of all that do. The sorted
-- set holds the end of each life in the server's milliseconds.
--
-- KEYS[1]  the set.
-- ARGV[1]  the instance's id.
-- ARGV[2]  how long it lives from now, in milliseconds; 0: it is gone.
-- ARGV[3]  the caller's time in Unix milliseconds, where TIME is refused in
--          scripts; else empty.
local now = tonumber(ARGV[3])
if not now then
  local clock = redis.call('TIME')
  now = clock[1] * 1000 + math.floor(clock[2] / 1000)
end
local ttl = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
-- Of a clock that was set back: nobody lives this long at once.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now + 3600000), '+inf')
if ttl > 0 then
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + ttl), ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
if last then
  redis.call('PEXPIRE', KEYS[1], math.max(1, last - now))
end
return redis.call('ZRANGE', KEYS[1], 0, -1)
