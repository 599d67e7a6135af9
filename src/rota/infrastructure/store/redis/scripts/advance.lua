-- Write steps of tasks, each only while its task stands where the step begins. The domain has decided on them; here the
-- fence is checked. May be repeated: a step that is written already is told with where its task stands. The first write is
-- one that a full server refuses, so that nothing is written by halves.
-- KEYS[1]  tasks:live          sorted set: ids in order, of what has not ended
-- KEYS[2]  tasks:count         hash: how many of these there are, by tenant:STATUS
-- KEYS[3]  tasks:count:ended   hash: how many have ended so, ever
-- KEYS[4..]  the sets that tasks leave and enter, hashes for what is kept apart, the sets of the audit, and then the task
--            of each step: a text of lines
-- ARGV[1]  how many keys stand before the first task
-- ARGV[2]  how many groups of alike steps there are
-- ARGV[3]  how many parts are kept apart, in hashes among the first keys; each has four words:
--            number of the step, number of the key, field, text (or nothing: the lines that the text has so far)
-- then the groups; each begins with
--            how many steps, number of the key that they leave and of the one they enter (0: none), 1 if they end,
--            field of the count that they leave and of the one they enter
--          and goes on with five parts for each step:
--            the fence (what the task begins with), its new first line, a line to add with the break before it (or
--            nothing), id, score in the set that it enters
-- then the audit: number of the step, number of the key, id, text; kept if the step is applied and the id is new
-- Result: number (from 1) of each step that was not applied, and the first line of its task (or nothing), in turn
local task, position, refused, is_refused = tonumber(ARGV[1]), 4, {}, {}
local number, apart, none = 0, {}, {}

for _ = 1, tonumber(ARGV[3]) do
  local step = tonumber(ARGV[position])
  apart[step] = apart[step] or {}
  table.insert(apart[step], position)
  position = position + 4
end

-- What was asked, with the last step that has an error or a result; and the lines of the other steps.
local function divide(rest)
  local spec, last, moved = string.match(rest, "^\n[^\n]*"), "", {}
  for line in string.gmatch(string.sub(rest, #spec + 1), "\n[^\n]+") do
    if string.find(line, "%][null,1]*%]$") then -- it ends with a list, and perhaps with what follows one
      line, last = last, line
    end
    moved[#moved + 1] = line
  end
  return spec .. last, table.concat(moved)
end

local function write_group()
  local count, left, entered = tonumber(ARGV[position]), tonumber(ARGV[position + 1]), tonumber(ARGV[position + 2])
  local ends, before, after = ARGV[position + 3] == "1", ARGV[position + 4], ARGV[position + 5]
  position = position + 6
  local documents = redis.call("MGET", unpack(KEYS, task + 1, task + count))
  local ids, scored, texts, kept = {}, {}, {}, {}
  for i = 1, count do
    number = number + 1
    local fence, document = ARGV[position], documents[i]
    if document and string.sub(document, 1, #fence) == fence then
      local rest = string.sub(document, (string.find(document, "\n", 1, true)))
      for _, place in ipairs(apart[number] or none) do
        local text = ARGV[place + 3]
        if text == "" then
          rest, text = divide(rest)
        end
        if text ~= "" then
          kept[#kept + 1] = { KEYS[tonumber(ARGV[place + 1])], ARGV[place + 2], text }
        end
      end
      texts[#texts + 1] = KEYS[task + i]
      texts[#texts + 1] = ARGV[position + 1] .. rest .. ARGV[position + 2]
      ids[#ids + 1] = ARGV[position + 3]
      scored[#scored + 1] = ARGV[position + 4]
      scored[#scored + 1] = ARGV[position + 3]
    else
      is_refused[number] = true
      refused[#refused + 1] = number
      refused[#refused + 1] = document and string.match(document, "^[^\n]*") or ""
    end
    position = position + 5
  end
  task = task + count
  if #ids == 0 then
    return
  end
  redis.call("MSET", unpack(texts))
  for _, one in ipairs(kept) do
    redis.call("HSET", unpack(one))
  end
  if left ~= 0 and left ~= entered then
    redis.call("ZREM", KEYS[left], unpack(ids))
  end
  if entered ~= 0 then
    redis.call("ZADD", KEYS[entered], unpack(scored))
  end
  if before ~= after then
    redis.call("HINCRBY", KEYS[2], before, -#ids)
    redis.call("HINCRBY", KEYS[ends and 3 or 2], after, #ids)
  end
  if ends then
    redis.call("ZREM", KEYS[1], unpack(ids))
  end
end

for _ = 1, tonumber(ARGV[2]) do
  write_group()
end
for i = position, #ARGV, 4 do
  local key, id = KEYS[tonumber(ARGV[i + 1])], ARGV[i + 2]
  local is_new = #redis.call("ZRANGEBYLEX", key, "[" .. id .. " ", "(" .. id .. "!", "LIMIT", 0, 1) == 0
  if is_new and not is_refused[tonumber(ARGV[i])] then
    redis.call("ZADD", key, 0, id .. " " .. ARGV[i + 3])
  end
end
return refused
