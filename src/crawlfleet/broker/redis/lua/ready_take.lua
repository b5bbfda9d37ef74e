-- The oldest, out of their windows: lane, how many, lane, how many, ... The answer: lane, ids, lane, ids, ...
local MOST_TAKEN = 100000
local answer, kept, newest = {}, taken_keys()[1], call('HGET', ready, 'newest') or NONE

for i = FIRST, #ARGV, 2 do
  local lane = found(ARGV[i])
  local want = lane and math.min(tonumber(ARGV[i + 1]), lane.size) or 0
  if want > 0 then
    local oldest = call('ZRANGE', lane.known, 0, want - 1)
    if #oldest > 0 then
      call('ZREMRANGEBYRANK', lane.known, 0, #oldest - 1)
      over(oldest, 'SADD', kept)
      answer[#answer + 1] = lane.id
      answer[#answer + 1] = table.concat(oldest)
    end
    newest = oldest[#oldest] and oldest[#oldest] > newest and oldest[#oldest] or newest
    lane.size = lane.size - #oldest
    close(lane)
  end
end

if #answer > 0 then
  call('HSET', ready, 'newest', newest)
  local excess = call('SCARD', kept) - MOST_TAKEN
  if excess > 0 then
    call('SPOP', kept, excess)
  end
  call('EXPIRE', kept, math.ceil(2 * span) + 1)
end
return answer
