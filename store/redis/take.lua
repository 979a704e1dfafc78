-- Decides charges in one atomic step. Go's sluice.Decide is the specification;
-- a property test holds this script to it.
--
-- KEYS     the states, each named once.
-- ARGV[1]  'b': all are token buckets, charge i on KEYS[i], each record
--          '<Bdddd' (1 if it ends its group, n, unit, interval, capacity).
--          'g': anything, each record '<HBBdddd' (key, kind, flags, n, unit, a,
--          b); see below.
--          'B', 'G': the same on the caller's clock, for servers that refuse
--          TIME in scripts.
-- ARGV[2]  the records, packed.
-- ARGV[3+] calendars: '<d' times six, the number of the first window and the
--          starts of five windows in Unix microseconds.
-- Last     with 'B' and 'G': the caller's time in Unix microseconds.
--
-- The reply is one packed string: the time in ticks as '<d', then a record for
-- each charge. Decisions follow from it by the formulas that Go has anyway.
--
-- Times are ticks, sixteenths of a microsecond since 2026, so that all numbers
-- stay below 2^53. The clock is read once.
local call, pack, unpack, ceil = redis.call, struct.pack, struct.unpack, math.ceil
local format = string.format
local mode, records = ARGV[1], ARGV[2]
local micros
-- How a key is given its end, and what is added to the milliseconds from now.
-- By the server's clock an instant costs less than a duration, which the server
-- would turn into one; the caller's clock may differ from that.
local expire_by, expire_from = 'PEXPIRE', 0
-- How much longer than its state matters a key lives, in milliseconds: the server
-- counts from when a call reaches it, and calls take more time and less.
local late = 0
if mode == 'B' or mode == 'G' then
  micros = tonumber(ARGV[#ARGV])
  late = 100
else
  local clock = call('TIME')
  micros = clock[1] * 1000000 + clock[2]
  expire_by, expire_from = 'PEXPIREAT', ceil(micros / 1000)
end
local now = (micros - 1767225600000000) * 16

-- Token buckets alone are what nearly all calls are made of. They are decided
-- without the functions below, whose making would cost more than the deciding.
if mode == 'b' or mode == 'B' then
  -- put writes a debt and returns the new state. Adding to the integer that is
  -- there and moving its end costs two thirds of writing both anew.
  local function put(key, state, debt)
    local millis = ceil(debt / 16000) + late
    if state ~= 0 and type(redis.pcall('INCRBY', key, format('%d', now + debt - state))) == 'number' then
      call(expire_by, key, format('%d', expire_from + millis))
    else
      call('SET', key, format('%d', now + debt), 'PX', format('%d', millis))
    end
    return now + debt
  end

  local count = #KEYS
  local values = count == 1 and {call('GET', KEYS[1])} or call('MGET', _G.unpack(KEYS))
  local out, pos, i = {pack('<d', now)}, 1, 1
  while i <= count do
    local first, units, ends = i, math.huge, 0
    local group = {}
    while ends == 0 do
      local n, unit, interval, capacity
      ends, n, unit, interval, capacity, pos = unpack('<Bdddd', records, pos)
      local fill = interval * capacity
      local state = values[i] and tonumber(values[i]) or 0
      local debt = 0
      if state ~= 0 and state > now then
        debt = state - now
        if debt > fill then debt = fill end
      end
      if n > 0 then
        local room = (fill - debt - (fill - debt) % interval) / interval
        local most = room < n and room or n
        most = (most - most % unit) / unit
        if most < units then units = most end
      end
      -- Of a group of one, what follows needs no table.
      if ends == 0 or i > first then
        group[#group + 1] = {n, unit, interval, fill, state, debt}
      else
        group = nil
        local granted = n > 0 and units * unit or 0
        if granted > 0 then
          state = put(KEYS[i], state, debt + granted * interval)
        elseif n > 0 and state - now > fill then
          -- A lowered limit or a clock set back: the wait must not begin anew
          -- at each look.
          state = put(KEYS[i], state, fill)
        end
        out[i + 1] = pack('<dd', granted, state)
      end
      i = i + 1
    end
    for k = 1, group and #group or 0 do
      local n, unit, interval, fill, state, debt = _G.unpack(group[k])
      local key, granted = first + k - 1, n > 0 and units * unit or 0
      if granted > 0 then
        state = put(KEYS[key], state, debt + granted * interval)
      elseif n > 0 and state - now > fill then
        state = put(KEYS[key], state, fill)
      end
      out[key + 1] = pack('<dd', granted, state)
    end
  end
  return table.concat(out)
end

-- The kinds of a record, and what a and b are for each.
local BUCKET, FIXED, SLIDING, LOG, CALENDAR = 0, 1, 2, 3, 4
-- BUCKET            a: ticks a token          b: capacity   reply '<dd'   granted, state
-- FIXED, SLIDING    a: window in microseconds b: capacity   reply '<dddd' granted, start, count, prev
-- CALENDAR          a: which ARGV             b: capacity   reply as FIXED
-- LOG               a: period in microseconds b: capacity   reply '<ddddd' granted, room, wait, reset, stamp
-- Flags: 1 begins a group; 2 settles: n more tokens, or if below 0 gives back,
-- unit then saying where they came from (bucket: when its debt has drained, in
-- ticks; window: its start in microseconds; log: the stamp in ticks).
local COUNT = 8589934592  -- 2^33: where a fixed window's count ends
local CYCLE = 1048576     -- 2^20: where its number begins anew
local STEPS = 1048576     -- of a sliding window's weight
local QUANTA = 1073741824 -- of a log's period
local WRAP = 4294967296   -- 2^32: where a log's times and a sliding window's number begin anew

local function div(a, b) return (a - a % b) / b end
local function up(a, b) return -div(-a, b) end

local states = {}

local function expire(ticks) return math.max(1, ceil(ticks / 16000) + late) end

-- Token buckets: state.at is the arrival time, 0 for a key never used.

local function bucket_load(c)
  return {at = tonumber(call('GET', KEYS[c.key]) or 0)}
end

local function bucket_debt(c, s)
  if s.at == 0 then return 0 end
  return math.min(math.max(s.at - now, 0), c.a * c.b)
end

local function bucket_put(c, s, debt)
  s.at = now + math.max(debt, 0)
  if debt > 0 then
    call('SET', KEYS[c.key], s.at, 'PX', expire(debt))
  else
    s.at = 0
    call('DEL', KEYS[c.key])
  end
end

-- Windows: state.start and state.stop in Unix microseconds, state.number of the
-- window, state.count and state.prev. A fixed window is one integer, the number
-- of its window times 2^33 plus the count; a sliding one has both counts.

local function window_cycle(c) return c.kind == SLIDING and WRAP or CYCLE end

local function window_bounds(c)
  if c.kind == CALENDAR then
    local first, edge = unpack('<d', ARGV[c.a], 1), {unpack('<ddddd', ARGV[c.a], 9)}
    for i = 2, 3 do
      if micros >= edge[i] and micros < edge[i + 1] then
        return edge[i], edge[i + 1], edge[i + 2] or edge[i + 1], first + i - 1
      end
    end
    return nil
  end
  local start = micros - math.fmod(micros, c.a)
  return start, start + c.a, start + 2 * c.a, start / c.a
end

local function window_load(c)
  local start, stop, after, number = window_bounds(c)
  local s = {start = start, stop = stop, number = number, count = 0, prev = 0, ahead = false}
  local value = call('GET', KEYS[c.key])
  if not value then return s end
  local held, count, prev
  if c.kind == SLIDING then
    held, count, prev = unpack('>I4I5I5', value)
  else
    value = tonumber(value)
    count, prev = value % COUNT, 0
    held = (value - count) / COUNT
  end
  if count == 0 and prev == 0 then return s end
  local cycle = window_cycle(c)
  local apart = (held - number) % cycle
  if apart == cycle - 1 then
    s.prev = count
  elseif apart < cycle / 2 then
    s.count, s.prev = count, prev
    if apart == 1 then
      -- The clock was set back a little: stored time stands still.
      s.start, s.stop, s.number = stop, after, number + 1
    elseif apart > 1 then
      s.ahead = true
    end
  end
  return s
end

local function window_put(c, s)
  local number, keep = s.number % window_cycle(c), s.stop - micros
  if c.kind == SLIDING then
    call('SET', KEYS[c.key], pack('>I4I5I5', number, s.count, s.prev), 'PX', expire((keep + c.a) * 16))
  else
    call('SET', KEYS[c.key], number * COUNT + s.count, 'PX', expire(keep * 16))
  end
end

local function window_room(c, s)
  local weight = 0
  if c.kind == SLIDING and s.prev > 0 then
    local step = up(c.a, STEPS)
    local number = div(c.a, step)
    local left = c.a - math.max(0, micros - s.start)
    weight = up(s.prev * math.min(number, up(left, step)), number)
  end
  return math.max(0, c.b - s.count - weight)
end

-- Logs: a ring of 4-byte times behind a header. Times count in quanta of the
-- period; an entry is the low 32 bits of its time, base those of the newest.
-- The ring grows by doubling, in strings of exact size.

local HEADER = 24 -- '>dI4I4I4I4': newest, base, head, count, ring

local function log_load(c)
  local s = {newest = 0, base = 0, head = 0, count = 0, ring = 0}
  s.quantum = up(c.a, QUANTA) * 16
  s.span = c.a * 16
  local header = call('GETRANGE', KEYS[c.key], 0, HEADER - 1)
  if #header == HEADER then
    s.newest, s.base, s.head, s.count, s.ring = unpack('>dI4I4I4I4', header)
  end
  s.stamp = up(now, s.quantum)
  if s.count > 0 then
    if s.newest * s.quantum - now > s.span + s.quantum then
      s.ahead = true
      s.newest = s.stamp
    elseif s.newest > s.stamp then
      s.stamp = s.newest
    end
  end
  return s
end

local function log_header(s)
  return pack('>dI4I4I4I4', s.newest, s.base, s.head, s.count, s.ring)
end

local function log_leaves(c, s, i)
  local at = HEADER + 4 * ((s.head + i) % s.ring)
  local age = (s.base - unpack('>I4', call('GETRANGE', KEYS[c.key], at, at + 3))) % WRAP
  return (s.newest - age) * s.quantum + s.span
end

-- log_dead returns how many of the oldest entries have left.
local function log_dead(c, s)
  if s.count == 0 or log_leaves(c, s, 0) > now then return 0 end
  if s.newest * s.quantum + s.span <= now then return s.count end
  local low, high = 1, s.count
  while low < high do
    local mid = div(low + high, 2)
    if log_leaves(c, s, mid) > now then high = mid else low = mid + 1 end
  end
  return low
end

-- log_expire returns a TTL that outlasts every entry.
local function log_expire(s)
  return expire(s.newest * s.quantum + s.span - now)
end

local function log_reset(c, s)
  if s.count == 0 then return 0 end
  return math.max(0, log_leaves(c, s, s.count - 1) - now)
end

local function log_wait(c, s, n)
  local dead = log_dead(c, s)
  local over = s.count - dead + n - c.b
  if over <= 0 then return 0 end
  return log_leaves(c, s, dead + over - 1) - now
end

-- log_entries returns the live entries as one string, oldest first.
local function log_entries(c, s)
  if s.count == 0 then return '' end
  local all = call('GETRANGE', KEYS[c.key], HEADER, -1)
  local from, to = s.head * 4, (s.head + s.count) * 4
  if to <= s.ring * 4 then return string.sub(all, from + 1, to) end
  return string.sub(all, from + 1, s.ring * 4) .. string.sub(all, 1, to - s.ring * 4)
end

local function log_layout(c, s, entries)
  s.count = #entries / 4
  local ring = 16
  while ring < s.count do ring = ring * 2 end
  s.head, s.ring = 0, math.max(s.count, math.min(ring, c.b))
  local value = log_header(s) .. entries .. string.rep('\0', (s.ring - s.count) * 4)
  call('SET', KEYS[c.key], value, 'PX', log_expire(s))
end

local function log_append(c, s, n)
  local dead = log_dead(c, s)
  local over = math.max(0, math.min(n, s.count - dead + n - c.b))
  if s.ring > 0 then s.head = (s.head + dead + over) % s.ring end
  s.count = s.count - dead - over
  s.base = s.count > 0 and (s.base + s.stamp - s.newest) % WRAP or s.stamp % WRAP
  s.newest = s.stamp
  local entries = string.rep(pack('>I4', s.base), n)
  if s.count + n > s.ring or s.ring > c.b then
    log_layout(c, s, log_entries(c, s) .. entries)
    return
  end
  local at = (s.head + s.count) % s.ring
  local fits = math.min(n, s.ring - at)
  call('SETRANGE', KEYS[c.key], HEADER + 4 * at, string.sub(entries, 1, fits * 4))
  if fits < n then
    call('SETRANGE', KEYS[c.key], HEADER, string.sub(entries, fits * 4 + 1))
  end
  s.count = s.count + n
  call('SETRANGE', KEYS[c.key], 0, log_header(s))
  call('PEXPIRE', KEYS[c.key], log_expire(s))
end

local function log_give_back(c, s, n, at)
  local origin = div(at, s.quantum)
  local age = s.newest - origin
  if s.count == 0 or s.ahead or age < 0 or age > WRAP / 2 then return end
  local stamp, entries = pack('>I4', (s.base - age) % WRAP), log_entries(c, s)
  local from = 1
  while from <= #entries and string.sub(entries, from, from + 3) ~= stamp do from = from + 4 end
  local to = from
  while to <= #entries and n > 0 and string.sub(entries, to, to + 3) == stamp do
    to, n = to + 4, n - 1
  end
  if to > from then
    log_layout(c, s, string.sub(entries, 1, from - 1) .. string.sub(entries, to))
  end
end

-- What all kinds have in common.

local function load(c)
  local s = states[c.key]
  if not s then
    s = c.kind == BUCKET and bucket_load(c) or c.kind == LOG and log_load(c) or window_load(c)
    states[c.key] = s
  end
  return s
end

local function room(c, s)
  if c.kind == BUCKET then return div(c.a * c.b - bucket_debt(c, s), c.a) end
  if c.kind == LOG then return math.max(0, c.b - (s.count - log_dead(c, s))) end
  return window_room(c, s)
end

local function take(c, s, n)
  if c.kind == BUCKET then
    bucket_put(c, s, bucket_debt(c, s) + n * c.a)
  elseif c.kind == LOG then
    log_append(c, s, n)
  else
    s.count = s.count + n
    window_put(c, s)
  end
end

-- repair is the one write of a refused call.
local function repair(c, s)
  if c.kind == BUCKET then
    if s.at - now > c.a * c.b then bucket_put(c, s, c.a * c.b) end
  elseif s.ahead then
    if c.kind == LOG then
      call('SETRANGE', KEYS[c.key], 0, log_header(s))
      call('PEXPIRE', KEYS[c.key], log_expire(s))
    else
      window_put(c, s)
    end
  end
end

local function settle(c, s)
  local n = math.min(c.n, c.b)
  if n > 0 then
    if c.kind == BUCKET then
      bucket_put(c, s, math.min(c.a * c.b, bucket_debt(c, s) + n * c.a))
    elseif c.kind == LOG then
      log_append(c, s, n)
    else
      s.count = math.max(s.count, math.min(c.b, s.count + n))
      window_put(c, s)
    end
    return
  end
  n = math.min(-c.n, c.b)
  if c.kind == BUCKET then
    local left = c.unit - now
    if s.at ~= 0 and left > 0 then bucket_put(c, s, bucket_debt(c, s) - math.min(n * c.a, left)) end
  elseif c.kind == LOG then
    log_give_back(c, s, n, c.unit)
  elseif c.unit == s.start then
    s.count = math.max(0, s.count - n)
    window_put(c, s)
  elseif c.kind == SLIDING and c.unit + c.a == s.start then
    s.prev = math.max(0, s.prev - n)
    window_put(c, s)
  end
end

-- demand returns the tokens that one unit of the group asks of the key of
-- charge i: by the charges before it, and by all.
local function demand(group, i)
  local before, all = 0, 0
  for j = 1, #group do
    local c = group[j]
    if c.key == group[i].key and c.n > 0 then
      all = all + c.unit
      if j < i then before = before + c.unit end
    end
  end
  return before, all
end

local out = {pack('<d', now)}

local function reply(c, s, granted)
  if c.kind == BUCKET then
    return pack('<dd', granted, s.at)
  elseif c.kind == LOG then
    local want = math.min(c.before + c.unit, c.b)
    return pack('<ddddd', granted, room(c, s), log_wait(c, s, want), log_reset(c, s), s.stamp * s.quantum)
  end
  return pack('<dddd', granted, s.start, s.count, s.prev)
end

local function decide(group)
  local units = math.huge
  for i = 1, #group do
    local c = group[i]
    local s = load(c)
    c.before = 0
    if c.n > 0 then
      local all = c.unit
      if #group > 1 then c.before, all = demand(group, i) end
      units = math.min(units, div(c.n, c.unit), div(room(c, s), all))
    end
  end
  for i = 1, #group do
    local c = group[i]
    if c.n > 0 then
      if units > 0 then take(c, states[c.key], units * c.unit) else repair(c, states[c.key]) end
    end
  end
  for i = 1, #group do
    local c = group[i]
    local granted = c.n > 0 and units > 0 and units * c.unit or 0
    out[#out + 1] = reply(c, states[c.key], granted)
  end
end

-- Before anything is written: a calendar that does not reach the store's time
-- is sent again by the caller, made for that time.
local group, groups, pos = nil, {}, 1
while pos <= #records do
  local c = {}
  local flags
  c.key, c.kind, flags, c.n, c.unit, c.a, c.b, pos = unpack('<HBBdddd', records, pos)
  if c.kind == CALENDAR and not window_bounds(c) then return out[1] .. 'again' end
  if flags % 2 == 1 then
    group = {settles = flags >= 2}
    groups[#groups + 1] = group
  end
  group[#group + 1] = c
end
for i = 1, #groups do
  if groups[i].settles then
    for j = 1, #groups[i] do settle(groups[i][j], load(groups[i][j])) end
  else
    decide(groups[i])
  end
end
return table.concat(out)
