-- Newly ready: lane, its ids in order and without doubles, lane, ids, ...
local taken, newest = taken_keys(), call('HGET', ready, 'newest') or NONE

-- The first ids, up to that one and not more than so many.
local function first(packed, last, most)
  local ids = {}
  for i = 1, math.min(#packed / 16, most) do
    local id = packed:sub(16 * i - 15, 16 * i)
    if id > last then
      break
    end
    ids[i] = id
  end
  return ids
end

local function offer(lane, packed)
  local last = lane.is_deep and lane.size > 0 and call('ZRANGE', lane.known, lane.size - 1, lane.size - 1)[1]
  -- Two windows and one more are all that can matter: one fills the window, one is remembered as dropped, and one more
  -- shows that not all of them were.
  add(lane.known, first(packed, lane.reach, 2 * window + 1))
  if not lane.is_deep then
    lane.size = call('ZCARD', lane.known)
  else
    lane.size = last and call('ZRANK', lane.known, last) + 1 or 0
  end
  if lane.size > window then
    lane.size, lane.is_deep = window, true
  end
end

for i = FIRST, #ARGV, 2 do
  local lane, packed = opened(ARGV[i]), ARGV[i + 1]
  local once_taken = first(packed, newest, #packed)
  for _, key in ipairs(taken) do
    over(once_taken, 'SREM', key)
  end
  offer(lane, packed)
  close(lane)
end
shrink()
