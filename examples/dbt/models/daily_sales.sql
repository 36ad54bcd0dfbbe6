{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by=['day']) }}
select day, count(*) as orders, sum(amount) as amount, max(updated_at) as updated_at
from {{ ref('clean_orders') }}
{% if is_incremental() %}
where day in (select day from {{ ref('clean_orders') }} where updated_at > (select max(updated_at) from {{ this }}))
{% endif %}
group by day
