-- Prolong a worker's lease and note what it says of itself. May be repeated.
-- KEYS[1] workers  set of ids    KEYS[2] worker:<id>  hash with a TTL
-- KEYS[3..5] worker:<id>:queue, :inflight, :wake  kept longer than the lease, for whoever recovers them
-- ARGV[1] worker id              ARGV[2] lease in milliseconds
-- ARGV[3] how long to keep KEYS[3..5], in milliseconds
-- ARGV[4] load    ARGV[5] attempts ended since its start    ARGV[6] task:attempt of those it holds, with blanks between
-- Result: 1, or 0 when the pool does not know the worker
if redis.call("EXISTS", KEYS[2]) == 0 then
  return 0
end
redis.call("HSET", KEYS[2], "load", ARGV[4], "completed", ARGV[5], "held", ARGV[6])
redis.call("PEXPIRE", KEYS[2], ARGV[2])
redis.call("SADD", KEYS[1], ARGV[1])
for key = 3, 5 do
  redis.call("PEXPIRE", KEYS[key], ARGV[3])
end
return 1
