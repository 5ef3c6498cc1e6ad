/* every step */
SELECT r.trace, r.start_ns, r.dur_ns, f.step, f.steps, f.epoch, f.loss, f.learning_rate,
       f.gradient_norm, f.tokens, f.samples
FROM records r
LEFT JOIN (SELECT record,
             MAX(CASE WHEN key = 'step' THEN number END) AS step,
             MAX(CASE WHEN key = 'steps' THEN number END) AS steps,
             MAX(CASE WHEN key = 'epoch' THEN number END) AS epoch,
             MAX(CASE WHEN key = 'loss' THEN number END) AS loss,
             MAX(CASE WHEN key = 'learning_rate' THEN number END) AS learning_rate,
             MAX(CASE WHEN key = 'gradient_norm' THEN number END) AS gradient_norm,
             MAX(CASE WHEN key = 'tokens' THEN number END) AS tokens,
             MAX(CASE WHEN key = 'samples' THEN number END) AS samples
           FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name = 'training.step'
ORDER BY r.trace, r.start_ns

/* what goes with training */
SELECT r.trace, r.name, COUNT(*) AS count, SUM(r.dur_ns) AS total_ns, AVG(r.dur_ns) AS mean_ns,
       MAX(r.dur_ns) AS max_ns, SUM(f.bytes) AS bytes, SUM(f.tokens) AS tokens
FROM records r
LEFT JOIN (SELECT record,
             MAX(CASE WHEN key = 'bytes' THEN number END) AS bytes,
             MAX(CASE WHEN key = 'tokens' THEN number END) AS tokens
           FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name IN ('training.epoch', 'checkpoint', 'evaluation', 'dataset.load', 'dataset.batch',
                 'serialize', 'inference')
GROUP BY r.trace, r.name
ORDER BY total_ns DESC, r.name
