-- Delete ended tasks with all that belongs to them. May be repeated: one that is gone is passed over. Only commands are
-- used that a full server allows: this is what makes room.
-- KEYS     six for each task: its text, its payload, its lines, the set of those that ended so, the set of its type,
--          its idempotency key (or the payload again)
-- ARGV     the id of each task
-- Result: how many were deleted
local deleted = 0
for i = 1, #ARGV do
  local first, id = 6 * i - 5, ARGV[i]
  if redis.call("UNLINK", KEYS[first]) == 1 then
    deleted = deleted + 1
    redis.call("UNLINK", KEYS[first + 1], KEYS[first + 2])
    redis.call("ZREM", KEYS[first + 3], id)
    redis.call("ZREM", KEYS[first + 4], id)
    local owner = redis.call("GET", KEYS[first + 5])
    if owner and string.sub(owner, 1, #id) == id then -- else the key stands for another task by now
      redis.call("UNLINK", KEYS[first + 5])
    end
  end
end
return deleted
