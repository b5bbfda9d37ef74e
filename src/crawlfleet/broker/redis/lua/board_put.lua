-- KEYS[1]: the hash. ARGV: how many fields it holds, how long it lives (seconds), field, value, field, value, ...
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[1]) then
  -- Too many, with those long gone: begin anew, since whoever lives speaks again soon.
  redis.call('UNLINK', KEYS[1])
  redis.call('HSET', KEYS[1], unpack(ARGV, 3))
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
