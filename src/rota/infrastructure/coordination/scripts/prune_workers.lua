-- Strike the workers off the list whose lease is over. May be repeated. A script, because a worker that registers
-- again at this moment must not be struck off.
-- KEYS[1] workers  set of ids    KEYS[2..] worker:<id>  hash of each worker to look at
-- ARGV[1..] worker ids, in the order of KEYS[2..]
-- Result: nothing
for i = 1, #ARGV do
  if redis.call("EXISTS", KEYS[i + 1]) == 0 then
    redis.call("SREM", KEYS[1], ARGV[i])
  end
end
