-- Forget these lanes.
for i = FIRST, #ARGV do
  local lane = found(ARGV[i])
  if lane then
    call('HDEL', ready, lane.id)
    call('UNLINK', lane.known)
    call('HINCRBY', ready, 'total', -lane.size)
    note_changed(lane.id)
  end
end
