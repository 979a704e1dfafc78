-- The usual token bucket, kept in a hash of tokens and time: what experiments
-- compare with. One token of every key, or of none.
-- KEYS: the buckets. ARGV: tokens a second, burst, the caller's time in seconds
-- ("": the server's decides).
local rate, burst, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if not now then
  local t = redis.call('TIME')
  now = t[1] + t[2] / 1e6
end
local left = {}
for i, key in ipairs(KEYS) do
  local state = redis.call('HMGET', key, 'tokens', 'ts')
  local tokens, ts = tonumber(state[1]) or burst, tonumber(state[2]) or now
  left[i] = math.min(burst, tokens + math.max(0, now - ts) * rate) - 1
  if left[i] < 0 then
    return 0
  end
end
for i, key in ipairs(KEYS) do
  redis.call('HSET', key, 'tokens', left[i], 'ts', string.format('%.6f', now))
  redis.call('EXPIRE', key, math.ceil(burst / rate) + 1)
end
return 1
