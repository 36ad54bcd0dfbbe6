select *, rank() over (partition by country order by amount desc nulls last, id) as place
from {{ ref('orders_by_customer') }}
