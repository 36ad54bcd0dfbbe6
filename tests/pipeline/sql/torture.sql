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
