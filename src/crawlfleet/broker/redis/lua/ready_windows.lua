-- All rows in one string: lane deep head reach size lane deep ...
-- KEYS[1]: the hash of the ready index.
local rows, shown = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #rows, 2 do
  if tonumber(rows[i]) then
    shown[#shown + 1] = rows[i]
    shown[#shown + 1] = rows[i + 1]
  end
end
return table.concat(shown, ' ')
