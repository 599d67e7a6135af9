-- Write documents and what finds them, if all that this was decided from is still so: everything, or nothing.
-- May be repeated: a condition that the first call met is then not met any more, or nothing changes.
-- KEYS        those that are written or looked at
-- ARGV[1]     how many conditions there are; each has four parts:
--               same    key number, field, value   the hash has this field with this value
--               absent  key number, field, -       the hash has no such field
--               present key number, field, -       the hash has this field
--               none    first and last key number, -   none of these keys exist
--               room    number of a key that is never there, -, -   the server takes writes that need memory: else this
--                       raises, before a write that needs none is done without one that does
-- then writes: a command, a key number, how many parts follow, and these. Two are our own:
--               SET     the values of as many keys from that number on
--               NOTE    id and text in turn: kept in a sorted set in the order of ids, where the id is not there yet
-- Result: 1, or 0 when a condition was not met
local CHUNK = 1000 -- even; unpack fails near 8000

local function count_existing(first, last)
  local count = 0
  for from = first, last, CHUNK do
    count = count + redis.call("EXISTS", unpack(KEYS, from, math.min(from + CHUNK - 1, last)))
  end
  return count
end

local function is_met(kind, number, field, value)
  local key = KEYS[number]
  if kind == "same" then
    return redis.call("HGET", key, field) == value
  elseif kind == "absent" then
    return redis.call("HEXISTS", key, field) == 0
  elseif kind == "present" then
    return redis.call("HEXISTS", key, field) == 1
  elseif kind == "none" then
    return count_existing(number, tonumber(field)) == 0
  end
  return redis.call("SETRANGE", key, 0, "") == 0 -- room
end

local writers = {
  SET = function(number, first, last)
    for from = first, last, CHUNK do
      local texts = {}
      for i = from, math.min(from + CHUNK - 1, last) do
        texts[#texts + 1] = KEYS[number + i - first]
        texts[#texts + 1] = ARGV[i]
      end
      redis.call("MSET", unpack(texts))
    end
  end,
  NOTE = function(number, first, last)
    for i = first, last, 2 do
      local id = ARGV[i]
      if #redis.call("ZRANGEBYLEX", KEYS[number], "[" .. id .. " ", "(" .. id .. "!", "LIMIT", 0, 1) == 0 then
        redis.call("ZADD", KEYS[number], 0, id .. " " .. ARGV[i + 1])
      end
    end
  end,
}

local position = 2
for _ = 1, tonumber(ARGV[1]) do
  if not is_met(ARGV[position], tonumber(ARGV[position + 1]), ARGV[position + 2], ARGV[position + 3]) then
    return 0
  end
  position = position + 4
end
while position <= #ARGV do
  local command, number, first = ARGV[position], tonumber(ARGV[position + 1]), position + 3
  local last = first + tonumber(ARGV[position + 2]) - 1
  if writers[command] then
    writers[command](number, first, last)
  else
    for from = first, last, CHUNK do
      redis.call(command, KEYS[number], unpack(ARGV, from, math.min(from + CHUNK - 1, last)))
    end
  end
  position = last + 1
end
return 1
