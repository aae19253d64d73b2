-- Queries of the table w with the rows of rows.sql, one a line.

SELECT bo, count(*), count(n), count(DISTINCT s), sum(n), avg(de), max(v) FROM w GROUP BY bo
SELECT bo, sum(de), sum(b % 1000), avg(n), min(s), max(ts), sum(si) FROM w GROUP BY bo
SELECT bo, stddev_pop(n), stddev_samp(n), var_pop(n), var_samp(n) FROM w GROUP BY bo
SELECT corr(n, k), covar_pop(n, k), covar_samp(n, k), percentile(n, 0.5) FROM w
SELECT bo, sort_array(collect_set(k)), sort_array(collect_list(k)) FROM w GROUP BY bo
SELECT bo, concat_ws(',', sort_array(collect_set(y))) FROM w GROUP BY bo
SELECT greatest(n, k), count(*) FROM w GROUP BY greatest(n, k)
SELECT substr(s, n), count(*) FROM w GROUP BY substr(s, n)
SELECT max(greatest(n, k)), min(least(s, y)), max(pmod(n, -3)) FROM w
SELECT bo, k, sum(n), grouping(bo), grouping(k) FROM w GROUP BY bo, k WITH ROLLUP
SELECT id, row_number() OVER (ORDER BY id NULLS LAST), rank() OVER (ORDER BY bo NULLS LAST), dense_rank() OVER (ORDER BY bo NULLS LAST), ntile(3) OVER (ORDER BY id NULLS LAST) FROM w
SELECT id, percent_rank() OVER (ORDER BY bo NULLS LAST), cume_dist() OVER (ORDER BY bo NULLS LAST), sum(n) OVER (PARTITION BY bo) FROM w
SELECT id, lag(n) OVER (ORDER BY id NULLS LAST), lag(n, 2, 0) OVER (ORDER BY id NULLS LAST), lead(s, 1) OVER (ORDER BY id NULLS LAST) FROM w
SELECT id, first_value(n) OVER (PARTITION BY bo ORDER BY id NULLS LAST), last_value(n) OVER (PARTITION BY bo ORDER BY id NULLS LAST) FROM w
SELECT w.id, a FROM w LATERAL VIEW explode(w.arr) x AS a
SELECT w.id, p, a FROM w LATERAL VIEW posexplode(w.ia) x AS p, a
SELECT w.id, k1, v1 FROM w LATERAL VIEW OUTER explode(w.m) x AS k1, v1
SELECT w.id, a1, b1 FROM w LATERAL VIEW inline(array(w.st)) x AS a1, b1
SELECT w.id, c1 FROM w LATERAL VIEW stack(2, w.n, w.k) x AS c1
SELECT w.id, j1, j2 FROM w LATERAL VIEW json_tuple(w.x, 'a', 'b') x AS j1, j2
SELECT id FROM w WHERE substr(s, length(s) - 1) = 'bc' OR greatest(n, k) > 5
SELECT a.id, b.id FROM w a JOIN w b ON substr(a.s, a.n) = substr(b.s, b.n)
SELECT cast(si AS int), count(*) FROM w GROUP BY cast(si AS int) HAVING max(si) > 0
SELECT a.id FROM w a WHERE EXISTS (SELECT 1 FROM w b WHERE b.id = cast(a.si AS int) AND substr(b.s, b.n) <> substr(a.s, a.n))
SELECT a.id FROM w a WHERE a.id IN (SELECT greatest(b.n, 1) FROM w b WHERE b.n > 0)
SELECT a.id, b.id FROM w a JOIN w b ON a.id = cast(b.si AS int)
SELECT de / 1.10, 1.00 / 7.000, de * 1.50 / 3.0 FROM w
