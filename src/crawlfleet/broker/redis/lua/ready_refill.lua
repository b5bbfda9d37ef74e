-- What the store has at the head of a lane: the lane, whether the store has more, the ids in order.
local lane, is_deep, packed = opened(ARGV[FIRST]), ARGV[FIRST + 1] == '1', ARGV[FIRST + 2]
local heads = split(packed)

for _, key in ipairs(taken_keys()) do
  local others = {}
  for i, is_taken in ipairs(over(heads, 'SMISMEMBER', key)) do
    if is_taken == 0 then
      others[#others + 1] = heads[i]
    end
  end
  heads = others
end
add(lane.known, heads)

-- What else the store has after that is not known: keep no gap.
local last, reach = packed:sub(-16), lane.reach
if is_deep and #packed > 0 and last < reach then
  reach = last
end
if reach ~= ENDLESS then
  call('ZREMRANGEBYLEX', lane.known, '(' .. reach, '+')
end
local count = call('ZCARD', lane.known)
call('ZREMRANGEBYRANK', lane.known, window, -1)
lane.is_deep = is_deep or lane.reach ~= ENDLESS or count > window
lane.size, lane.reach = math.min(count, window), ENDLESS
close(lane)
shrink()
