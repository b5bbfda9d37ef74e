-- Forget these lanes.
for i = FIRST, #ARGV do
  local lane = found(ARGV[i])
  if lane then
    call('HDEL', ready, lane.id)
    call('UNLINK', lane.known)
    call('HINCRBY', ready, 'total', 0 - lane.size) -- not -size, which says "-0" of nothing
    note_changed(lane.id)
  end
end
