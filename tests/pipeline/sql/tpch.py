"""TPC-H in small: tables with the columns of its specification, random rows in which every query finds some, queries.

The sizes are far below those of the smallest scale factor, and texts come from shorter lists, so that conditions on
several of them still meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any

Row = dict[str, Any]

_MONEY = "decimal(15, 2)"
SCHEMAS: Mapping[str, Sequence[tuple[str, str]]] = {
    "region": [("r_regionkey", "long"), ("r_name", "string"), ("r_comment", "string")],
    "nation": [("n_nationkey", "long"), ("n_name", "string"), ("n_regionkey", "long"), ("n_comment", "string")],
    "supplier": [
        ("s_suppkey", "long"),
        ("s_name", "string"),
        ("s_address", "string"),
        ("s_nationkey", "long"),
        ("s_phone", "string"),
        ("s_acctbal", _MONEY),
        ("s_comment", "string"),
    ],
    "part": [
        ("p_partkey", "long"),
        ("p_name", "string"),
        ("p_mfgr", "string"),
        ("p_brand", "string"),
        ("p_type", "string"),
        ("p_size", "int"),
        ("p_container", "string"),
        ("p_retailprice", _MONEY),
        ("p_comment", "string"),
    ],
    "partsupp": [
        ("ps_partkey", "long"),
        ("ps_suppkey", "long"),
        ("ps_availqty", "int"),
        ("ps_supplycost", _MONEY),
        ("ps_comment", "string"),
    ],
    "customer": [
        ("c_custkey", "long"),
        ("c_name", "string"),
        ("c_address", "string"),
        ("c_nationkey", "long"),
        ("c_phone", "string"),
        ("c_acctbal", _MONEY),
        ("c_mktsegment", "string"),
        ("c_comment", "string"),
    ],
    "orders": [
        ("o_orderkey", "long"),
        ("o_custkey", "long"),
        ("o_orderstatus", "string"),
        ("o_totalprice", _MONEY),
        ("o_orderdate", "date"),
        ("o_orderpriority", "string"),
        ("o_clerk", "string"),
        ("o_shippriority", "int"),
        ("o_comment", "string"),
    ],
    "lineitem": [
        ("l_orderkey", "long"),
        ("l_partkey", "long"),
        ("l_suppkey", "long"),
        ("l_linenumber", "int"),
        ("l_quantity", _MONEY),
        ("l_extendedprice", _MONEY),
        ("l_discount", _MONEY),
        ("l_tax", _MONEY),
        ("l_returnflag", "string"),
        ("l_linestatus", "string"),
        ("l_shipdate", "date"),
        ("l_commitdate", "date"),
        ("l_receiptdate", "date"),
        ("l_shipinstruct", "string"),
        ("l_shipmode", "string"),
        ("l_comment", "string"),
    ],
}

_REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
_NATIONS = [("KENYA", 0), ("BRAZIL", 1), ("CANADA", 1), ("INDIA", 2), ("CHINA", 2), ("FRANCE", 3), ("GERMANY", 3)]
_NATIONS += [("SAUDI ARABIA", 4)]
_TYPES = ["ECONOMY ANODIZED STEEL", "PROMO BRUSHED BRASS", "MEDIUM POLISHED TIN", "STANDARD PLATED BRASS"]
_BRANDS = ["Brand#12", "Brand#23", "Brand#34", "Brand#45"]
_CONTAINERS = ["SM CASE", "MED BOX", "MED BAG", "LG CASE", "LG PACK"]
_SIZES = [1, 3, 14, 15, 15, 49]
_COLORS = ["forest", "green", "ivory", "khaki", "lace"]
_SEGMENTS = ["BUILDING", "MACHINERY", "FURNITURE"]
_PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW"]
_MODES = ["MAIL", "SHIP", "AIR", "AIR REG", "TRUCK"]
_INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD"]
_PARTS, _SUPPLIERS, _CUSTOMERS, _ORDERS = 40, 16, 50, 400
_START = date(1992, 1, 1)


def make_tables(seed: int) -> dict[str, list[Row]]:
    """Rows of all tables."""
    return _Maker(seed).tables()


class _Maker:
    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self._choice: Callable[[Sequence[Any]], Any] = random.choice
        self._below: Callable[[int], int] = random.randrange
        self._random = random

    def tables(self) -> dict[str, list[Row]]:
        suppliers = {part: self._random.sample(range(_SUPPLIERS), 4) for part in range(_PARTS)}
        orders = [self._order(number) for number in range(_ORDERS)]
        lines = [line for order in orders for line in self._lines(order, suppliers)]
        rows: dict[str, list[tuple[Any, ...]]] = {
            "region": [(number, name, "") for number, name in enumerate(_REGIONS)],
            "nation": [(number, name, region, "") for number, (name, region) in enumerate(_NATIONS)],
            "supplier": [self._supplier(number) for number in range(_SUPPLIERS)],
            "part": [self._part(number) for number in range(_PARTS)],
            "partsupp": [
                (part, supplier, self._below(9999), self._money(1000), "")
                for part, chosen in suppliers.items()
                for supplier in chosen
            ],
            "customer": [self._customer(number) for number in range(_CUSTOMERS)],
            "orders": orders,
            "lineitem": lines,
        }
        return {
            name: [dict(zip([column for column, _ in SCHEMAS[name]], row, strict=True)) for row in made]
            for name, made in rows.items()
        }

    def _supplier(self, number: int) -> tuple[Any, ...]:
        nation = number % len(_NATIONS)
        comment = "Customer said Complaints" if number == 3 else "carefully"
        return number, f"Supplier#{number}", f"a{number}", nation, f"{nation + 10}-1", self._money(9999), comment

    def _part(self, number: int) -> tuple[Any, ...]:
        name = f"{self._choice(_COLORS)} {self._choice(_COLORS)}"
        texts = (name, f"Manufacturer#{self._below(5)}", self._choice(_BRANDS), self._choice(_TYPES))
        return number, *texts, self._choice(_SIZES), self._choice(_CONTAINERS), self._money(2000), ""

    def _customer(self, number: int) -> tuple[Any, ...]:
        nation = self._below(len(_NATIONS))
        phone = f"{self._choice([13, 31, 23, 29, 30, 18, 17])}-{number}"
        balance = self._money(9999) - 1000
        return number, f"Customer#{number}", "a", nation, phone, balance, self._choice(_SEGMENTS), ""

    def _order(self, number: int) -> tuple[Any, ...]:
        # A third of the customers never order; few of the others order much.
        customer = min(self._below(_CUSTOMERS), self._below(_CUSTOMERS)) // 3 * 3 + 1
        day = _START + timedelta(days=self._below(2400))
        comment = self._choice(["special packages requests", "furiously", "quickly"])
        priority = self._choice(_PRIORITIES)
        return number, customer, self._choice("FOP"), self._money(400_000), day, priority, "Clerk#1", 0, comment

    def _lines(self, order: tuple[Any, ...], suppliers: Mapping[int, Sequence[int]]) -> list[tuple[Any, ...]]:
        made = []
        many = order[0] % 50 == 0
        for number in range(8 if many else 1 + self._below(4)):
            part = min(self._below(_PARTS), self._below(_PARTS))
            shipped = order[4] + timedelta(days=1 + self._below(120))
            agreed = order[4] + timedelta(days=30 + self._below(60))
            received = shipped + timedelta(days=1 + self._below(30))
            quantity = Decimal(50 if many else 1 + self._below(50))
            amounts = (quantity, self._money(90_000), Decimal(self._below(11)) / 100, Decimal(self._below(9)) / 100)
            flags = (self._choice("RAN"), self._choice("FO"))
            how = (self._choice(_INSTRUCTIONS), self._choice(_MODES), "")
            keys = (order[0], part, self._choice(suppliers[part]), number)
            made.append((*keys, *amounts, *flags, shipped, agreed, received, *how))
        return made

    def _money(self, limit: int) -> Decimal:
        return Decimal(self._below(limit * 100)) / 100


QUERIES: Mapping[int, str] = {
    1: """
        select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
            sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
            avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
        from tpch.lineitem where l_shipdate <= date '1998-12-01' - interval 90 days
        group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus""",
    2: """
        select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        from tpch.part, tpch.supplier, tpch.partsupp, tpch.nation, tpch.region
        where p_partkey = ps_partkey and s_suppkey = ps_suppkey and p_size = 15 and p_type like '%BRASS'
            and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'EUROPE'
            and ps_supplycost = (
                select min(ps_supplycost) from tpch.partsupp, tpch.supplier, tpch.nation, tpch.region
                where p_partkey = ps_partkey and s_suppkey = ps_suppkey and s_nationkey = n_nationkey
                    and n_regionkey = r_regionkey and r_name = 'EUROPE')
        order by s_acctbal desc, n_name, s_name, p_partkey limit 100""",
    3: """
        select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
        from tpch.customer, tpch.orders, tpch.lineitem
        where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
            and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
        group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate, l_orderkey limit 10""",
    4: """
        select o_orderpriority, count(*) from tpch.orders
        where o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-07-01' + interval 3 months
            and exists (select * from tpch.lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
        group by o_orderpriority order by o_orderpriority""",
    5: """
        select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue
        from tpch.customer, tpch.orders, tpch.lineitem, tpch.supplier, tpch.nation, tpch.region
        where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey and c_nationkey = s_nationkey
            and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'ASIA'
            and o_orderdate >= date '1994-01-01' and o_orderdate < date '1994-01-01' + interval 1 year
        group by n_name order by revenue desc""",
    6: """
        select sum(l_extendedprice * l_discount) from tpch.lineitem
        where l_shipdate >= date '1994-01-01' and l_shipdate < date '1994-01-01' + interval 1 year
            and l_discount between 0.06 - 0.01 and 0.06 + 0.01 and l_quantity < 24""",
    7: """
        select supp_nation, cust_nation, l_year, sum(volume) from (
            select n1.n_name as supp_nation, n2.n_name as cust_nation, extract(year from l_shipdate) as l_year,
                l_extendedprice * (1 - l_discount) as volume
            from tpch.supplier, tpch.lineitem, tpch.orders, tpch.customer, tpch.nation n1, tpch.nation n2
            where s_suppkey = l_suppkey and o_orderkey = l_orderkey and c_custkey = o_custkey
                and s_nationkey = n1.n_nationkey and c_nationkey = n2.n_nationkey
                and ((n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY')
                    or (n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE'))
                and l_shipdate between date '1995-01-01' and date '1996-12-31') as shipping
        group by supp_nation, cust_nation, l_year order by supp_nation, cust_nation, l_year""",
    8: """
        select o_year, sum(case when nation = 'BRAZIL' then volume else 0 end) / sum(volume) from (
            select extract(year from o_orderdate) as o_year, l_extendedprice * (1 - l_discount) as volume,
                n2.n_name as nation
            from tpch.part, tpch.supplier, tpch.lineitem, tpch.orders, tpch.customer, tpch.nation n1, tpch.nation n2,
                tpch.region
            where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey and o_custkey = c_custkey
                and c_nationkey = n1.n_nationkey and n1.n_regionkey = r_regionkey and r_name = 'AMERICA'
                and s_nationkey = n2.n_nationkey and o_orderdate between date '1995-01-01' and date '1996-12-31'
                and p_type = 'ECONOMY ANODIZED STEEL') as all_nations
        group by o_year order by o_year""",
    9: """
        select nation, o_year, sum(amount) from (
            select n_name as nation, extract(year from o_orderdate) as o_year,
                l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity as amount
            from tpch.part, tpch.supplier, tpch.lineitem, tpch.partsupp, tpch.orders, tpch.nation
            where s_suppkey = l_suppkey and ps_suppkey = l_suppkey and ps_partkey = l_partkey and p_partkey = l_partkey
                and o_orderkey = l_orderkey and s_nationkey = n_nationkey and p_name like '%green%') as profit
        group by nation, o_year order by nation, o_year desc""",
    10: """
        select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue, c_acctbal, n_name, c_address,
            c_phone, c_comment
        from tpch.customer, tpch.orders, tpch.lineitem, tpch.nation
        where c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate >= date '1993-10-01'
            and o_orderdate < date '1993-10-01' + interval 3 months and l_returnflag = 'R' and c_nationkey = n_nationkey
        group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
        order by revenue desc, c_custkey limit 20""",
    11: """
        select ps_partkey, sum(ps_supplycost * ps_availqty) as value
        from tpch.partsupp, tpch.supplier, tpch.nation
        where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = 'GERMANY'
        group by ps_partkey having sum(ps_supplycost * ps_availqty) > (
            select sum(ps_supplycost * ps_availqty) * 0.01 from tpch.partsupp, tpch.supplier, tpch.nation
            where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = 'GERMANY')
        order by value desc, ps_partkey""",
    12: """
        select l_shipmode, sum(case when o_orderpriority in ('1-URGENT', '2-HIGH') then 1 else 0 end),
            sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1 else 0 end)
        from tpch.orders, tpch.lineitem
        where o_orderkey = l_orderkey and l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate
            and l_shipdate < l_commitdate and l_receiptdate >= date '1994-01-01'
            and l_receiptdate < date '1994-01-01' + interval 1 year
        group by l_shipmode order by l_shipmode""",
    13: """
        select c_count, count(*) as custdist from (
            select c_custkey, count(o_orderkey) from tpch.customer
            left outer join tpch.orders on c_custkey = o_custkey and o_comment not like '%special%requests%'
            group by c_custkey) as c_orders (c_custkey, c_count)
        group by c_count order by custdist desc, c_count desc""",
    14: """
        select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end)
            / sum(l_extendedprice * (1 - l_discount))
        from tpch.lineitem, tpch.part
        where l_partkey = p_partkey and l_shipdate >= date '1995-09-01'
            and l_shipdate < date '1995-09-01' + interval 1 month""",
    15: """
        with revenue as (
            select l_suppkey as supplier_no, sum(l_extendedprice * (1 - l_discount)) as total_revenue
            from tpch.lineitem where l_shipdate >= date '1996-01-01'
                and l_shipdate < date '1996-01-01' + interval 3 months group by l_suppkey)
        select s_suppkey, s_name, s_address, s_phone, total_revenue from tpch.supplier, revenue
        where s_suppkey = supplier_no and total_revenue = (select max(total_revenue) from revenue)
        order by s_suppkey""",
    16: """
        select p_brand, p_type, p_size, count(distinct ps_suppkey) as supplier_cnt from tpch.partsupp, tpch.part
        where p_partkey = ps_partkey and p_brand <> 'Brand#45' and p_type not like 'MEDIUM POLISHED%'
            and p_size in (49, 14, 23, 45, 19, 3, 36, 9)
            and ps_suppkey not in (select s_suppkey from tpch.supplier where s_comment like '%Customer%Complaints%')
        group by p_brand, p_type, p_size order by supplier_cnt desc, p_brand, p_type, p_size""",
    17: """
        select sum(l_extendedprice) / 7.0 from tpch.lineitem, tpch.part
        where p_partkey = l_partkey and p_brand = 'Brand#23' and p_container like 'MED%'
            and l_quantity < (select 0.2 * avg(l_quantity) from tpch.lineitem where l_partkey = p_partkey)""",
    18: """
        select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
        from tpch.customer, tpch.orders, tpch.lineitem
        where o_orderkey in (
                select l_orderkey from tpch.lineitem group by l_orderkey having sum(l_quantity) > 300)
            and c_custkey = o_custkey and o_orderkey = l_orderkey
        group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        order by o_totalprice desc, o_orderdate, o_orderkey limit 100""",
    19: """
        select sum(l_extendedprice * (1 - l_discount)) from tpch.lineitem, tpch.part
        where (p_partkey = l_partkey and p_brand = 'Brand#12' and p_container in ('SM CASE', 'SM BOX')
                and l_quantity >= 1 and l_quantity <= 1 + 30 and p_size between 1 and 5
                and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')
            or (p_partkey = l_partkey and p_brand = 'Brand#23' and p_container in ('MED BAG', 'MED BOX')
                and l_quantity >= 10 and l_quantity <= 10 + 30 and p_size between 1 and 50
                and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')
            or (p_partkey = l_partkey and p_brand = 'Brand#34' and p_container in ('LG CASE', 'LG PACK')
                and l_quantity >= 20 and l_quantity <= 20 + 30 and p_size between 1 and 50
                and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')""",
    20: """
        select s_name, s_address from tpch.supplier, tpch.nation
        where s_suppkey in (
                select ps_suppkey from tpch.partsupp
                where ps_partkey in (select p_partkey from tpch.part where p_name like 'forest%')
                    and ps_availqty > (
                        select 0.5 * sum(l_quantity) from tpch.lineitem
                        where l_partkey = ps_partkey and l_suppkey = ps_suppkey and l_shipdate >= date '1994-01-01'
                            and l_shipdate < date '1994-01-01' + interval 1 year))
            and s_nationkey = n_nationkey and n_name in ('CANADA', 'BRAZIL', 'INDIA') order by s_name""",
    21: """
        select s_name, count(*) as numwait from tpch.supplier, tpch.lineitem l1, tpch.orders, tpch.nation
        where s_suppkey = l1.l_suppkey and o_orderkey = l1.l_orderkey and o_orderstatus = 'F'
            and l1.l_receiptdate > l1.l_commitdate
            and exists (select * from tpch.lineitem l2
                where l2.l_orderkey = l1.l_orderkey and l2.l_suppkey <> l1.l_suppkey)
            and not exists (select * from tpch.lineitem l3
                where l3.l_orderkey = l1.l_orderkey and l3.l_suppkey <> l1.l_suppkey
                    and l3.l_receiptdate > l3.l_commitdate)
            and s_nationkey = n_nationkey and n_name = 'SAUDI ARABIA'
        group by s_name order by numwait desc, s_name limit 100""",
    22: """
        select cntrycode, count(*), sum(c_acctbal) from (
            select substring(c_phone from 1 for 2) as cntrycode, c_acctbal from tpch.customer
            where substring(c_phone from 1 for 2) in ('13', '31', '23', '29', '30', '18', '17')
                and c_acctbal > (
                    select avg(c_acctbal) from tpch.customer where c_acctbal > 0.00
                        and substring(c_phone from 1 for 2) in ('13', '31', '23', '29', '30', '18', '17'))
                and not exists (select * from tpch.orders where o_custkey = c_custkey)) as custsale
        group by cntrycode order by cntrycode""",
}
"""By number. Where the specification leaves the order of equal rows open, a key follows."""
