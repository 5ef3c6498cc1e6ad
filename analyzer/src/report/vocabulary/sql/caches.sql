/* caches */
SELECT trace, cache, COUNT(*) AS accesses, SUM(hit) AS hits, COUNT(*) - SUM(hit) AS misses,
       100.0 * AVG(hit) AS hit_percent,
       SUM(CASE WHEN hit = 1 THEN bytes END) AS hit_bytes,
       SUM(CASE WHEN hit = 0 THEN bytes END) AS miss_bytes
FROM (SELECT r.trace, COALESCE(f.cache, '(unnamed)') AS cache, f.bytes,
             CASE WHEN r.name = 'cache.hit' OR f.hit = 1 THEN 1 ELSE 0 END AS hit
      FROM records r
      LEFT JOIN (SELECT record,
                   MAX(CASE WHEN key = 'cache' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS cache,
                   MAX(CASE WHEN key = 'hit' THEN number END) AS hit,
                   MAX(CASE WHEN key = 'bytes' THEN number END) AS bytes
                 FROM fields GROUP BY record) f ON f.record = r.record
      WHERE r.name IN ('cache.hit', 'cache.miss', 'cache.access')) accesses
GROUP BY trace, cache
ORDER BY accesses DESC, cache

/* accesses over time */
SELECT r.trace, COALESCE(f.cache, '(unnamed)') AS cache, r.start_ns,
       CASE WHEN r.name = 'cache.hit' OR f.hit = 1 THEN 1 ELSE 0 END AS hit
FROM records r
LEFT JOIN (SELECT record,
             MAX(CASE WHEN key = 'cache' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS cache,
             MAX(CASE WHEN key = 'hit' THEN number END) AS hit
           FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name IN ('cache.hit', 'cache.miss', 'cache.access')
ORDER BY r.start_ns
