-- The oldest, once. KEYS[1]: the list. ARGV: how many.
return table.concat(redis.call('LPOP', KEYS[1], ARGV[1]) or {})
