"""pandas: frames in and out, and a correction by key."""

import sys

import pandas as pd

import moulin

lake = moulin.connect(sys.argv[1] if len(sys.argv) > 1 else "./lake")
lake.create_database("shop", if_not_exists=True)
prices = lake.create_table("shop.prices", [("sku", "long", False), ("price", "double")], primary_key=["sku"])

prices.append(pd.DataFrame({"sku": [1, 2, 3], "price": [10.0, 20.0, 30.0]}))
prices.append(pd.DataFrame({"sku": [2], "price": [25.0]}))  # a table with a key takes the newest row

frame = prices.to_pandas(where="price > 15").sort_values("sku")
print(frame.to_string(index=False))
print("mean:", frame.price.mean())
lake.close()
