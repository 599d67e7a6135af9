-- Keep lines that attempts of tasks wrote. May be repeated: a line that is in its place is left alone.
-- KEYS     two for each task: task:<id>, which may be gone by now, and task:<id>:lines, a hash
-- ARGV[1]  how long to keep lines of a task that is not there, in seconds
-- then for each task: how many lines follow, and place and line of each in turn
-- Result: nothing
local position = 2
for task = 1, #KEYS, 2 do
  local last = position + 2 * tonumber(ARGV[position])
  for i = position + 1, last, 2 do
    redis.call("HSETNX", KEYS[task + 1], ARGV[i], ARGV[i + 1])
  end
  if redis.call("EXISTS", KEYS[task]) == 0 then
    redis.call("EXPIRE", KEYS[task + 1], ARGV[1])
  end
  position = last + 1
end
