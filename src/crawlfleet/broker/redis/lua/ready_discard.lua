-- No longer ready: lane, ids, lane, ids, ...
for i = FIRST, #ARGV, 2 do
  local lane = found(ARGV[i])
  if lane then
    for _, id in ipairs(split(ARGV[i + 1])) do
      local rank = call('ZRANK', lane.known, id)
      if rank then
        call('ZREM', lane.known, id)
        lane.size = lane.size - (rank < lane.size and 1 or 0)
      end
    end
    close(lane)
  end
end
