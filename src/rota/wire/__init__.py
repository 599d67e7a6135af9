"""The JSON of the HTTP API: what the server reads and writes, and the client writes and reads.

Ids are decimal strings, times RFC 3339 in UTC, durations numbers of seconds with the suffix `_seconds`. A request with
a field that is not here is refused; an answer may get new fields, which a client must not stumble over.
"""
