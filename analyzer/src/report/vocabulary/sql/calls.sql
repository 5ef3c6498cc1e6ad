/* calls by function */
SELECT trace, function, COUNT(*) AS count,
       SUM(CASE WHEN status = 'error' THEN 1 ELSE 0 END) AS errors,
       SUM(dur_ns) AS total_ns, AVG(dur_ns) AS mean_ns, MAX(dur_ns) AS max_ns,
       {percentiles of dur_ns},
       COALESCE(SUM(queue_ns), 0) AS queue_ns, COALESCE(SUM(encode_ns), 0) AS encode_ns,
       COALESCE(SUM(run_ns), 0) AS run_ns, COALESCE(SUM(decode_ns), 0) AS decode_ns
FROM (SELECT c.trace, c.status, COALESCE(f.function, '(no function)') AS function,
             f.queue_ns, f.encode_ns, f.run_ns, f.decode_ns,
             CASE WHEN c.dur_ns IS NOT NULL THEN c.dur_ns
                  WHEN COALESCE(f.queue_ns, f.encode_ns, f.run_ns, f.decode_ns) IS NOT NULL
                  THEN COALESCE(f.queue_ns, 0) + COALESCE(f.encode_ns, 0)
                     + COALESCE(f.run_ns, 0) + COALESCE(f.decode_ns, 0) END AS dur_ns
      FROM (SELECT trace, record, status, dur_ns FROM spans WHERE name = 'call'
            UNION ALL
            SELECT trace, record, status, dur_ns FROM records WHERE name = 'call' AND kind = 'event') c
      LEFT JOIN (SELECT record,
                   MAX(CASE WHEN key = 'function' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS function,
                   MAX(CASE WHEN key IN ('queue', 'queue_ns') THEN number END) AS queue_ns,
                   MAX(CASE WHEN key IN ('encode', 'encode_ns') THEN number END) AS encode_ns,
                   MAX(CASE WHEN key IN ('run', 'run_ns') THEN number END) AS run_ns,
                   MAX(CASE WHEN key IN ('decode', 'decode_ns') THEN number END) AS decode_ns
                 FROM fields GROUP BY record) f ON f.record = c.record) calls
GROUP BY trace, function
ORDER BY total_ns DESC NULLS LAST, function
