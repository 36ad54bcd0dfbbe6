{{ config(materialized='table') }}
select
    c.id, c.name, coalesce(k.country, 'unknown') as country, count(o.id) as orders, sum(o.amount) as amount
from {{ source('raw', 'customers') }} as c
left join {{ ref('clean_orders') }} as o on o.customer = c.id
left join {{ ref('countries') }} as k on k.code = c.country
group by all
