/* errors by name and kind */
SELECT r.trace, r.name, f.error_kind, r.kind AS what, COUNT(*) AS count,
       MIN(r.start_ns) AS first_ns, MAX(r.start_ns) AS last_ns, MAX(r.record) AS last_record
FROM records r
LEFT JOIN (SELECT record, MAX(CASE WHEN key = 'kind' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS error_kind
           FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.kind = 'error' OR r.status = 'error'
GROUP BY r.trace, r.name, f.error_kind, r.kind
ORDER BY count DESC, first_ns

/* what errors carry */
SELECT f.record, f.key, f.type, f.number, f.text
FROM fields f
JOIN records r ON r.record = f.record
WHERE (r.kind = 'error' OR r.status = 'error') AND f.key <> 'kind'
ORDER BY f.record
