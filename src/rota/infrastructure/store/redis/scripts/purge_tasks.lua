-- Delete ended tasks with all that belongs to them. May be repeated: one that is gone is passed over. Only commands are
-- used that a full server allows: this is what makes room.
-- KEYS     seven for each task: its text, its payload, its record, its lines, the set of those that ended so, the set of
--          its type, its idempotency key (or the payload again)
-- ARGV     the id of each task
-- Result: how many were deleted
local deleted = 0
for i = 1, #ARGV do
  local first, id = 7 * i - 6, ARGV[i]
  if redis.call("UNLINK", KEYS[first]) == 1 then
    deleted = deleted + 1
    redis.call("UNLINK", KEYS[first + 1], KEYS[first + 2], KEYS[first + 3])
    redis.call("ZREM", KEYS[first + 4], id)
    redis.call("ZREM", KEYS[first + 5], id)
    local owner = redis.call("GET", KEYS[first + 6])
    if owner and string.sub(owner, 1, #id) == id then -- else the key stands for another task by now
      redis.call("UNLINK", KEYS[first + 6])
    end
  end
end
return deleted
