-- Keep the bound over all lanes: the fullest give up their newest, down to one level.
local function level_for(sizes, excess)
  local freed = 0
  for count, size in ipairs(sizes) do
    local step = count * (size - (sizes[count + 1] or 0))
    if freed + step >= excess then
      local rest = (excess - freed) % count
      local level = size - math.ceil((excess - freed) / count)
      return level, rest > 0 and count - rest or 0
    end
    freed = freed + step
  end
  return 0, 0
end

local function shrink()
  local excess = (tonumber(call('HGET', ready, 'total')) or 0) - total
  if excess <= 0 then
    return
  end
  local rows, lanes, sizes = call('HGETALL', ready), {}, {}
  for i = 1, #rows, 2 do
    if tonumber(rows[i]) then
      sizes[#sizes + 1] = tonumber(rows[i + 1]:match('%d+$'))
      lanes[#lanes + 1] = {id = rows[i], size = sizes[#sizes]}
    end
  end
  table.sort(sizes, function(one, other) return one > other end)
  table.sort(lanes, function(one, other) return tonumber(one.id) < tonumber(other.id) end)
  local level, spare = level_for(sizes, excess)
  local fullest = {}
  for _, lane in ipairs(lanes) do
    if lane.size > level then
      fullest[#fullest + 1] = lane
    end
  end
  for position, full in ipairs(fullest) do
    local keep = level + (position > #fullest - spare and 1 or 0)
    if full.size > keep then
      local lane = found(full.id)
      lane.size, lane.is_deep = keep, true
      close(lane)
    end
  end
end
