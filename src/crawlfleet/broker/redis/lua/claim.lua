-- Whose this Redis is: ours, when it was nobody's. Only its owner renews the claim.
-- KEYS[1]: the marker. ARGV: our installation, how long a claim lasts (seconds).
local owner = redis.call('GET', KEYS[1])
if not owner or owner == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
  return ARGV[1]
end
return owner
