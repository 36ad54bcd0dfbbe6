select transform(id) using 'touch {mark}' as (x) from shop.orders
select transform(*) using '/bin/sh -c "touch {mark}"' from shop.orders
from shop.orders map id using 'touch {mark}' as x
from shop.orders reduce id using 'touch {mark}' as x
select * from (select transform(id) using 'touch {mark}' as (x) from shop.orders) t
with t as (select transform(id) using 'touch {mark}' as (x) from shop.orders) select * from t
select * from text.`{secret}`
select * from TEXT.`{secret}`
select * from csv.`{secret}`
select * from json.`{secret}`
select * from parquet.`{secret}`
select * from binaryFile.`{secret}`
select * from text.`file:{secret}`
select * from text.`file\u003a{secret}`
select * from identifier('text.`{secret}`')
select * from identifier(concat('te', 'xt.`', '{secret}', '`'))
with t as (select * from text.`{secret}`) select * from t
select (select max(value) from text.`{secret}`)
select 1 where exists (select 1 from text.`{secret}`)
select * from shop.orders where region in (select value from text.`{secret}`)
select * from shop.orders, lateral (select * from text.`{secret}`)
from shop.orders |> join text.`{secret}` on true
from text.`{secret}` |> select value
describe text.`{secret}`
describe query select * from text.`{secret}`
explain select * from text.`{secret}`
table text.`{secret}`
select reflect('java.lang.System', 'getenv', 'HOME')
select ReFlEcT('java.lang.System', 'getenv')
select `reflect`('java.lang.System', 'getenv')
select system.builtin.reflect('java.lang.System', 'getenv')
select identifier('reflect')('java.lang.System', 'getenv')
select /* hidden */ java_method('java.lang.System', 'getProperty', 'user.home')
select try_reflect('java.nio.file.Files', 'readString', '{secret}')
select id from shop.orders where reflect('java.lang.System', 'getenv', 'HOME') = region
select id from shop.orders order by reflect('java.lang.System', 'getenv', 'HOME')
select id from shop.orders group by grouping sets ((reflect('java.lang.System', 'getenv', 'HOME')))
select transform(array(1), x -> reflect('java.lang.System', 'getenv', 'HOME'))
select sum(id) over w from shop.orders window w as (order by java_method('java.lang.System', 'getenv', 'HOME'))
with recursive n(x) as (values ('a') union all select reflect('java.lang.System', 'getenv', 'HOME') from n) select * from n
values (reflect('java.lang.System', 'getenv', 'HOME'))
select * from identifier(reflect('java.lang.System', 'getenv', 'HOME'))
select * from shop.orders timestamp as of java_method('java.lang.System', 'getenv', 'HOME')
select * from range(length(reflect('java.lang.System', 'getenv', 'HOME')))
select * from shop.orders lateral view explode(array(reflect('java.lang.System', 'getenv', 'HOME'))) t
select * from shop.orders limit length(reflect('java.lang.System', 'getenv', 'HOME'))
select count(*) filter (where reflect('java.lang.System', 'getenv', 'HOME') is null) from shop.orders
select input_file_name() from shop.orders
select input_file_block_start(), input_file_block_length() from shop.orders
select _metadata.file_path from shop.orders
select id from shop.orders where _metadata.file_name is not null
select _metadata from shop.orders
select current_user
select user
select session_user
select session_user()
select coalesce(user, '') from shop.orders
select current_user() from shop.orders
select from_protobuf(X'00', 'A', '{secret}')
select from_xml('<a/>', 'b string', map('rowValidationXSDPath', '{secret}'))
select schema_of_xml('<a/>')
select xpath_string('<!DOCTYPE a [<!ENTITY x SYSTEM "file://{secret}">]><a>&x;</a>', 'a')
select from_avro(X'00', 'x')
select * from python_worker_logs()
select * from caller
select caller()
select * from session.caller
select * from global_temp.caller
select * from spark_catalog.default.caller
select * from default.caller
select builtin.abs(-1) from spark_catalog.information_schema.tables
select /*+ repartition(2000000000) */ id from shop.orders
select /*+ anything(x) */ id from shop.orders
select * from shop.orders with (path = '{secret}')
select * from stream shop.orders
select * from unknown_function(1)
select * from read_files('{secret}')
select * from my_udtf(table(shop.orders))
add jar '{secret}'
add file '{secret}'
list jars
set spark.sql.runSQLOnFiles=true
set -v
reset
use default
create temporary view v using text options (path '{secret}')
create temporary function f as 'java.lang.Runtime'
create table t using text location '{secret}'
create or replace temporary view v as select 1
insert overwrite directory '{mark}' using csv select 1
insert overwrite local directory '{mark}' select 1
with t as (select 1) insert overwrite directory '{mark}' using csv select * from t
from shop.orders insert overwrite directory '{mark}' using csv select *
insert into shop.orders values (1)
load data local inpath '{secret}' into table t
cache table t as select * from text.`{secret}`
refresh '{secret}'
analyze table shop.orders compute statistics
execute immediate 'select * from text.`{secret}`'
begin select * from text.`{secret}`; end
declare variable x = reflect('java.lang.System', 'getenv', 'HOME')
set var x = 1
call system.run()
explain create table t as select * from text.`{secret}`
explain extended select reflect('java.lang.System', 'getenv', 'HOME')
describe query select java_method('java.lang.System', 'getenv', 'HOME')
describe database default
describe extended spark_catalog.default.caller
select 1; select * from text.`{secret}`
select * from shop.orders changes from version 1 to version 2
select * from text.`{secret}` version as of 1
show tables
select json_tuple(reflect('java.lang.System', 'getenv', 'HOME'), 'a')
select case when true then java_method('java.lang.System', 'getenv', 'HOME') end
select * from shop.orders tablesample (length(reflect('java.lang.System', 'getenv', 'HOME')) rows)
select * from (select region, id from shop.orders) pivot (max(reflect('java.lang.System', 'getenv', 'HOME')) for id in (1))
select \u0072eflect('java.lang.System', 'getenv')
create function f() returns string return reflect('java.lang.System', 'getenv', 'HOME')
drop table shop.orders
truncate table shop.orders
merge into shop.orders using shop.orders o on true when matched then delete
uncache table caller
clear cache
msck repair table t
alter table shop.orders set location '{secret}'
select x from (select named_struct('file_path', 'x') as _metadata) t, lateral (select _metadata.file_path as x from shop.orders)
select 1 from (select named_struct('file_path', 'x') as _metadata) t where exists (select 1 from shop.orders where _metadata.file_path like 'file%')
select x from (select named_struct('file_name', 'x') as _metadata) t, lateral (select _metadata.file_name as x from shop.orders a left semi join shop.orders b on a.id = b.id)
with t as (select named_struct('file_size', 1) as _metadata) select * from t, lateral (select max(_metadata.file_size) from shop.orders)
select * from identifier('shop.' || user)
select * from identifier(current_user || '.orders')
select * from shop.orders timestamp as of session_user
select * from table_changes(reflect('java.lang.System', 'getProperty', 'user.home'), 1)
select * from table_changes('shop.orders', since => cast(reflect('java.lang.System', 'nanoTime') as bigint))
select * from table_changes('text.`{secret}`', 1)
select * from table_changes(current_user || '.orders', 1)
select * from session.table_changes('shop.orders', 1)
select * from shop.orders.files
select address from moulin.shop.orders.FILES
describe extended shop.orders.files
create table shop.stolen using csv options (path '{secret}') as select 1 as x
create table shop.stolen primary key (value) as select * from text.`{secret}`
create or replace table shop.stolen location '{secret}' as select 1 as x
alter table shop.orders write unordered
show tables in global_temp
show create table text.`{secret}`
show functions
show columns in caller
describe history text.`{secret}`
call gc()
optimize shop.orders
