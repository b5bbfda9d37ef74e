-- How much memory Redis uses, as its INFO has it; empty where this user may not ask.
-- KEYS[1]: the marker of the owner, so that the script has a key as all others do.
local info = redis.pcall('INFO', 'memory')
if type(info) ~= 'string' then
  return ''
end
return info
