-- Forget everything ready.
for _, lane in ipairs(call('HKEYS', ready)) do
  call('UNLINK', ready .. ':' .. lane)
end
call('UNLINK', ready, ready .. ':changed', unpack(taken_keys()))
