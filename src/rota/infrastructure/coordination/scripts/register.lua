-- Join the pool, or replace what is known of a worker. May be repeated.
-- KEYS[1] workers  set of ids    KEYS[2] worker:<id>  hash with a TTL    KEYS[3] workers:changes  counter
-- ARGV[1] worker id              ARGV[2] lease in milliseconds    ARGV[3..] fields and values in turn
-- Result: nothing
redis.call("DEL", KEYS[2])
redis.call("HSET", KEYS[2], unpack(ARGV, 3))
redis.call("PEXPIRE", KEYS[2], ARGV[2])
redis.call("SADD", KEYS[1], ARGV[1])
redis.call("INCR", KEYS[3])
