with orders as (select id from shop.users) select o.id, orders.id from shop.orders o join orders on o.id = orders.id
with users as (select * from shop.orders), orders as (select * from users) select count(*) from orders, shop.users
with shop as (select 1 as orders) select shop.orders, o.id from shop, shop.orders as o
with a as (with a as (select 3 as id) select id + 1 as id from a) select * from a join shop.users u on a.id = u.id
select * from (with orders as (select 7 as id) select id from orders) x where id in (select id from shop.orders)
with recursive up(id, depth) as (select 4L, 0 union all select u.boss, depth + 1 from up join shop.users u on u.id = up.id where u.boss is not null and depth < 5) select * from up
select id, (select max(amount) from shop.orders o where o.`user id` = u.id and o.id in (select i.id from shop.orders i where i.amount > (select avg(amount) from shop.orders j where j.`user id` = i.`user id`))) from shop.users u
select * from shop.users u where not exists (select 1 from shop.orders o where o.`user id` = u.id) or id not in (select boss from shop.users where boss is not null)
select (select named_struct('n', count(*), 'm', max(id)) from shop.orders).n as n from (select 1)
select u.id, l.* from shop.users u, lateral (select max(o.amount) as most, count(*) from shop.orders o where o.`user id` = u.id) l
select id, p, t from shop.orders lateral view outer posexplode(tags) x as p, t
select o.id, e.col from shop.orders o join lateral explode(o.tags) e
select * from range(3) r left join shop.users u on u.id = r.id
select * from shop.sales pivot (sum(total) as s, max(total) as m for region in ('eu', 'us' as us))
select * from (select id, home.zip as a, boss as b from shop.users) unpivot include nulls (v for k in (a, b))
select region, month(day) as m, sum(total), grouping_id() from shop.sales group by cube (region, month(day))
select region, count(*) filter (where total > 4) from shop.sales group by all having sum(total) > 5
select id, sum(amount) over w, lag(id, 1, -1) over (partition by size(tags) order by id desc) from shop.orders window w as (partition by `user id` order by id)
select * from (select *, row_number() over (partition by `user id` order by amount desc) as r from shop.orders) where r = 1
from shop.orders |> where amount > 2 |> extend `user id` as u |> aggregate sum(amount) as s group by u |> join shop.users v on v.id = u |> select name, s |> order by s desc |> limit 2
from shop.sales |> pivot (sum(total) for region in ('eu', 'us')) |> drop day |> as t |> where t.eu > 2
select `orders`.`user id` as `a``b`, 'shop.orders' as `shop.orders` from `shop`.`orders` -- from shop.missing
select /*+ broadcast(u) */ U.NAME, "shop.users" /* , shop.missing */ from SHOP.Users U where u.home.CITY = "x"
select o.* except (tags), shop.orders.id from shop.orders, shop.orders as o where orders.id = o.id
(select id from shop.orders except select id from shop.users) union all (select id from shop.users intersect all select `user id` from shop.orders) order by 1 limit 20
select * from shop.users full join (values (3L, 'x'), (9L, 'y')) v(id, x) using (id)
select * from shop.users natural join (select id, name from shop.users where id > 2)
select count(*) from shop.orders a cross join shop.orders b left anti join shop.users c on a.id = c.id
select transform(tags, t -> upper(t)), aggregate(sequence(1, id), 0L, (s, x) -> s + x) from shop.orders
select id, case when exists (select 1 from shop.users u where u.id = o.id) then (select max(name) from shop.users) when id in (select id from shop.orders where id > 9) then case (select 1 from shop.sales limit 1) when 1 then 'b' end else (select min(region) from shop.sales) end from shop.orders o
select count(*) filter (where id in (select id from shop.users)), sum(amount) filter (where amount > (select avg(amount) from shop.orders)) from shop.orders
table shop.users
from shop.users select name, home.city where id > 1 order by name desc
values (1, 'a'), (2, upper('b') || 'c')
(table shop.users union select * from shop.users) minus select * from shop.users where id = 3
select * from shop.orders tablesample (100 percent) where id > 3 union all select * from shop.orders tablesample (4 rows)
select count(*) from (select * from shop.orders tablesample (50 percent) repeatable (7))
with/**/ recursive /* a -- */r(n)as(/*--*/select/*/* nested */*/1L union/*c*/all select n+1 from r where n<3)select/**/n,(select/**/count(*)from/**/shop . orders/*d*/where`user id`=n)from r--e
with a as (select 1 as id), b as (with a as (select 2 as id), c as (select * from a) select * from c) select a.id, b.id, o.id from a, b, shop.orders o where o.id = a.id + b.id
with orders as (select * from shop.orders where id < 3), users as (select u.* from shop.users u join orders on orders.id = u.id) select * from users union all select * from shop.users where id not in (select id from users)
select 'a.b' as `a.b`, `x`.`a.b` from (select id as `a.b` from shop.users) as x where `x`.`a.b` in (select `shop`.`users`.`id` from `shop`.`users`)
select x.`a.b`.`c.d`, `moulin.shop.users`.n from (select named_struct('c.d', id) as `a.b` from shop.users) x, (select count(*) as n from shop.orders) as `moulin.shop.users`
select u.name, t.pos, t.col from shop.users u, lateral (select o.tags from shop.orders o where o.id = u.id + 2) l, lateral posexplode(l.tags) t
select * from shop.users u, lateral (select * from (select max(id) as m from shop.orders o where o.`user id` = u.id) x, lateral (select x.m + 1 as s)) y
select day, region, total, sum(total) over (partition by region order by day range between interval '40' day preceding and current row), ntile(2) over (order by total, region, day), first_value(total) ignore nulls over w, max(total) over (partition by day order by region rows 1 preceding) from shop.sales window w as (partition by day order by region)
select * from (select region, month(day) as m, total from shop.sales) pivot (sum(total) for (region, m) in (('eu', 1) as a, ('us', 2) as b, ('apac', 3)))
select * from (select * from shop.sales pivot (sum(total) for region in ('eu' as eu, 'us' as us))) unpivot exclude nulls ((v) for k in ((eu) as `e.u`, (us))) where v > 2
from shop.users |> left join (from shop.orders |> aggregate count(*) as n group by `user id` as u) on u = id |> extend n * 2 as d |> set d = d + 1 |> drop home |> union all (from shop.users |> where id = 0 |> select id, name, boss, 0L as u, 0L as n, 1L as d) |> where name like 'u%' |> order by id, d
select region, grouping(region), sum(total) from shop.sales group by grouping sets ((region), (), (region)) having sum(total) > 1 order by all
select * from shop.users semi join shop.orders on users.id = orders.`user id` and orders.id in (select max(id) from shop.orders group by `user id`)
select exists(select 1 from shop.users where id > 99) as e, (select collect_list(struct(o.*)) from (select id, amount from shop.orders order by id limit 2) o)[0].amount as a from shop.users limit 1
select * from shop.orders order by amount desc, id limit 3 offset 2
select id from shop.users where (id, name) in (select id, name from shop.users where id < 2) and array_contains(array(0L, 1L), id)
select id, (select max(o.amount) from shop.orders o where o.`user id` = u.id) as m from shop.users u where exists (select 1 from shop.sales s where s.total > u.id) order by m, id
select u.id, (select count(*) from shop.orders o where o.id = u.id), (select max(name) from shop.users), (select min(s.day) from shop.sales s where s.total = u.id) from shop.users u
select id, amount from shop.orders qualify row_number() over (partition by `user id` order by amount desc) = 1 order by id
