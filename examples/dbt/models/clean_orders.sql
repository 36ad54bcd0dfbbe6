select id, customer, cast(amount as decimal(12, 2)) as amount, day, updated_at
from {{ source('raw', 'orders') }}
where amount is not null
