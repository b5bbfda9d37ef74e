-- Append to the bounded list; the oldest fall out. KEYS[1]: the list.
-- ARGV: how many it keeps, how long it lives (seconds), pairs of ids in one string.
local packed, freed = ARGV[3], {}
for i = 1, #packed, 32 do
  freed[#freed + 1] = packed:sub(i, i + 31)
end
redis.call('RPUSH', KEYS[1], unpack(freed))
redis.call('LTRIM', KEYS[1], -ARGV[1], -1)
redis.call('EXPIRE', KEYS[1], ARGV[2])
