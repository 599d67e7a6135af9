-- Ask for tasks to be cancelled. May be repeated.
-- KEYS[1..] task:cancel:<id>  with a TTL
-- ARGV[1]   ttl in milliseconds
-- Result: nothing
for i = 1, #KEYS do
  redis.call("SET", KEYS[i], 1, "PX", ARGV[1])
end
