-- The ready index, shared by the scripts that come after it. The rules, and what they are for, are told in
-- broker/memory/ready.py; here they are kept in another shape:
--
-- KEYS[1]            hash: lane -> "deep head reach size"; total -> the sum of the sizes; newest -> of all ids taken
-- KEYS[1]:<lane>     sorted set of equal scores: the window and, after it, what was dropped since the last refill
-- KEYS[1]:taken:<n>  set: what was taken in the n-th span of time
-- KEYS[1]:changed    set: the lanes that are not as the leader saw them last
--
-- All that was dropped is later than all that is in the window. So one set holds both, and `size` says where the window
-- ends. Any of the keys may be gone (expired, evicted): a window is then shorter than its row says, until it is touched.
--
-- ARGV: the bounds of a window and of all, how long keys live, how long a span is (both in seconds), and from ARGV[FIRST]
-- on what is asked. Ids are sixteen hex digits, and come and go in one string.
local call = redis.call
local ready, window, total, ttl, span = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local FIRST = 5
local NONE, ENDLESS = string.rep('0', 16), string.rep('f', 16)
local FEW, LONG = 32, string.rep('f', 65)
local MANY = 5000 -- Lua passes fewer than 8,000 arguments at once

-- The answers are joined.
local function over(members, command, key)
  local answers = {}
  for i = 1, #members, MANY do
    local answer = call(command, key, unpack(members, i, math.min(i + MANY - 1, #members)))
    for j = 1, type(answer) == 'table' and #answer or 0 do
      answers[i + j - 1] = answer[j]
    end
  end
  return answers
end

local function split(packed)
  local ids = {}
  for i = 1, #packed / 16 do
    ids[i] = packed:sub(16 * i - 15, 16 * i)
  end
  return ids
end

local function add(known, ids)
  local scored = {}
  for i = 1, #ids do
    scored[2 * i - 1], scored[2 * i] = '0', ids[i]
  end
  -- Every insertion into a small sorted set searches it from its beginning; a member of that length makes it a large
  -- one for good. (Redis 7.2 does so by itself when many come at once.)
  if #ids > FEW then
    call('ZADD', known, 0, LONG)
  end
  over(scored, 'ZADD', known)
  if #ids > FEW then
    call('ZREM', known, LONG)
  end
end

-- A lane as it is, or nil.
local function found(id)
  local row = call('HGET', ready, id)
  if not row then
    return nil
  end
  local deep, reach, size = row:match('^(%d) %x+ (%x+) (%d+)$')
  size = tonumber(size)
  return {id = id, known = ready .. ':' .. id, is_deep = deep == '1', reach = reach, size = size, was = size}
end

local function opened(id)
  local lane = found(id)
  if not lane then
    lane = {id = id, known = ready .. ':' .. id, is_deep = false, reach = ENDLESS, size = 0, was = 0}
    call('UNLINK', lane.known)
  end
  return lane
end

local function note_changed(id)
  call('SADD', ready .. ':changed', id)
  call('EXPIRE', ready .. ':changed', ttl)
end

local function close(lane)
  note_changed(lane.id)
  local count = call('ZCARD', lane.known)
  lane.size = math.min(lane.size, count)
  if count > lane.size + window then
    call('ZREMRANGEBYRANK', lane.known, lane.size + window, -1)
    lane.reach = call('ZRANGE', lane.known, -1, -1)[1]
  end
  if lane.size == 0 and not lane.is_deep then
    call('HDEL', ready, lane.id)
    call('UNLINK', lane.known)
  else
    local head = lane.size > 0 and call('ZRANGE', lane.known, 0, 0)[1] or NONE
    local deep = lane.is_deep and '1' or '0'
    call('HSET', ready, lane.id, deep .. ' ' .. head .. ' ' .. lane.reach .. ' ' .. lane.size)
    call('EXPIRE', lane.known, ttl)
  end
  call('HINCRBY', ready, 'total', lane.size - lane.was)
  call('EXPIRE', ready, ttl)
end

-- The sets of this span of time and the one before: an id is remembered for one span at least and two at most.
local function taken_keys()
  local now = call('TIME')
  local number = math.floor((now[1] + now[2] / 1000000) / span)
  return {ready .. ':taken:' .. number, ready .. ':taken:' .. (number - 1)}
end
