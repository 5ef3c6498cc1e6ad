/* pools */
SELECT r.trace, COALESCE(f.pool, '(unnamed)') AS pool,
       SUM(CASE WHEN r.name = 'pool.checkout' THEN 1 ELSE 0 END) AS checkouts,
       AVG(f.queue_ns) AS wait_mean_ns, {percentiles of f.queue_ns}, MAX(f.queue_ns) AS wait_max_ns,
       SUM(CASE WHEN r.name = 'pool.checkin' THEN 1 ELSE 0 END) AS checkins,
       SUM(CASE WHEN r.name = 'pool.checkin' THEN f.busy END) AS busy_ns,
       AVG(CASE WHEN r.name = 'pool.depth' THEN r.value END) AS depth_mean,
       MAX(CASE WHEN r.name = 'pool.depth' THEN r.value END) AS depth_max,
       MAX(f.size) AS size_max,
       AVG(CASE WHEN r.name = 'pool.size' THEN 100.0 * f.busy / f.size END) AS busy_percent,
       SUM(CASE WHEN r.name = 'worker.crash' THEN 1 ELSE 0 END) AS crashes,
       SUM(CASE WHEN r.name = 'circuit.opened' THEN 1 ELSE 0 END) AS circuits_opened
FROM records r
LEFT JOIN (SELECT record,
             MAX(CASE WHEN key = 'pool' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS pool,
             MAX(CASE WHEN key IN ('queue', 'queue_ns') THEN number END) AS queue_ns,
             MAX(CASE WHEN key IN ('busy', 'busy_ns') THEN number END) AS busy,
             MAX(CASE WHEN key = 'size' THEN number END) AS size
           FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name LIKE 'pool.%' OR r.name IN ('worker.crash', 'circuit.opened')
GROUP BY r.trace, COALESCE(f.pool, '(unnamed)')
ORDER BY pool, r.trace

/* depth of the queues over time */
SELECT r.trace, COALESCE(f.text, '(unnamed)') AS pool, r.start_ns, r.value
FROM records r
LEFT JOIN (SELECT record, COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) AS text FROM fields WHERE key = 'pool') f ON f.record = r.record
WHERE r.name = 'pool.depth'
ORDER BY r.start_ns
