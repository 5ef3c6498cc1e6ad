/* allocations and releases */
SELECT r.trace, r.name, r.start_ns, f.bytes, f.kind, f.device, f.scope, f.id
FROM records r
LEFT JOIN (SELECT record,
             MAX(CASE WHEN key = 'bytes' THEN number END) AS bytes,
             MAX(CASE WHEN key = 'kind' THEN text END) AS kind,
             MAX(CASE WHEN key = 'device' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS device,
             MAX(CASE WHEN key = 'scope' THEN text END) AS scope,
             MAX(CASE WHEN key = 'id' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR), CAST(number AS VARCHAR)) END) AS id
           FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name IN ('memory.allocate', 'memory.release')
ORDER BY r.trace, r.start_ns, r.record

/* devices, pools and caches over time */
SELECT r.trace, r.name, r.start_ns, f.what, f.allocated, f.reserved, f.free, f.total,
       f.used, f.capacity, f.bytes
FROM records r
JOIN (SELECT record,
        MAX(CASE WHEN key IN ('device', 'pool', 'cache')
                 THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS what,
        MAX(CASE WHEN key = 'allocated' THEN number END) AS allocated,
        MAX(CASE WHEN key = 'reserved' THEN number END) AS reserved,
        MAX(CASE WHEN key = 'free' THEN number END) AS free,
        MAX(CASE WHEN key = 'total' THEN number END) AS total,
        MAX(CASE WHEN key = 'used' THEN number END) AS used,
        MAX(CASE WHEN key = 'capacity' THEN number END) AS capacity,
        MAX(CASE WHEN key = 'bytes' THEN number END) AS bytes
      FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name IN ('memory.device', 'memory.pool', 'kv_cache.grow')
ORDER BY r.start_ns

/* the process's memory over time */
SELECT trace, name, start_ns, value
FROM counters
WHERE name IN ('process.resident_bytes', 'process.anonymous_bytes', 'process.peak_resident_bytes')
ORDER BY start_ns

/* changes by phase */
SELECT r.trace, f.phase, COUNT(*) AS count, SUM(f.delta) AS delta_bytes, MAX(f.delta) AS max_bytes
FROM records r
JOIN (SELECT record,
        MAX(CASE WHEN key = 'phase' THEN text END) AS phase,
        MAX(CASE WHEN key = 'delta' THEN number END) AS delta
      FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name = 'memory.phase'
GROUP BY r.trace, f.phase
ORDER BY delta_bytes DESC, f.phase

/* weights */
SELECT r.trace, f.path, f.bytes, f.dtype, f.device
FROM records r
JOIN (SELECT record,
        MAX(CASE WHEN key = 'path' THEN text END) AS path,
        MAX(CASE WHEN key = 'bytes' THEN number END) AS bytes,
        MAX(CASE WHEN key = 'dtype' THEN text END) AS dtype,
        MAX(CASE WHEN key = 'device' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS device
      FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name = 'memory.weights'
ORDER BY f.path

/* bytes moved */
SELECT r.trace, r.name, r.kind, COUNT(*) AS count, SUM(f.number) AS bytes,
       SUM(r.dur_ns) AS total_ns, MAX(f.number / r.dur_ns) AS best
FROM records r
JOIN (SELECT record, number FROM fields WHERE key = 'bytes') f ON f.record = r.record
WHERE r.dur_ns > 0
GROUP BY r.trace, r.name, r.kind
ORDER BY bytes DESC, r.name
