select id, amount * 2 as twice from shop.orders where region = 'eu' and id between 1 and 5 order by id desc limit 3
select * from shop.orders order by id offset 2
select o.id, p.amount from shop.orders o join shop.orders p on o.id = p.id + 1
select o.id from shop.orders o left anti join shop.orders p on o.id = p.id + 1
select id from shop.orders left semi join (select 3 as id) using (id)
select * from shop.orders natural join (select 1L as id)
select count(*) from shop.orders cross join shop.orders b
select a.id from shop.orders a full outer join shop.orders b on a.id = b.id where b.id is null or a.id not in (1, 2)
with recent as (select * from shop.orders where id > 5), totals as (select region, sum(amount) s from recent group by region) select * from totals
with a as (with b as (select 1 as x) select * from b) select * from a where x in (with d as (select 1 as y) select y from d)
with recursive n(x) as (values (1) union all select x + 1 from n where x < 5) select * from n
select region, count(*), count(distinct id), max(amount) filter (where id > 3) from shop.orders group by region having count(*) > 1
select region, grouping(region), sum(amount) from shop.orders group by rollup(region)
select region, id % 2 k, sum(amount) from shop.orders group by cube(region, id % 2)
select region, id % 2 k, count(*) from shop.orders group by grouping sets ((region), (id % 2), ())
select region, count(*) from shop.orders group by all
select id, sum(amount) over (partition by region order by id rows between 2 preceding and current row) from shop.orders
select id, row_number() over w, lag(id, 1) over w from shop.orders window w as (order by id)
select id from shop.orders qualify row_number() over (order by id desc) <= 2
select id, x from shop.orders lateral view explode(array(1, 2)) t as x
select id, x from shop.orders lateral view outer posexplode(array(1, 2)) t as p, x
select id, c.* from shop.orders, lateral (select id + 1 as n, region as r) c
select * from shop.orders, lateral explode(array(id, 2))
select * from (select region, id % 2 k, amount from shop.orders) pivot (sum(amount) for k in (0 as even, 1 as odd))
select * from (select id, amount a, amount * 2 b from shop.orders) unpivot (v for n in (a, b))
select get_json_object('{"a": 1}', '$.a'), from_json('{"a": 1}', 'a int').a, to_json(struct(id)) from shop.orders
select parse_json('{"a": [1]}'):a[0]::int
select count(*) from shop.orders version as of 3
select count(*) from shop.orders timestamp as of '2999-01-01'
select count(*) from shop.orders timestamp as of current_timestamp() + interval 1 day
select transform(sequence(1, 3), x -> x * 2), filter(array(1, 2), x -> x > 1), aggregate(array(1, 2), 0, (a, x) -> a + x), map_filter(map('a', 1), (k, v) -> v > 0)
values (1, 'a'), (2, 'b')
select * from values (1, 'a'), (2, 'b') as t(id, name)
select id from shop.orders where id < 3 union all select id from shop.orders where id > 10
select id from shop.orders intersect select 3L
select id from shop.orders except select 3L
select id from shop.orders minus all select 3L
select id from shop.orders where id = (select max(id) from shop.orders)
select id from shop.orders o where exists (select 1 from shop.orders p where p.id = o.id + 1)
select id from shop.orders where id in (select id from shop.orders where amount > 3) and region like 'e%' and region rlike '^e'
select region not ilike 'X%', region like any ('a', 'eu'), region not like all ('a', 'b'), region like 'e!%' escape '!' from shop.orders
select case when id > 3 then 'big' else 'small' end, case id when 1 then 2 end, if(id > 1, 1, 0), coalesce(region, '-'), nullif(id, 1) from shop.orders
select id::string, cast(amount as decimal(10, 2)), try_cast(region as int), cast(null as struct<a: int, b: array<map<string, date>>>) from shop.orders
select date_trunc('hour', ts), extract(year from ts), ts + interval 3 hours, date_format(ts, 'yyyy'), date '2024-01-01' from shop.orders
select timestampadd(hour, 1, ts), timestampdiff(minute, ts, ts), ts - ts, date_add(date '2024-01-01', 3) from shop.orders
select window(ts, '10 minutes').start, count(*) from shop.orders group by window(ts, '10 minutes')
select percentile_cont(0.5) within group (order by amount), approx_percentile(amount, 0.5), listagg(region, ',') within group (order by id) from shop.orders
select distinct region from shop.orders
select * except (amount) from shop.orders
select /*+ broadcast(o) */ o.id from shop.orders o join shop.orders p on o.id = p.id
from shop.orders |> where id > 3 |> extend id + 1 as n |> aggregate sum(n) as s group by region |> order by s |> limit 3
from shop.orders |> set amount = 0 |> drop ts |> as q |> select q.id, amount
from shop.orders |> join (select 1L as id) using (id) |> union all table shop.orders
table shop.orders
select * from range(5)
select * from range(1, 10, 2) r join shop.orders o on o.id = r.id
select * from shop.orders tablesample (10 rows)
select count(*) from shop.orders tablesample (100 percent) repeatable (3)
select struct(id, region) s, named_struct('a', id).a, array(id)[0], map('k', id)['k'] from shop.orders
select count(*) from moulin.shop.orders
select * from identifier('shop.' || 'orders')
select 'a' 'b', X'1F', 1e3, 1.5BD, true, null, r'\d', "double", 'ü', '\u0041'
select trim(both 'x' from 'xax'), substring('abc' from 2 for 1), overlay('abc' placing 'x' from 2), position('b' in 'abc'), ceil(1.5), floor(-1.5)
select stack(2, 1, 'a', 2, 'b')
select inline(array(struct(1, 'a'), struct(2, 'b')))
select sum(id) s from shop.orders sort by s
select id from shop.orders distribute by id sort by id
select id from shop.orders cluster by id
select ~id, -id, +id, id & 3, id | 4, id ^ 1, id << 1, id >> 1, id div 2, id % 3, id <=> null, not (id = 1), id != 2, id is distinct from 3 from shop.orders
select region || 'x', region is not null, id is null or (id = 1) is not true, region collate utf8_lcase = 'EU' from shop.orders
select any_value(id), collect_list(id), collect_set(region), bool_or(id > 3), stddev(amount), corr(id, amount), mode(region) from shop.orders
select first_value(id) ignore nulls over (order by id range between unbounded preceding and current row) from shop.orders
select 1 where 1 in (1, 2) limit all
select id as reflect, 'reflect(x)' as text, `id` as `java_method` from shop.orders
describe shop.orders
describe query select id, region from shop.orders
describe shop.orders id
describe function abs
explain select * from shop.orders where id = 3
explain formatted select count(*) from shop.orders
show databases
show tables in shop like 'o*'
show create table shop.orders
describe extended shop.orders
describe history shop.orders
select operation, added_rows from shop.orders.history order by version, ordinal
select s.rows, p.partition from shop.orders.segments s cross join shop.orders.partitions p
select _change_type, id from table_changes('shop.orders', 2) where id < 5
