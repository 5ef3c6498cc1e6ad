/* counters and gauges by name */
SELECT trace, name, kind, COUNT(*) AS readings, SUM(value) AS sum, MIN(value) AS min,
       AVG(value) AS mean, MAX(value) AS max, LAST(value) AS last
FROM (SELECT trace, name, kind, start_ns, value FROM counters ORDER BY start_ns) c
GROUP BY trace, name, kind
ORDER BY name, trace, kind

/* every reading */
SELECT trace, name, kind, start_ns, value FROM counters ORDER BY start_ns
