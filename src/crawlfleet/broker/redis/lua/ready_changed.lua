-- Those that changed since this was asked last, in the shape of ready_windows.lua; what is gone is empty.
-- KEYS[1]: the hash of the ready index.
local known = KEYS[1] .. ':changed'
local lanes, shown = redis.call('SMEMBERS', known), {}
for i = 1, #lanes do
  shown[2 * i - 1] = lanes[i]
  shown[2 * i] = redis.call('HGET', KEYS[1], lanes[i]) or '0 0000000000000000 0000000000000000 0'
end
redis.call('UNLINK', known)
return table.concat(shown, ' ')
